"""One process of a consumer in a simulated world: where it acts on the world, it may die, stand still, or be given up for dead."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from eventlib.errors import LogUnavailable, RetryableError
from eventlib.ground.startup import Startup
from eventlib.invariants import Violation
from eventlib.log.base import Claim, Membership, Reader, TopicPartition
from eventlib.log.memory import MemoryLog
from eventlib.log.reader import Waiting
from eventlib.model.record import Record
from eventlib.simulation.invariant_monitor import broken, of_the_log
from eventlib.simulation.log import SimulatedLog
from eventlib.simulation.world import World

DELIVERED = of_the_log("events_reach_consumers", "Each event that a sink or a subscriber asks for comes to it.")
ASKED = of_the_log("consumers_get_what_they_ask_for", "No other events come to a sink or a subscriber.")
ORDER = of_the_log("consumers_get_keys_in_order", "A key's events first come to a sink or a subscriber in their order.")
ONCE = of_the_log("sinks_count_once", "Each event counts once in a sink's rows.")

Location = tuple[str, int, int]
"""Topic, partition and offset of an event."""


class Receipts:
    """The events that one consumer gets; `once` of one that may not get any twice."""

    def __init__(self, name: str, *, once: bool) -> None:
        self.name = name
        self._once = once
        self._expected = dict[Location, tuple[str, int, bytes | None]]()
        self._lanes = dict[tuple[str, int, bytes | None], list[Location]]()
        self._by_id = dict[str, list[Location]]()
        self._taken = set[Location]()

    @property
    def missing(self) -> list[Location]:
        """The events that have not come yet."""
        return [location for location in self._expected if location not in self._taken]

    def expect(self, records: Sequence[Record]) -> None:
        """Take note of events for it that are on the log now."""
        for record in records:
            location, lane = record.location, (*record.topic_partition, record.key)
            self._expected[location] = lane
            self._lanes.setdefault(lane, []).append(location)
            self._by_id.setdefault(record.event_id, []).append(location)

    def take(self, event: Location | str) -> Iterator[Violation]:
        """Take note of an event that has come, by its location or its id, and return the violations."""
        location = self._location(event) if isinstance(event, str) else event
        if location is None or location not in self._expected:
            yield broken(ASKED, self.name, f"{event} came, and is not for it")
            return
        what = "{}/{}/{}".format(*location)
        if location in self._taken:
            if self._once:
                yield broken(ONCE, self.name, f"{what} counts twice")
            return
        self._taken.add(location)
        lane = self._expected[location]
        before = [each for each in self._lanes[lane] if each < location and each not in self._taken]
        if lane[2] is not None and before:
            yield broken(ORDER, self.name, f"{what} came before {'{}/{}/{}'.format(*before[0])}, which has its key")

    def _location(self, event_id: str) -> Location | None:
        """Return which of the records with an id it is: a request can be on the log twice. None for an event that is not for it."""
        known = self._by_id.get(event_id)
        if known is None:
            return None
        return next((each for each in known if each not in self._taken), known[-1])


T = TypeVar("T")


class Died(BaseException):
    """A process was killed: nothing that it does from here on has an effect."""


class Fate(Enum):
    """What becomes of a process where it acts on the world; GOES_ON is the harmless one."""

    GOES_ON = "goes on"
    DIES = "dies"
    STANDS_STILL = "stands still"
    GIVEN_UP = "is presumed dead, but alive"
    FAILS = "gets no answer"


_FATES = (*[Fate.GOES_ON] * 12, *tuple(Fate)[1:])
_LONG_MS = 40
_KNOWS_AFTER_S = 5.0


class ConsumerProcess:
    """One process of a consumer, in which `reached` marks each point at which it may die."""

    def __init__(self, world: World, name: str, receipts: Receipts) -> None:
        self.world = world
        self.faults = True
        self.is_alive = True
        self.waiting = Waiting()
        self.member: Membership | None = None
        self.task: asyncio.Task[None] | None = None
        self._name = name
        self._receipts = receipts

    @property
    def startup(self) -> Startup:
        """What waits for what does not answer, always as long."""
        return _Startup(lambda _: None)

    def now_ms(self) -> int:
        """Return the world's time."""
        return self.world.now_ms

    def choose(self, what: str, options: Sequence[T]) -> T:
        """Choose what happens; the first option is the harmless one."""
        return self.world.choose.one_of(f"{self._name}: {what}", options) if self.faults else options[0]

    def take(self, events: Sequence[Location | str]) -> None:
        """Take note that the world beyond has got events, each by its location or its id."""
        for event in events:
            self.world.monitor.violations += self._receipts.take(event)

    async def pause(self, what: str) -> None:
        """Let some time pass."""
        await asyncio.sleep((1 + self.choose(f"for how long {what}", range(_LONG_MS))) / 1000)

    async def reached(self, where: str, *, fails: bool = True) -> None:
        """Die here, or stand still, or go on. Raises: Died; LogUnavailable when what it acts on `fails`."""
        self.refuse_dead()
        fate = self.choose(where, _FATES if fails else _FATES[:-1])
        if fate is Fate.GOES_ON:
            return
        self.tell(f"{fate.value} {where}")
        match fate:
            case Fate.DIES:
                self.is_alive = False
            case Fate.STANDS_STILL:
                await self.pause("it stands still")
            case Fate.GIVEN_UP:
                await self._lose()
            case Fate.FAILS:
                raise LogUnavailable(f"simulated: no answer {where}")
        self.refuse_dead()

    def refuse_dead(self) -> None:
        """Let nothing that a dead process does have an effect. Raises: Died."""
        if not self.is_alive:
            raise Died

    def tell(self, what: str) -> None:
        """Take note of a fault."""
        self.world.faults[f"a consumer {what}"] += 1
        self.world.story.fault(what, self._name)

    async def _lose(self) -> None:
        """Let others take over, and act once more."""
        if self.member is not None:
            await self.member.leave()
            asyncio.get_running_loop().call_later(_KNOWS_AFTER_S, self.end)
        await self.pause("it stands still")

    def end(self) -> None:
        """Kill it."""
        self.is_alive = False
        if self.task is not None:
            self.task.cancel()


class _Startup(Startup):
    def failed(self, what: str, error: RetryableError) -> float:
        """See `Startup.failed`; chance is the schedule's alone."""
        super().failed(what, error)
        return 0.1


class ProcessLog(SimulatedLog):
    """A world's log as one process of a consumer sees it; other members see that one leave."""

    def __init__(self, of: SimulatedLog, process: ConsumerProcess) -> None:
        vars(self).update(vars(of))  # the same partitions and claims
        self.waiting = process.waiting  # woken in the processes' order: a set of readers has none
        self._of = of
        self._process = process

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`; the process may die before and after it."""
        await self._process.reached("before an append")
        if self._of.refuses:
            raise LogUnavailable("the log is down")
        offsets = await MemoryLog.append(self, records, claim)
        if any(record.topic in self._process.world.stage.topic_roles for record in records):  # not only its own notes
            self._of.appended(records, offsets)
        await self._process.reached("after an append")
        return offsets

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """See `Log.join`."""
        self._process.member = await MemoryLog.join(self, service, partitions, standbys)
        return self._process.member

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        return await MemoryLog.seize(self, service, partition)

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        self._process.refuse_dead()
        return self.written((topic, partition), offset, limit)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`."""
        return MemoryLog.reader(self, positions)
