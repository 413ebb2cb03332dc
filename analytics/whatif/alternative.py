"""The alternative past: the recorded inputs and answers, in the recorded order, decided by other rules."""

from collections import deque
from collections.abc import Iterable, Mapping

from analytics.whatif.hypothesis import Hypothesis
from analytics.whatif.moment import Inputs, Item, MomentTask, Slot, Source, in_causal_order
from analytics.whatif.played import Due, TaskName, followed
from analytics.whatif.rows import Side
from analytics.whatif.timeline import Timeline
from eventlib.eventlog import EventLog
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.identity import derived_id
from eventlib.model.record import Record, key_text
from eventlib.replay.journal_steps import NONE_REFUSED, Answered, DeadlinePassed, Refusal
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.records import JournalEntry, TaskTime
from eventlib.runtime.transaction import Answer


class Alternative(Timeline):
    """Plays the log from its beginning to its end.

    `moment` is called with all that has one recorded time, in the order of time, then `end`. Deadlines that did not pass
    then pass when they are due, after all inputs that were there by then; none after `horizon_ms`, the log's end.
    """

    def __init__(self, recorded: EventLog, first: EventLog, hypothesis: Hypothesis, horizon_ms: int) -> None:
        super().__init__(recorded, hypothesis, horizon_ms)
        self._inputs = dict[TaskName, Inputs]()
        self._emitters = {service.emits_as for service in followed(hypothesis.today.choreography)}
        self.play_by(first)

    def play_by(self, log: EventLog) -> None:
        """See `Timeline.play_by`."""
        super().play_by(log)
        for service in followed(log.choreography):
            self._emitters.add(service.emits_as)
            for partition in range(service.partitions):
                inputs = self._inputs.setdefault((service.name, partition), Inputs())
                inputs.follow(topic.name for topic in service.inputs)

    def announce(self, task: TaskName, due: Due) -> None:
        """Take note that a deadline passed then, later than it was due."""
        self._announced.add((task, due))

    def moment(
        self, time: TaskTime, records: Iterable[Record], entries: Iterable[tuple[TaskName, JournalEntry]]
    ) -> None:
        """Play what has one recorded time."""
        order_ms, at_ms = time
        self._advance(order_ms)
        self._ahead_ms = at_ms - order_ms
        self._twins = {}
        for record in records:
            self._arrive(record)
        tasks = dict[TaskName, deque[Item]]()
        for name, entry in entries:
            if name in self._tasks:
                tasks.setdefault(name, deque()).extend(self._inputs[name].items(entry))
        names = [*tasks]
        in_order = [MomentTask(self._tasks[name].service.emits_as, items) for name, items in tasks.items()]
        for number, item in in_causal_order(at_ms, in_order, self._is_there):
            self._do(names[number], item, at_ms)
        self._ahead_ms = 0
        self._advance(order_ms + 1)
        for twin in self._twins.values():
            self._touch(twin)
            self.rows.append(
                self._make.differing(Side(twin, self._make.event(twin)), None, "recorded", twin.source or "")
            )

    def end(self) -> None:
        """Play what is left: inputs that no journal has come to, and deadlines up to the log's end."""
        self._twins = {}
        for name, inputs in self._inputs.items():
            for slot in inputs.left():
                self._handle_slot(name, slot, self._horizon_ms)
        self._advance(self._horizon_ms + 1)

    def _is_there(self, slot: Slot) -> bool:
        return (slot.topic, slot.partition, slot.offset) in self._placed

    # --- what comes from outside

    def _arrive(self, record: Record) -> None:
        """Take a recorded record: one from outside as it is supposed, one that was decided as what to compare with."""
        service = (record.source or "").partition("/")[0]
        cause: Source | None = None
        if service in self._emitters and "/" in (record.source or ""):
            self._twins[record.event_id] = record
            cause = service, record.causation_id or ""
        for name in self._consumers.get((record.topic, record.partition), ()):
            if name in self._journalled:
                self._inputs[name].add(record, cause)
        if cause is None:
            self._arrive_from_outside(record)

    def _arrive_from_outside(self, record: Record) -> None:
        event = None if record.topic in self._played.external.topics else self._make.event(record)
        if event is None or not self._hypothesis.changes_inputs or record.timestamp_ms < self._hypothesis.since_ms:
            self._arrive_as_recorded(record, event)
            return
        instead = self._hypothesis.inputs(event)
        if not instead:
            self.rows.append(self._make.differing(Side(record, event), None, "recorded", record.source or ""))
            self._touch(record)
        for ordinal, each in enumerate(instead):
            self._suppose(record, event, each, ordinal)

    def _arrive_as_recorded(self, record: Record, event: Event | None) -> None:
        self._place(record, event, (record.topic, record.partition, record.offset))
        row = self._make.unchanged(Side(record, event), record, "recorded", record.source or "", answer=False)
        self.rows.append(row)

    def _suppose(self, record: Record, recorded: Event, event: Event, ordinal: int) -> None:
        """Put an external event where a recorded one stands (`ordinal` 0), or after it."""
        if ordinal == 0 and event == recorded:
            self._arrive_as_recorded(record, event)
            return
        if ordinal == 0:
            now = record.replace(value=self._played.codec.encode(event))
            self._place(now, event, (record.topic, record.partition, record.offset))
            then = Side(record, recorded)
            self._touch(now)
            self.rows.append(self._make.differing(then, Side(now, event), "modelled", record.source or ""))
            return
        contract, key = contract_of(type(event)), (key_of(event) or "").encode()
        place = contract.topic.name, contract.topic.partition_of(key), -1
        new_id = derived_id(record.event_id, "whatif", key.decode(), ordinal)
        value = self._played.codec.encode(event)
        now = Record(*place, record.timestamp_ms, key, value, new_id, contract.type, "whatif", correlation_id=new_id)
        self.rows.append(self._make.differing(None, Side(now, event), "modelled", "whatif"))
        self._touch(now)
        self._deliver(record.timestamp_ms, now, event)

    # --- what a task did then, done again

    def _do(self, name: TaskName, item: Item, at_ms: int) -> None:
        if item.slot is not None:
            self._handle_slot(name, item.slot, at_ms, item.refused)
            return
        match item.act:
            case InputStart(topic, past_end=past_end):
                self._tasks[name].begin(topic, past_end)
            case DeadlinePassed(decider, key, deadline, due_ms):
                due = Due(due_ms, decider, key, deadline)
                self._announced.discard((name, due))
                self._pass_deadline(name, due, at_ms)
            case Answered():
                self._answer(name, item.act, at_ms)
            case _:
                pass

    def _handle_slot(
        self, name: TaskName, slot: Slot, at_ms: int, refused: Mapping[str, Refusal] = NONE_REFUSED
    ) -> None:
        place = slot.topic, slot.partition, slot.offset
        self._passed[name, slot.topic] = slot.offset
        placed = self._placed.get(place)
        if placed is None or name not in placed.left:
            return
        placed.left.discard(name)
        if not placed.left:
            del self._placed[place]
        dropped = {decider: refusal for decider, refusal in refused.items() if refusal.kind == "drop"}
        key = name, key_text(placed.record)
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]
        self._handle(name, placed.record, placed.event, at_ms, dropped)

    def _answer(self, name: TaskName, act: Answered, at_ms: int) -> None:
        """Answer a request as it was answered then, if it is the same; else from the model, at the same time."""
        asked = self._asked.pop(act.request_id, None)
        if asked is None:
            return
        if asked.same:
            twin = self._twins.get(derived_id(act.request_id, act.decider, act.key, 0))
            event = None if twin is None else self._make.event(twin)
            answer = None if event is None else Answer(act.request_id, event)
        else:
            answer = self._modelled(name, asked)
        if answer is not None:
            emitted = self._tasks[name].take_answer(answer, at_ms)
            self._take_out(
                name, emitted, at_ms, "recorded" if asked.same else "modelled", f"effect {asked.record.type}"
            )
