"""Three services in a row, to see what one hands on to the next: asked, passed on, shown and called."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Never

from eventlib import Choreography, Decider, Event, EventLog, Meta, Service
from eventlib.model.topic import Topic
from eventlib.runtime.records import JournalEntry

ASKS = Topic("asks", partitions=2)


class Asked(Event, topic=ASKS, key="name", request=True):
    name: str
    patience_s: float | None = None


class Passed(Event, topic=Topic("passes", partitions=2), key="name"):
    name: str
    patience_s: float | None = None


class Shown(Event, topic=Topic("shows", partitions=2), key="name"):
    name: str


class Calling(Event, topic=Topic("calls", partitions=2), key="name"):
    name: str


class Called(Event, topic=Topic("calls", partitions=2), key="name"):
    name: str


class Late(Event, topic=Topic("lates", partitions=2), key="name", final=True):
    name: str


@dataclass(frozen=True)
class Seen:
    count: int = 0
    due_at: datetime | None = None


class Phone:
    """Somebody to call; who picks up when `free` is set."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.free = asyncio.Event()

    async def call(self, name: str) -> None:
        self.calls.append(name)
        await self.free.wait()


def three_services(broken: set[str]) -> Choreography:  # noqa: C901  three small services, all in one place
    """Return three services in a row: asked, passed on, shown and called; `broken` keys make the second one raise."""
    first: Decider[Seen] = Decider("first", state=Seen, key="name")
    second: Decider[Seen] = Decider("second", state=Seen, key="name")
    third: Decider[Seen] = Decider("third", state=Seen, key="name")

    def count(seen: Seen, event: Event, meta: Meta) -> Seen:
        match event:
            case Passed(patience_s=float(seconds)):
                return replace(seen, count=seen.count + 1, due_at=meta.recorded_at + timedelta(seconds=seconds))
            case _:
                return replace(seen, count=seen.count + 1)

    for decider in (first, second, third):
        decider.evolve(count)

    @first.on(Asked)
    def pass_on(_seen: Seen, asked: Asked) -> list[Passed]:
        return [Passed(name=asked.name, patience_s=asked.patience_s)]

    @second.on(Passed)
    def show(_seen: Seen, passed: Passed) -> list[Shown | Calling]:
        if passed.name in broken:
            raise RuntimeError("a bug in the handler")
        return [Shown(name=passed.name), Calling(name=passed.name)]

    @second.on(Called)
    def called(_seen: Seen, _called: Called) -> list[Never]:
        return []

    @second.deadline
    def late_at(seen: Seen) -> datetime | None:
        return seen.due_at

    @late_at.passed
    def late(_seen: Seen, meta: Meta) -> list[Late]:
        return [Late(name=meta.subject)]

    @second.effect(Calling)
    async def call(calling: Calling, phone: Phone) -> Called:
        await phone.call(calling.name)
        return Called(name=calling.name)

    @third.on(Shown, Called)
    def look(_seen: Seen, _event: Shown | Called) -> list[Never]:
        return []

    services = [Service(each.name, deciders=[each], effects="all") for each in (first, second, third)]
    return Choreography("three", services)


async def each_once(log: EventLog, service: str, partition: int) -> None:
    """See that a task has taken each record that it handles once, and each topic's in order."""
    taken = dict[str, list[int]]()
    for raw in await log.port.read(f"{service}.journal", partition, 0, 100_000):
        for step in log.codec.decode(JournalEntry, raw.value or b"").steps:
            if step.kind == "run":
                taken.setdefault(step.topic, []).extend(range(step.first, step.last + 1))
    for topic in log.choreography.service(service).inputs:
        records = await log.port.read(topic.name, partition, 0, 100_000)
        there = [r.offset for r in records if r.type != Calling.__name__]  # which no decider hears
        assert [o for o in taken.get(topic.name, []) if o in {*there}] == there, (service, topic.name)
