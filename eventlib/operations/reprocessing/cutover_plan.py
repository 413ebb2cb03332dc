"""Plans a cutover: what happens to events that differ between a service and its rerun."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.operations.reprocessing.output_diff import OriginalOutput
from eventlib.operations.reprocessing.pending_inputs import note_of
from eventlib.operations.reprocessing.running import Rerun


@dataclass(frozen=True)
class CutoverPlan:
    """Which events are emitted at the cutover, which stay, and which are consumed already.

    `emitted` are the events that only the rerun emitted, by its task, in order. `kept` are the service's events that are
    missing or changed in the rerun; they stay. `names` has new ids for events whose ids the service has used for something
    else. `consumed` are the ids, by task, of events that the rerun's task has consumed and the service's has not.
    """

    emitted: Mapping[int, Sequence[Record]]
    kept: Sequence[OriginalOutput]
    names: Mapping[str, str]
    consumed: Mapping[int, Sequence[str]]

    def named(self, record: Record) -> Record:
        """Return a record with the ids under which events are emitted."""
        names = self.names
        event_id, cause = record.id, record.causation_id
        return record.replace(
            id=names.get(event_id, event_id) if event_id else event_id,
            causation_id=names.get(cause, cause) if cause else cause,
        )


async def cutover_plan(rerun: Rerun) -> CutoverPlan:
    """Plan for all outputs up to now."""
    await rerun.outputs.catch_up()
    changed = rerun.outputs.changed(await rerun.times())
    new = [(pair, pair.new) for pair in changed if pair.new is not None and not pair.is_one_fact]
    names = {
        record.event_id: derived_id(f"{record.event_id}\x1f{record.type}", "rerun", rerun.run.name, 0)
        for pair, record in new
        if pair.old is not None and pair.old.event_id == record.event_id
    }
    emitted, consumed = defaultdict[int, list[Record]](list), defaultdict[int, list[str]](list)
    for _, record in new:
        if _is_consumed(rerun, record):
            consumed[record.partition].append(names.get(record.event_id, record.event_id))
        if note_of(record).task in rerun.followers:
            emitted[note_of(record).task].append(record)
    for old, moved in rerun.outputs.moved:
        if old is not None and moved is not None and _is_consumed(rerun, moved) and not _is_past(rerun, old):
            consumed[old.partition].append(old.event_id)
    for records in emitted.values():
        records.sort(key=lambda record: (record.timestamp_ms, record.sequence or 0))
    return CutoverPlan(emitted, [pair for pair in changed if pair.old is not None], names, consumed)


def _is_consumed(rerun: Rerun, emitted: Record) -> bool:
    """Return whether a task that has not taken over yet has consumed an event of the rerun."""
    consumer = rerun.followers.get(emitted.partition)
    topic = rerun.pending.input_topic(emitted.topic)
    if consumer is None or topic is None:
        return False
    offset = note_of(emitted).offset
    if offset is None:
        return emitted.offset < consumer.task.positions.next.get(emitted.topic, 0)
    return offset < consumer.task.positions.next.get(topic, 0)


def _is_past(rerun: Rerun, recorded: Record) -> bool:
    consumer = rerun.followers.get(recorded.partition)
    return consumer is None or recorded.offset < consumer.task.positions.next.get(recorded.topic, 0)
