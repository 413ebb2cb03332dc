"""Services go on from the copy of their log as if nothing had happened: states, parked keys, deadlines, answered ids."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.log.kafka.import_log import ImportLog
from eventlib.model.event import Meta
from eventlib.operations.held_log import held
from eventlib.operations.migration import Copying
from eventlib.queries.parked import parkings, waiting_inputs
from eventlib.queries.state import state_of
from eventlib.replay import replay
from eventlib.state.memory import MemoryStores
from tests.operators import request_retry

BROKEN = set[str]()


class Sold(Event, topic="sales", key="till", request=True):
    till: str
    units: int


class Closed(Event, topic="closings", key="till"):
    till: str
    units: int


@dataclass(frozen=True)
class Till:
    units: int = 0
    close_at: datetime | None = None


tills = Decider("till", state=Till, key="till")


@tills.evolve
def evolve(till: Till, event: Event, meta: Meta) -> Till:
    match event:
        case Sold(units=units):
            return replace(till, units=till.units + units, close_at=till.close_at or meta.recorded_at + OPEN_FOR)
        case _:
            return replace(till, close_at=None)


@tills.on(Sold)
def sell(_till: Till, sold: Sold) -> list[Never]:
    if sold.till in BROKEN:
        raise RuntimeError("the drawer is stuck")
    return []


@tills.deadline
def closing_at(till: Till) -> datetime | None:
    return till.close_at


@closing_at.passed
def close(till: Till, meta: Meta) -> list[Closed]:
    return [Closed(till=meta.subject, units=till.units)]


OPEN_FOR = timedelta(seconds=6)
desk = Choreography("desk", [Service("desk", deciders=[tills])])


@asynccontextmanager
async def running(log: EventLog) -> AsyncIterator[Runtime]:
    async with Runtime(log, stores=MemoryStores()) as runtime:
        yield runtime


async def test_states_parked_keys_deadlines_and_answers_move(tmp_path: Path, kafka_url: str) -> None:
    source, target = f"sqlite:///{tmp_path}/desk.db", kafka_url
    BROKEN.add("stuck")
    async with open_log(source, desk) as log:
        for number in range(5):
            await log.publish(Sold(till="open", units=1), idempotency_key=f"open-{number}")
            await log.publish(Sold(till="stuck", units=10), idempotency_key=f"stuck-{number}")
        async with running(log) as runtime:
            await runtime.idle()
        (parked,) = await parkings(log)
        waiting = await waiting_inputs(log, parked)
        assert await everything(log, "closings") == []  # its deadline is still to come

    async with held(source) as origin:
        incoming = await ImportLog.open(target)
        topics = [*(await origin.topics()).values()]
        await Copying(origin, incoming, topics, lambda *_: None).run("moved")
        await incoming.close()

    BROKEN.clear()
    async with open_log(target, desk) as log:
        assert await parkings(log) == [parked]
        assert await waiting_inputs(log, parked) == waiting
        await request_retry(log, parked, by="test")
        await log.publish(Sold(till="open", units=1), idempotency_key="open-3")  # it was answered before the move
        async with running(log) as runtime:
            await runtime.idle()
            while len(await everything(log, "closings")) < 2:
                await runtime.idle()
        closings = {event.till: event.units for event in await everything(log, "closings")}
        assert closings == {"open": 5, "stuck": 50}
        assert (await state_of(log, "till", "open")).state == Till(units=5)
        report = await replay(log)
        assert report.same, report.first or report.unknown


async def everything(log: EventLog, topic: str) -> list[Closed]:
    partitions = (await log.port.topics())[topic].partitions
    records = [record for p in range(partitions) for record in await log.port.read(topic, p, 0, 1_000)]
    return [event for _, event in await log.decode_many(records) if isinstance(event, Closed)]
