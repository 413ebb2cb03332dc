"""A log on which everything has happened that can happen to a key, made in one process within seconds."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eventlib import Event, Publication, Runtime, open_log, values
from eventlib.model.decider import Decider
from eventlib.model.record import Record
from eventlib.queries.parked import parkings
from services import shop
from services.order.events import CancelSubmitted, OrderCancelRequested, OrderLine, OrderSubmitted
from services.payment.decider import payments
from services.payment.events import ChargeRequested, PaymentFailed, PaymentTaken
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.stock.events import LineReserved
from services.stock.reservation import reservations
from tests.operators import request_retry
from tests.saga.running import IMPATIENT, PRICE_CENTS, SKU, STOCK, RunningShop, running_shop

GATEWAY = GatewayFaults(decline=0.1, timeout=0.1, lost=0.1, duplicate=0.1, silent=0.1)
CARRIER = CarrierFaults(undeliverable=0.1, timeout=0.1, lost=0.1, duplicate=0.1, silent=0.1)
A_DAY_MS = 24 * 3_600_000 + 60_000


class Clock:
    """The time of two days ago, and later if wanted: no log takes what is of tomorrow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = -2 * A_DAY_MS
        for reader in ("runtime.runner", "operations.parked_commands"):
            monkeypatch.setattr(f"eventlib.{reader}.now_ms", self)
        monkeypatch.setattr("eventlib.eventlog.time_ns", lambda: self() * 1_000_000)

    def __call__(self) -> int:
        return values.now_ms() + self.ahead_ms


async def make_eventful(url: str, directory: Path, clock: Clock, seed: int) -> None:
    """Fill a log: orders that end in every way, are asked for twice, cancelled, parked and tried again, overdue, and forgotten.

    The services are stopped in the middle, again and again, and run twice at once.
    """
    random = Random(seed)
    async with running_shop(url, directory) as running:
        running.set_faults(GATEWAY, CARRIER)
        await _in_pieces(running, random)
        await _with_two_owners(running, url, random)
        await _parked_and_again(running)
        await _overdue(running, clock)
        clock.ahead_ms += A_DAY_MS
        await _after_all_was_forgotten(running)


async def _in_pieces(running: RunningShop, random: Random) -> None:
    """Stop the services at any time, and start them again."""
    for piece in range(4):
        ids = [f"piece-{piece}-{n}" for n in range(12)]
        await running.log.publish_many([_order(random, order_id) for order_id in ids])
        async with running.services():
            await asyncio.sleep(random.uniform(0, 0.3))
            await running.log.publish_many([_cancel(order_id) for order_id in random.sample(ids, 4)])
            await running.log.publish_many([_order(random, order_id) for order_id in random.sample(ids, 2)])
            await asyncio.sleep(random.uniform(0, 0.3))
    async with running.services() as runtime:
        await runtime.idle()


async def _with_two_owners(running: RunningShop, url: str, random: Random) -> None:
    """Let another process's worth of services join while orders come in, and leave again."""
    ids = [f"owners-{n}" for n in range(30)]
    async with running.services(), open_log(url, shop) as other:
        await running.log.publish_many([_order(random, order_id) for order_id in ids[:15]])
        async with Runtime(other, ports=running.ports(), config=IMPATIENT):
            await asyncio.sleep(1.5)
            await running.log.publish_many([_order(random, order_id) for order_id in ids[15:]])
            await asyncio.sleep(0.5)
    async with running.services() as runtime:
        await runtime.idle()


async def _parked_and_again(running: RunningShop) -> None:
    """Park an effect, and keys behind a bug; mend that, and try again."""
    running.to_gateway.is_broken = True
    async with running.services() as runtime:
        await running.submit("broken")
        await runtime.idle()
    running.to_gateway.is_broken = False
    ids = [f"bug-{n}" for n in range(8)]
    with bug(payments, PaymentTaken, ids[:4]), bug(reservations, LineReserved, ids[4:]):
        await running.submit(*ids)
        async with running.services() as runtime:
            await runtime.idle()
            await running.cancel("bug-1")
            await runtime.idle()
            for parking in await parkings(running.log, {"bug-2"}):
                await request_retry(running.log, parking, "a test")
            await runtime.idle()
    async with running.services() as runtime:
        for parking in await parkings(running.log):
            if parking.key != "bug-3":
                await request_retry(running.log, parking, "a test")
        await runtime.idle()


async def _overdue(running: RunningShop, clock: Clock) -> None:
    """Let orders wait for a gateway that does not answer, until they are overdue."""
    late = ("late-0", "late-1")
    held = running.to_gateway.held = asyncio.Event()
    async with running.services() as runtime:
        await running.submit(*late)
        for order_id in late:
            await running.until(order_id, ChargeRequested)
        clock.ahead_ms += A_DAY_MS
        await running.submit(*late)  # again, so that their tasks look at the time
        for order_id in late:
            await running.until(order_id, OrderCancelRequested)
        running.to_gateway.held = None
        held.set()
        await runtime.idle()


async def _after_all_was_forgotten(running: RunningShop) -> None:
    """Say something about keys that are forgotten, and park one behind bytes that nobody can read."""
    async with running.services() as runtime:
        await running.log.publish_many([_cancel(f"piece-0-{n}") for n in range(12)])
        await runtime.idle()
        for n in range(6):
            await running.log.publish(PaymentFailed(order_id=f"piece-1-{n}", reason="again"))
        await runtime.idle()
        await _garbage(running, "bug-0")
        await running.log.publish(PaymentFailed(order_id="bug-0", reason="waits behind garbage"))
        await runtime.idle()


async def _garbage(running: RunningShop, key: str) -> None:
    place = "payments", running.log.choreography.service("payment").control.partition_of(key.encode())
    garbage = Record(*place, -1, values.now_ms(), key.encode(), b"\x00garbage", id="garbage", type="PaymentTaken")
    await running.log.port.append([garbage])


def _order(random: Random, order_id: str) -> Publication:
    """Return an order, or when it is asked for twice another one under the same key."""
    quantity = random.choice((1, 2, 3, STOCK + 1))
    lines = tuple(
        OrderLine(line_no=n + 1, sku=SKU, quantity=quantity, unit_price_cents=PRICE_CENTS)
        for n in range(random.choice((1, 1, 2, 3)))
    )
    order = OrderSubmitted(
        order_id=order_id, customer_id=None, country="EIRE", currency="GBP", lines=lines, placed_at=None
    )
    return Publication(order, idempotency_key=f"order/{order_id}")


def _cancel(order_id: str) -> Publication:
    return Publication(CancelSubmitted(order_id=order_id), idempotency_key=f"cancel/{order_id}")


@contextmanager
def bug(decider: Decider[Any], event_type: type[Event], keys: Collection[str]) -> Iterator[None]:
    """Let a handler raise for some keys."""
    whole = decider.handlers[event_type]

    def broken(state: object, event: Any, *meta: object) -> Sequence[Event]:
        if event.order_id in keys:
            raise RuntimeError("a bug in the handler")
        return whole.call(state, event, *meta)

    decider.handlers[event_type] = replace(whole, call=broken)
    try:
        yield
    finally:
        decider.handlers[event_type] = whole
