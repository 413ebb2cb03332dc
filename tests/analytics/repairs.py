"""Two services of nobody's shop: a desk that takes repairs, and a workshop that asks for parts and repairs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log


class RepairAsked(Event, topic="repair.requests", key="repair_id", request=True):
    """Somebody brings a thing."""

    repair_id: str
    kind: Literal["clock", "radio"]
    minutes: Annotated[int, Field(ge=1, le=600)]
    offset: Annotated[str, Field(pattern=r"^[a-z]*$")] = ""


class RepairTaken(Event, topic="repairs", key="repair_id"):
    """It is repaired, if there are parts."""

    repair_id: str
    minutes: int


class PartAsked(Event, topic="parts", key="repair_id"):
    """The supplier is asked for a part."""

    repair_id: str
    part: str


class PartSent(Event, topic="parts", key="repair_id"):
    """There is one."""

    repair_id: str
    part: str
    cents: int


class PartLacking(Event, topic="parts", key="repair_id", failure=True):
    """There is none."""

    repair_id: str
    reason: str


class RepairDone(Event, topic="repairs", key="repair_id", final=True):
    """The thing works again."""

    repair_id: str
    minutes: int


class RepairGivenUp(Event, topic="repairs", key="repair_id", final=True, reverses=RepairTaken):
    """It does not."""

    repair_id: str


_TOLD = 11 + 4 + 3
"""What is on the topic of repairs at last: those taken, those done, and those given up; two requests are parked."""


@dataclass(frozen=True)
class Repair:
    """What is known of it."""

    minutes: int = 0


desks = Decider("desk", state=Repair, key="repair_id")
benches = Decider("bench", state=Repair, key="repair_id")


@desks.on
def take(_repair: Repair, asked: RepairAsked) -> list[RepairTaken]:
    return [RepairTaken(repair_id=asked.repair_id, minutes=asked.minutes)]


@benches.evolve
def remember(repair: Repair, event: Event) -> Repair:
    return Repair(event.minutes) if isinstance(event, RepairTaken) else repair


@benches.on
def ask(_repair: Repair, taken: RepairTaken) -> list[PartAsked]:
    return [PartAsked(repair_id=taken.repair_id, part=f"part {taken.minutes % 3}")]


@benches.on
def repair(repair: Repair, sent: PartSent) -> list[RepairDone]:
    return [RepairDone(repair_id=sent.repair_id, minutes=repair.minutes)]


@benches.on
def give_up(_repair: Repair, lacking: PartLacking) -> list[RepairGivenUp]:
    return [RepairGivenUp(repair_id=lacking.repair_id)]


class Supplier:
    """The outside world: of `part 2` there is none, and for `part 1` it never answers."""

    async def send(self, part: str) -> int:
        """Return what a part costs."""
        if part == "part 1":
            await asyncio.Event().wait()
        return 0 if part == "part 2" else 250


@benches.effect(PartAsked)
async def order_part(asked: PartAsked, supplier: Supplier) -> PartSent | PartLacking:
    cents = await supplier.send(asked.part)
    if not cents:
        return PartLacking(repair_id=asked.repair_id, reason=f"no {asked.part}")
    return PartSent(repair_id=asked.repair_id, part=asked.part, cents=cents)


@asynccontextmanager
async def outside(_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Open the outside world."""
    yield {"supplier": Supplier()}


repairs = Choreography(
    "repairs",
    [Service("desk", deciders=[desks]), Service("workshop", deciders=[benches], effects="all")],
    ports=outside,
    analytics="tests.analytics.repair_tables",
)


def _older() -> type[Event]:
    class RepairAsked(Event, topic="repair.requests", key="repair_id", request=True):  # before anybody wrote an offset
        repair_id: str
        kind: str
        minutes: int

    return RepairAsked


def _laxer() -> type[Event]:
    class RepairAsked(Event, topic="repair.requests", key="repair_id", request=True):  # today's schema, without bounds
        """Somebody brings a thing."""

        repair_id: str
        kind: str
        minutes: int
        offset: str = ""

    return RepairAsked


OLDER: Any = _older()
LAXER: Any = _laxer()


async def worked(url: str) -> None:
    """Make a log of requests, by programs with other versions of their class, too, and let the services handle them."""
    kinds: tuple[Literal["clock", "radio"], ...] = ("clock", "radio")
    await _asked(url, OLDER, [OLDER(repair_id=f"old{n}", kind="clock", minutes=n * 3) for n in (0, 1)])
    new = [RepairAsked(repair_id=f"r{n}", kind=kinds[n % 2], minutes=n + 1, offset="x" * n) for n in range(10)]
    await _asked(url, RepairAsked, new)
    await _asked(url, LAXER, [LAXER(repair_id="lax", kind="sofa", minutes=3, offset="NOT LOWER")])
    async with open_log(url, repairs) as log, Runtime(log, ports={"supplier": Supplier()}), asyncio.timeout(60):
        while sum([await log.port.end("repairs", partition) for partition in range(8)]) < _TOLD:
            await asyncio.sleep(0.05)


async def _asked(url: str, writer: type[Event], requests: Sequence[Event]) -> None:
    async with open_log(url, Choreography("others", [], facts=[writer])) as log:
        await log.publish_many(requests)
