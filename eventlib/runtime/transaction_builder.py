"""The open transaction of a task, and the steps of its journal entry."""

from collections.abc import Sequence

from eventlib.eventlog import latest_copy
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import NO_PAST, InputStart
from eventlib.runtime.records import JournalEntry, Positions, Step
from eventlib.runtime.transaction import Failure, Loss, ProcessingSpan

ANY_TIME_MS = 1 << 52
"""A time (ms) that no clock shows."""


class JournalSteps:
    """The journal steps of one transaction; consecutive inputs of a topic become one run.

    `before` are the runs of inputs that changed nothing since the last transaction. `next` maps each topic to the
    offset after its last input.
    """

    def __init__(self, before: Sequence[Step] = ()) -> None:
        self._steps: list[Step] = [*before]
        self._topic = ""
        self._first = self._last = -1
        self.acts = 0
        self.next: dict[str, int] = {}

    def took(self, record: Record) -> None:
        """Record an input."""
        topic, offset = record.topic, record.offset
        if topic != self._topic or offset != self._last + 1:
            self._end_run()
            self._topic, self._first = topic, offset
        self._last = offset
        self.next[topic] = offset + 1

    def went_past(self, topic: str, first: int, last: int) -> None:
        """Record a range of offsets that were skipped."""
        self._end_run()
        self._topic, self._first, self._last = topic, first, last
        self.next[topic] = last + 1

    def act(self, step: Step) -> None:
        """Record a step that is not an input."""
        self.acts += 1
        self._end_run()
        self._steps.append(step)

    def all(self) -> tuple[Step, ...]:
        """Return the steps so far."""
        self._end_run()
        return tuple(self._steps)

    def cut(self) -> tuple[Step, ...]:
        """Return the steps so far, and start again without them."""
        steps, self._steps = self.all(), []
        return steps

    def _end_run(self) -> None:
        if not self._topic:
            return
        first, before = self._first, self._steps[-1] if self._steps else None
        if before is not None and before.kind == "run" and (before.topic, before.last + 1) == (self._topic, first):
            first = before.first
            self._steps.pop()
        self._steps.append(Step("run", self._topic, first, self._last))
        self._topic = ""


class TransactionBuilder:
    """An open transaction: emitted records, journal steps, and effects to start after the commit.

    `at_ms` is its time and that of all records in it. `emitted` has the event of each record in `events`, or None;
    `requested` the effects to start; `emitted_count` the records emitted since the last journal entry was cut; `is_met`
    tells whether a decider handled one of its inputs, `failures` why inputs were parked. An input dated after `latest_ms` is parked. `spans` are its processing spans; empty if unobserved.
    """

    def __init__(self, at_ms: int, positions: Positions, passed: Sequence[Step]) -> None:
        self.at_ms = at_ms
        self.latest_ms = ANY_TIME_MS
        self.steps = JournalSteps(passed)
        self.events: list[Record] = []
        self.emitted: list[Event | None] = []
        self.requested: list[tuple[Record, Event | None]] = []
        self.spans: list[ProcessingSpan] = []
        self.parks = False
        self.failures: list[Failure] = []
        self.is_met = False
        self.past = positions.past
        self.first_ms = positions.first_ms
        self.topics = positions.topics
        self._from = positions
        self._entries: list[JournalEntry] = []
        self.emitted_count = 0

    def emit(self, records: list[Record], emitted: Sequence[Event], *, copies: bool) -> None:
        """Add emitted events; if some have `copies` in compacted topics, these too."""
        self.events += records
        self.emitted += emitted
        self.emitted_count += len(records)
        if not copies:
            return
        for record, event in zip(records, emitted, strict=True):
            contract = contract_of(type(event))
            if contract.topic.latest:
                self._add(latest_copy(record, tombstone=contract.tombstone))

    def park(self, copy: Record) -> None:
        """Add the copy of an input that is parked."""
        self._add(copy)
        self.parks = True

    def begin(self, beginnings: Sequence[InputStart]) -> None:
        """Start to read topics at their first offsets."""
        for topic, first, past_end, detail in beginnings:
            self.steps.act(Step("begin", topic, first, past_end, detail=detail))
            self.steps.next[topic] = first
            self.past = {**self.past, topic: past_end}
        if not self._from.next:
            self.first_ms = 0 if beginnings[0].detail == NO_PAST else self.at_ms

    def move(self, topic: str, to: int, why: str) -> None:
        """Seek a topic to another offset."""
        self.steps.act(Step("reset", topic, self._from.next[topic], to, detail=why))
        self.steps.next[topic] = to
        now = Positions(topics=self.topics)
        self.topics = now.with_facts(lost={name: what for name, what in now.lost.items() if name != topic}).topics

    def reset_clock(self, first_ms: int, last_ms: int, why: str) -> None:
        """Take back the times of a range: the task continues at the time of this transaction."""
        self.steps.act(Step("clock", first=first_ms, last=last_ms, detail=why))
        now = Positions(topics=self.topics)
        self.topics = now.with_facts(clock=now.clock.with_reset(first_ms, last_ms, self.at_ms)).topics

    def lose(self, losses: Sequence[Loss]) -> None:
        """Go on with topics whose next inputs are not on the log any more."""
        for topic, first, to, why, topic_id in losses:
            self.steps.act(Step("lose", topic, first, to, detail=why))
            self.steps.next[topic] = to
            self._note_loss(topic, topic_id, why)
            self.past = {name: end for name, end in self.past.items() if name != topic or to >= first}

    def next_of(self, topic: str) -> int:
        """Return the offset of a topic's next input."""
        expected = self.steps.next.get(topic)
        return self._from.next[topic] if expected is None else expected

    def cut(self, code_version: str) -> None:
        """End the journal entry: other tasks consume what was emitted so far, and may emit the next input.

        A replay needs an input's cause in an earlier entry.
        """
        self._entries.append(JournalEntry(code_version, self.at_ms, self.steps.cut(), self.emitted_count))
        self.emitted_count = 0

    def entries(self, code_version: str) -> list[JournalEntry]:
        """Return all journal entries of the transaction."""
        self.cut(code_version)
        return self._entries

    def positions(self) -> Positions:
        """Return the task's positions after the transaction."""
        next_offsets = {**self._from.next, **self.steps.next}
        past = {topic: end for topic, end in self.past.items() if next_offsets[topic] < end} if self.past else {}
        return Positions(next_offsets, self.at_ms, self.first_ms, past, self.topics)

    def _note_loss(self, topic: str, topic_id: str, why: str) -> None:
        now = Positions(topics=self.topics)
        ids, before = {**now.ids, topic: topic_id} if topic_id else now.ids, now.lost.get(topic)
        lost = {**now.lost, topic: f"{before}; {why}" if before else why}
        self.topics = now.with_facts(ids=ids, lost=lost).topics

    def _add(self, copy: Record) -> None:
        self.events.append(copy)
        self.emitted.append(None)
