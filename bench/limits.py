"""Four processes under one limit before an nginx with `limit_req`: `python -m bench.limits [MINUTES]`.

Each minute one of them is killed, or stands still for a while. It prints the rate of each 20 s, their average, and how many
calls were refused (429). It starts a broker of its own.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex

import httpx

from eventlib.devtools.kafka import ClusterConfig, running_cluster
from tests.integration.test_limits_nginx import ALLOWED, BURST, LOAD, PROCESSES, disturb, publish, started
from tests.nginx import Nginx, running_nginx
from tests.saga.fleet import Fleet
from tests.saga.shop_runs import ShopLog

_SPAN_S = 20.0
_BROKER = ClusterConfig(java_options=("-Xmx1g", "-XX:+UseSerialGC"))


def rates(times: Sequence[float]) -> list[float]:
    """Return how many calls a second there were in each whole span, from the first call on."""
    spans = int((times[-1] - times[0]) // _SPAN_S) if times else 0
    counts = [0] * spans
    for at in times:
        if (span := int((at - times[0]) // _SPAN_S)) < spans:
            counts[span] += 1
    return [count / _SPAN_S for count in counts]


def measure(minutes: float, directory: Path, broker_url: str) -> None:
    """Run, and print what nginx has seen."""
    url = f"{broker_url}/?prefix={token_hex(4)}."
    asyncio.run(publish(url, int(minutes * 60 * LOAD)))
    with running_nginx(directory / "nginx", ALLOWED, BURST) as nginx, Fleet(ShopLog(directory, url)) as fleet:
        started(fleet, url, nginx)
        ends, turn, shown, disturbed_at = time.monotonic() + minutes * 60, 0, 0, time.monotonic()
        while time.monotonic() < ends:
            time.sleep(1)
            found = rates([at for _, at, _ in nginx.answered()])
            for each in found[shown:]:
                print(f"{shown * _SPAN_S:5.0f} s  {each:5.1f} a second", flush=True)
                shown += 1
            if time.monotonic() - disturbed_at > 60 and ends - time.monotonic() > 60:
                disturb(fleet, turn)
                turn, disturbed_at = turn + 1, time.monotonic()
        fleet.stop(*PROCESSES)
        summary(nginx)


def summary(nginx: Nginx) -> None:
    """Print the average rate, and how many calls were refused."""
    times, statuses = [at for _, at, _ in nginx.answered()], nginx.statuses()
    average = (len(times) - 1) / (times[-1] - times[0])
    print(
        f"{len(times):,} calls, on average {average:.1f} a second of {LOAD} that the limit allows; nginx allows {ALLOWED}"
    )
    print(f"{statuses[httpx.codes.TOO_MANY_REQUESTS]:,} answers 429; by status: {dict(statuses)}")


if __name__ == "__main__":
    with running_cluster(_BROKER) as broker, tempfile.TemporaryDirectory() as kept:
        measure(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, Path(kept), broker.url)
