"""The three bugs that the simulator once found, as changes of the shop's sources, and logs on which they have had victims."""

import asyncio
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from eventlib.log.base import Log
from eventlib.log.open import open_port
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.order.events import CancelSubmitted
from services.simulation.scenario import ShopScenario
from tests.saga.mutants_of_services import OPEN, SERVICES, UNANSWERED
from tests.saga.running import running_shop


class FoundBug(NamedTuple):
    """A bug of the services' sources, and what it has to break: a key in flight, by which it is found."""

    file: str
    changes: tuple[tuple[str, str], ...]
    in_flight: str


_BOOKING = """    match await carrier.book(meta.id, request.order_id, request.country):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Planned():
            return BookingAccepted(order_id=request.order_id)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)
"""
_BOOKING_AND_RECALLING = """    booked: Booked | Planned | Undeliverable | Recalled
    try:
        booked = await carrier.book(meta.id, request.order_id, request.country)
    except OutcomeUnknown:
        booked = await carrier.recall(meta.id)
    match booked:
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Planned():
            return BookingAccepted(order_id=request.order_id)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)
        case Recalled():
            return DispatchFailed(order_id=request.order_id, reason=CARRIER_SILENT)
"""

FOUND = {
    "two questions in one effect": FoundBug(
        "services/dispatch/effects.py",
        ((_BOOKING, _BOOKING_AND_RECALLING), ("FOREVER, Meta, Retry\n", "FOREVER, Meta, OutcomeUnknown, Retry\n")),
        "booking",
    ),
    "an order ends before dispatch has answered": FoundBug(UNANSWERED[0], UNANSWERED[1:], "charging"),
    "a cancellation opens what was forgotten": FoundBug(OPEN[0], OPEN[1:], "charging"),
}


def write_victims(name: str, path: Path) -> str:
    """Play the schedule by which the simulator finds a bug, and write its log; return what its victim has broken."""
    mutant = SERVICES[name]
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        schedule = Schedule(
            Stage(shop), ShopScenario(), 1 + mutant.seed % 3, drawn_from(Random(mutant.seed)), keep_story=False
        )
        with pytest.raises(InvariantViolated) as broken:
            schedule.play()
    asyncio.run(_copied(schedule.world.log.port, path))
    return broken.value.violation.invariant.name


async def _copied(port: Log, path: Path) -> None:
    log = await open_port(f"sqlite:///{path}")
    topics = [*(await port.topics()).values()]
    await log.create_topics(topics)
    for topic in topics:
        for partition in range(topic.partitions):
            records = await port.read(topic.name, partition, 0, 1_000_000)
            assert [record.offset for record in records] == [*range(len(records))]
            await log.append(records)
    await log.close()


async def put_in_flight(url: str, directory: Path, kind: str) -> None:
    """Let the services go on with a log, and end while an order is in flight: its booking or its charge is not answered.

    The customer of the second one wants to cancel it.
    """
    async with running_shop(url, directory) as running:
        script, call = (running.to_carrier, "book") if kind == "booking" else (running.to_gateway, "charge")
        script.held = asyncio.Event()
        async with running.services():
            await running.submit(kind)
            await running.until_true(lambda: script.calls[call] > 0)
        if kind == "charging":
            await running.log.publish(CancelSubmitted(order_id=kind))
