"""What becomes of the events that a service and its rerun have not said alike, when the service takes over."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlib.log.base import Record
from eventlib.model.identity import derived_id
from eventlib.operations.reprocessing.output_diff import OriginalOutput
from eventlib.operations.reprocessing.pending_inputs import note_of
from eventlib.operations.reprocessing.running import Rerun


@dataclass(frozen=True)
class CutoverPlan:
    """What is said then, what cannot be unsaid, and what has been heard already.

    `said` are the events that only the rerun has said, by its task, in order. `unsaid` are those that the service has
    said otherwise or alone; they stay. `names` gives events new ids whose own ones the service has used for something
    else. `heard` are the ids, by task, of events that the rerun's task has heard, and the service's is yet to hear.
    """

    said: Mapping[int, Sequence[Record]]
    unsaid: Sequence[OriginalOutput]
    names: Mapping[str, str]
    heard: Mapping[int, Sequence[str]]

    def named(self, record: Record) -> Record:
        """Return a record with the ids of events as they are said."""
        names = self.names
        event_id, cause = record.id, record.causation_id
        return record._replace(
            id=names.get(event_id, event_id) if event_id else event_id,
            causation_id=names.get(cause, cause) if cause else cause,
        )


async def ruling(rerun: Rerun) -> CutoverPlan:
    """Decide on all that was said up to now."""
    await rerun.sayings.catch_up()
    differ = rerun.sayings.differ(await rerun.times())
    new = [(pair, pair.new) for pair in differ if pair.new is not None and not pair.is_one_fact]
    names = {
        record.event_id: derived_id(f"{record.event_id}\x1f{record.type}", "rerun", rerun.run.name, 0)
        for pair, record in new
        if pair.old is not None and pair.old.event_id == record.event_id
    }
    said, heard = defaultdict[int, list[Record]](list), defaultdict[int, list[str]](list)
    for _, record in new:
        if _is_heard(rerun, record):
            heard[record.partition].append(names.get(record.event_id, record.event_id))
        if note_of(record).task in rerun.followers:
            said[note_of(record).task].append(record)
    for old, moved in rerun.sayings.moved:
        if old is not None and moved is not None and _is_heard(rerun, moved) and not _is_past(rerun, old):
            heard[old.partition].append(old.event_id)
    for records in said.values():
        records.sort(key=lambda record: (record.timestamp_ms, record.sequence or 0))
    return CutoverPlan(said, [pair for pair in differ if pair.old is not None], names, heard)


def _is_heard(rerun: Rerun, said: Record) -> bool:
    """Tell whether a task that is yet to take over has heard an event of the rerun."""
    hearer = rerun.followers.get(said.partition)
    home = rerun.unheard.home_of(said.topic)
    if hearer is None or home is None:
        return False
    place = note_of(said).place
    if place is None:
        return said.offset < hearer.task.positions.next.get(said.topic, 0)
    return place < hearer.task.positions.next.get(home, 0)


def _is_past(rerun: Rerun, recorded: Record) -> bool:
    hearer = rerun.followers.get(recorded.partition)
    return hearer is None or recorded.offset < hearer.task.positions.next.get(recorded.topic, 0)
