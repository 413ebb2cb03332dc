"""Four processes under one limit in front of a real nginx with `limit_req`: it refuses nothing, also when one dies or hangs."""

import asyncio
import sys
import time
from bisect import bisect_left
from pathlib import Path

import httpx
import pytest

from eventlib import Publication, open_log
from examples.payouts import PayoutSubmitted
from tests.integration.limited_payer import desk
from tests.nginx import Nginx, running_nginx
from tests.saga.fleet import Fleet
from tests.saga.shop_runs import ShopLog

LOAD, ALLOWED, BURST = 38, 40, 40
"""What the processes ask in a second, and what nginx allows in a second and at once.

Calls that are out may arrive together, after a stall of anything on their way: so it has to allow as many at once as are out
(16), and the limit's own burst (16); and once more what a process had out that is killed.
"""
PROCESSES = [f"payer-{n}" for n in range(4)]
SESSION_S = 6.0


async def publish(url: str, payouts: int) -> None:
    async with open_log(url, desk) as log:
        for first in range(0, payouts, 2_000):
            numbers = range(first, min(first + 2_000, payouts))
            await log.publish_many(
                [
                    Publication(PayoutSubmitted(payout_id=str(n), customer_id=str(n % 7), amount_cents=100))
                    for n in numbers
                ]
            )


def started(fleet: Fleet, url: str, nginx: Nginx) -> None:
    payer = (sys.executable, "-m", "tests.integration.limited_payer", url, nginx.url)
    for name in PROCESSES:
        fleet.start(name, *payer)
    for name in PROCESSES:
        fleet.ready(name, "Running")


def disturb(fleet: Fleet, turn: int) -> None:
    """Kill a process and start it again, or let it stand still until others have taken over."""
    name = PROCESSES[turn % len(PROCESSES)]
    if turn % 2:
        fleet.pause(name)
        time.sleep(SESSION_S + 4)
        fleet.go_on(name)
    else:
        fleet.kill(name)
        fleet.start(name)


def wait_for_calls(nginx: Nginx, at_least: int, longest_s: float) -> None:
    until = time.monotonic() + longest_s
    while (found := len(nginx.answered())) < at_least:
        assert time.monotonic() < until, f"{found} calls, and not {at_least}"
        time.sleep(0.2)


def refused(nginx: Nginx) -> list[tuple[float, int]]:
    """Return when (s since the first call) calls were refused, and how many came in the half second before each."""
    times = [at for _, at, _ in nginx.answered()]
    return [
        (round(at - times[0], 2), sum(at - 0.5 < each <= at for each in times))
        for status, at, _ in nginx.answered()
        if status == httpx.codes.TOO_MANY_REQUESTS
    ]


def most_a_second(nginx: Nginx, span_s: float = 5.0) -> float:
    """Return the rate of the best seconds: a busy machine has worse ones."""
    times = [at for _, at, _ in nginx.answered()]
    return max(bisect_left(times, at + span_s) - n for n, at in enumerate(times)) / span_s


@pytest.mark.extended
def test_a_gateway_refuses_nothing_at_95_percent_of_its_limit(tmp_path: Path, kafka_url: str) -> None:
    asyncio.run(publish(kafka_url, 40 * LOAD))
    with running_nginx(tmp_path / "nginx", ALLOWED, BURST) as nginx, Fleet(ShopLog(tmp_path, kafka_url)) as fleet:
        started(fleet, kafka_url, nginx)
        wait_for_calls(nginx, 20 * LOAD, longest_s=240)
        fleet.kill(PROCESSES[0])
        time.sleep(SESSION_S)
        fleet.start(PROCESSES[0])
        fleet.ready(PROCESSES[0], "Running")
        wait_for_calls(nginx, 30 * LOAD, longest_s=240)
        print(nginx.statuses(), refused(nginx), f"{most_a_second(nginx):.1f} a second")
        assert set(nginx.statuses()) == {200}
        assert most_a_second(nginx) >= 0.9 * LOAD
        fleet.stop(*PROCESSES)


@pytest.mark.slow
def test_a_gateway_refuses_nothing_in_ten_minutes_of_deaths_and_stalls(tmp_path: Path, kafka_url: str) -> None:
    url, minutes = kafka_url, 10
    asyncio.run(publish(url, minutes * 60 * LOAD))
    with running_nginx(tmp_path / "nginx", ALLOWED, BURST) as nginx, Fleet(ShopLog(tmp_path, url)) as fleet:
        started(fleet, url, nginx)
        ends = time.monotonic() + minutes * 60
        for turn in range(1_000):
            time.sleep(60)
            if time.monotonic() > ends - 60:
                break
            disturb(fleet, turn)
        print(nginx.statuses(), refused(nginx))
        assert set(nginx.statuses()) == {200}
        assert most_a_second(nginx, 20) >= 0.9 * LOAD
