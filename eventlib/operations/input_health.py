"""Whether the tasks of services can read what they have not read yet: what is gone, held back, or in another partition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlib.eventlog import EventLog
from eventlib.log.base import Log, OpenTransaction, TopicIdentity, TopicPartition
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.losses import losses_of
from eventlib.runtime.records import Positions
from eventlib.runtime.topic_watch import fault_of
from eventlib.values import from_ms


@dataclass(frozen=True, slots=True)
class InputLoss:
    """Inputs of a service that are gone before it has read them; `is_noted` when it has gone on behind them already."""

    service: str
    topic: str
    partition: int
    what: str
    is_noted: bool

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if not self.is_noted:
            return "the service notes it in its journal when it runs, and goes on; restore the log first if you have a copy"
        return (
            f"restore what you need from a copy or the publishers, then `eventlib reset {self.service} --accept-loss "
            "--reason WHY`"
        )


@dataclass(frozen=True, slots=True)
class HeldInput:
    """Records at a partition's end that cannot be read before somebody's transaction ends; `by` as far as that is known."""

    topic: str
    partition: int
    offsets: int
    by: Sequence[OpenTransaction]

    @property
    def what(self) -> str:
        """It as a sentence."""
        whose = "; ".join(
            f"{each.by}, open from offset {each.first} on, last written at {from_ms(each.written_ms):%Y-%m-%d %H:%M:%S} UTC"
            for each in self.by
        )
        return f"{self.topic}/{self.partition}: {self.offsets:,} offsets are behind an open transaction: {whose or 'whose is not known'}"


async def topic_faults(log: EventLog) -> list[str]:
    """Return what keeps services from reading topics whole, other than that they are not on the log yet."""
    declared = {topic.name: topic.partitions for service in log.choreography.services for topic in service.inputs}
    there = await log.port.identities(declared)
    return [fault for name, count in declared.items() if name in there and (fault := fault_of(name, count, there))]


async def input_losses(log: EventLog, notes: TaskNotes) -> list[InputLoss]:
    """Return what tasks have noted as lost, and what is gone by now of what they have not read."""
    names = {topic.name for service in log.choreography.services for topic in (*service.inputs, service.control)}
    identities, topics = await log.port.identities(names), await log.port.topics()
    found = list[InputLoss]()
    for service, partition in notes.tasks:
        positions = await notes.positions(service, partition)
        if positions is not None:
            found += [InputLoss(service.name, topic, partition, what, True) for topic, what in positions.lost.items()]
            found += await _gone(log.port, (service, partition), positions, identities, topics)
    return found


async def _gone(
    port: Log,
    task: tuple[Service, int],
    positions: Positions,
    identities: Mapping[str, TopicIdentity],
    topics: Mapping[str, Topic],
) -> list[InputLoss]:
    service, partition = task
    gaps = dict[TopicPartition, tuple[int, int]]()
    for topic, at in positions.next.items():
        if topic not in topics or partition >= topics[topic].partitions:
            continue
        place = topic, partition
        start = 0 if topics[topic].compacted else await port.log_start(*place)
        end = await port.written_end(*place)
        if at < start or at > end:
            gaps[place] = at, start if at < start else end
    losses = await losses_of(port, partition, positions, gaps, identities)
    return [InputLoss(service.name, loss.topic, partition, loss.why, False) for loss in losses]


async def held_inputs(log: EventLog) -> list[HeldInput]:
    """Return the inputs that open transactions hide; they are gone after moments in a healthy log."""
    there, found = await log.port.topics(), list[HeldInput]()
    inputs = {topic.name for service in log.choreography.services for topic in service.inputs}
    for name in sorted(inputs & there.keys()):
        for partition in range(there[name].partitions):
            hidden = await log.port.written_end(name, partition) - await log.port.end(name, partition)
            if hidden > 0:
                found.append(HeldInput(name, partition, hidden, await log.port.holders(name, partition)))
    return found
