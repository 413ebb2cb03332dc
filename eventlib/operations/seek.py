"""Seeks a service's tasks forwards on an operator's command; the skipped inputs are recorded."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, OwnershipLost
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, TopicPartition
from eventlib.log.reading import records_between
from eventlib.log.seizing import seizing
from eventlib.model.record import key_text
from eventlib.model.service import Service
from eventlib.queries.stream import start_of
from eventlib.queries.task_clock import positions_of
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.records import code_version
from eventlib.runtime.restore import restored
from eventlib.runtime.runtime import prepare_own
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, SeekOffset, Transaction
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms, to_ms

Decide = Callable[[Task], Awaitable[Inputs | None]]
"""Decides what a task does once it is claimed; None for nothing."""


async def act(log: EventLog, service: Service, partition: int, decide: Decide) -> Transaction | None:
    """Commit one transaction of a task from this process, and return it; None when there was nothing to do.

    The current owner loses the task for that moment, and continues afterwards. Guarantee: `decide` gets the task as its
    last transaction left it, and no other transaction comes in between. Requested effects are pending on the changelog,
    and the service runs them.
    Raises: OwnershipLost when others kept taking the task; what `decide` raises. Then nothing was changed.
    """
    await log.prepare()
    await prepare_own(log, [service])
    context = RuntimeContext(log, MemoryStores(), {}, {}, RuntimeConfig(), code_version(log.choreography))
    # The long restore runs before the claim, so that with it only the newest changes are left to read.
    (await restored(service, Claim(service.name, partition, 0), context)).state.close()

    async def attempt() -> Transaction | None:
        claim = await log.port.seize(service.name, partition)
        return await _act(log, claim, await restored(service, claim, context), decide)

    try:
        return await seizing(attempt)
    except OwnershipLost as error:
        raise OwnershipLost(
            f"partition {partition} of service {service.name!r} gets another owner each time: another command may be working "
            "on it; nothing was changed, try again later"
        ) from error


async def _act(log: EventLog, claim: Claim, task: Task, decide: Decide) -> Transaction | None:
    inputs = await decide(task)
    if inputs is None:
        return None
    transaction = await handled(log, task, inputs)
    await log.port.append(transaction.records, claim)
    return transaction


async def handled(log: EventLog, task: Task, inputs: Inputs) -> Transaction:
    """Return the transaction that a task makes of inputs, after learning the schemas that are new."""
    try:
        return task.handle(inputs)
    except UnknownSchema:
        task.rolled_back()
        await log.codec.refresh()
        return task.handle(replace(inputs, schemas_known=True))


Later = Literal["latest"] | datetime
"""Where to continue: at the current end, or at the first input that is not older than a time (UTC)."""


@dataclass(frozen=True, slots=True)
class SeekPlan:
    """A seek forwards in one partition: inputs from `first` on are skipped, `to` is the next one to handle.

    `keys` counts, by key, the skipped inputs that the service would have handled.
    """

    topic: str
    partition: int
    first: int
    to: int
    keys: Mapping[str, int]

    @property
    def inputs(self) -> int:
        """How many inputs are skipped."""
        return sum(self.keys.values())


def reset_target(to: str) -> Literal["earliest"] | Later:
    """Read where a reset goes: earliest, latest, or a time. Raises: ContractError."""
    start = start_of(to)
    if isinstance(start, int):
        raise ContractError(f"{to}: offsets differ from task to task; write earliest, latest, or a time")
    return start


async def reset_plans(
    log: EventLog, service: Service, to: Literal["earliest"] | Later, topics: Sequence[str] = ()
) -> list[SeekPlan] | None:
    """Return the seeks of a reset; None when it goes back: that is a rerun whose states the service takes over.

    Raises: ContractError as `seek_plans`, and for topics on the way back.
    """
    if to != "earliest" and not await _is_back(log, service, to):
        return await seek_plans(log, service, to, topics)
    if topics:
        raise ContractError(
            f"topic {topics[0]}: the states of {service.name} come from all of its topics, so that it cannot go back in one "
            "of them alone; name no topic"
        )
    return None


async def _is_back(log: EventLog, service: Service, to: Later) -> bool:
    if to == "latest":
        return False
    positions = [await positions_of(log, service, partition) for partition in range(service.partitions)]
    return any(each.at_ms >= to_ms(to) for each in positions)


async def seek_plans(log: EventLog, service: Service, to: Later, topics: Sequence[str] = ()) -> list[SeekPlan]:
    """Return the seeks that a service would make; `topics` limits them (default: all of its inputs).

    Raises: ContractError for a topic that the service does not consume, or has never begun to consume.
    """
    wanted = _topics(service, topics)
    found = list[SeekPlan]()
    for partition in range(service.partitions):
        positions = await positions_of(log, service, partition)
        for topic in wanted:
            first = positions.next.get(topic)
            if first is None:
                raise ContractError(
                    f"{service.name} has never read {topic} on this log, so there is no position to move: where it "
                    "begins is its start_from"
                )
            place = topic, partition
            end = await (log.port.end(*place) if to == "latest" else log.port.offset_at(*place, to_ms(to)))
            keys = await _keys(log, service, place, first, end)
            if keys:  # where nothing would be handled, there is nothing to skip
                found.append(SeekPlan(topic, partition, first, end, keys))
    return found


async def move(log: EventLog, service: Service, along: Sequence[SeekPlan], why: str) -> list[SeekPlan]:
    """Seek a service's tasks, each in its own transaction, and return what each skipped.

    Inputs handled meanwhile are not included. Guarantee: who moved what, when and why is recorded in the journal.
    Raises: OwnershipLost when another process keeps taking a task; tasks moved before stay moved.
    """
    done = list[SeekPlan]()
    for partition in sorted({passage.partition for passage in along}):
        done += await _moved(log, service, partition, [p for p in along if p.partition == partition], why)
    return done


async def _moved(
    log: EventLog, service: Service, partition: int, along: Sequence[SeekPlan], why: str
) -> list[SeekPlan]:
    left = list[SeekPlan]()

    async def decide(task: Task) -> Inputs | None:
        left.clear()
        for topic, first, to in ((way.topic, task.positions.next[way.topic], way.to) for way in along):
            if first < to:
                place = topic, partition
                left.append(SeekPlan(*place, first, to, await _keys(log, service, place, first, to)))
        moves = [SeekOffset(way.topic, way.to, why) for way in left]
        return Inputs(now_ms(), acts=moves) if moves else None

    await act(log, service, partition, decide)
    return left


async def accept_losses(log: EventLog, service: Service, why: str) -> list[str]:
    """Note in the journal that what a service has lost of its inputs is accepted, and return what that was.

    Raises: OwnershipLost when another process keeps taking a task.
    """
    accepted = list[str]()
    for partition in range(service.partitions):
        if not (await positions_of(log, service, partition)).lost:
            continue
        lost = list[str]()

        async def decide(task: Task, lost: list[str] = lost) -> Inputs | None:
            lost[:] = task.positions.lost.values()
            acts = [SeekOffset(topic, task.positions.next[topic], why) for topic in task.positions.lost]
            return Inputs(now_ms(), acts=acts) if acts else None

        await act(log, service, partition, decide)
        accepted += lost
    return accepted


def _topics(service: Service, named: Sequence[str]) -> list[str]:
    read = [topic.name for topic in service.inputs]
    for name in named:
        if name not in read:
            raise ContractError(f"{service.name} does not read {name!r}: it reads {', '.join(sorted(read))}")
    return [name for name in read if not named or name in named]


async def _keys(log: EventLog, service: Service, place: TopicPartition, first: int, end: int) -> Mapping[str, int]:
    deciders_of = InputReader(log, service).deciders_of
    keys = Counter[str]()
    async for record in records_between(log.port, place, first, end):
        if deciders_of(record) is not None:
            keys[key_text(record)] += 1
    return dict(keys)  # a Counter would not be the same in JSON
