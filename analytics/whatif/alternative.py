"""The alternative past: the recorded inputs and answers, in the recorded order, decided by other rules.

What has the same id as a recorded event stands in its place: ids derive from causes, so its cause was the same, and it is
handled when that one was. What was never recorded is handled at its own virtual time, after what was recorded then.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from analytics.audit.routing import Routes
from analytics.whatif.answers import ModelledAnswers
from analytics.whatif.hypothesis import Hypothesis
from analytics.whatif.moment import Inputs, Item, MomentTask, Slot, Source, in_causal_order
from analytics.whatif.played import Due, Emitted, PlayedTask
from analytics.whatif.rows import Origin, RowMaker, Side
from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.record import Record, key_text
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.identity import derived_id
from eventlib.model.service import Service
from eventlib.runtime.records import JournalEntry, Step
from eventlib.runtime.transaction import Answer

TaskName = tuple[str, int]
"""A service and a partition."""

Place = tuple[str, int, int]
"""A topic, a partition and an offset."""


class Placed(NamedTuple):
    """An event that stands in the place of a recorded one, until all its consumers have handled it."""

    record: Record
    event: Event | None
    left: set[TaskName]


class Asked(NamedTuple):
    """An effect's request that waits for its answer; `same` when it was asked then, too, word for word."""

    record: Record
    event: Event
    same: bool


class Novel(NamedTuple):
    """What was never recorded, at its virtual time (ms); `number` keeps the order of those at one time."""

    at_ms: int
    number: int
    what: "Delivery | AnswerDue | DeadlineDue"


class Delivery(NamedTuple):
    """An event for tasks that consume it."""

    record: Record
    event: Event | None
    to: Sequence[TaskName]


class AnswerDue(NamedTuple):
    """A modelled answer for the task that has asked, and the type of what it asked."""

    task: TaskName
    request: str
    answer: Answer


class DeadlineDue(NamedTuple):
    """A deadline of one of a task's keys."""

    task: TaskName
    due: Due


class Alternative:
    """Plays the log from its beginning to its end; `rows` has what came of it since it was last emptied.

    `moment` is called with all that has one recorded time, in the order of time, then `end`. Deadlines that did not pass
    then pass when they are due, after all inputs that were there by then; none after `horizon_ms`, the log's end.
    """

    def __init__(self, recorded: EventLog, first: EventLog, hypothesis: Hypothesis, horizon_ms: int) -> None:
        self.rows = list[tuple[Any, ...]]()
        self._hypothesis = hypothesis
        self._horizon_ms = horizon_ms
        self._played = first
        self._journalled = {*task_names(hypothesis.today.choreography)}
        self._model = ModelledAnswers(hypothesis.ports, hypothesis.seed)
        self._make = RowMaker(recorded, hypothesis.figures)
        self._tasks = dict[TaskName, PlayedTask]()
        self._inputs = dict[TaskName, Inputs]()
        self._consumers = defaultdict[TopicPartition, list[TaskName]](list)
        self._emitters = {service.emits_as for service in followed(hypothesis.today.choreography)}
        self._placed = dict[Place, Placed]()
        self._waiting = Counter[tuple[TaskName, str]]()
        self._asked = dict[str, Asked]()
        self._announced = set[tuple[TaskName, Due]]()
        self._scheduled = set[tuple[TaskName, Due]]()
        self._novel = list[Novel]()
        self._numbers = count()
        self._twins = dict[str, Record]()
        self.play_by(first)

    def play_by(self, log: EventLog) -> None:
        """Let the services of a log's choreography decide from now on, with the states that they had before."""
        self._played = log
        services = followed(log.choreography)
        before, self._tasks = self._tasks, {}
        self._emitters |= {service.emits_as for service in services}
        self._consumers.clear()
        for service in services:
            for partition in range(service.partitions):
                name = service.name, partition
                self._tasks[name] = PlayedTask(service, partition, log, before.get(name))
                self._inputs.setdefault(name, Inputs()).follow(topic.name for topic in service.inputs)
                for topic in service.inputs:
                    self._consumers[topic.name, partition].append(name)
                for key in self._tasks[name].known_keys:
                    self._schedule(name, key)

    # --- the recorded past, moment by moment

    def announce(self, task: TaskName, due: Due) -> None:
        """Take note that a deadline passed then, later than it was due."""
        self._announced.add((task, due))

    def moment(self, at_ms: int, records: Iterable[Record], entries: Iterable[tuple[TaskName, JournalEntry]]) -> None:
        """Play what has one recorded time."""
        self._advance(at_ms)
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
        self._advance(at_ms + 1)
        for twin in self._twins.values():
            self.rows.append(
                self._make.differing(Side(twin, self._make.event(twin)), None, "recorded", twin.source or "")
            )

    def end(self) -> None:
        """Play what is left: inputs that no journal has come to, and deadlines up to the log's end."""
        self._twins = {}
        for name, inputs in self._inputs.items():
            for slot in inputs.left():
                self._handle_slot(name, slot, self._horizon_ms, {})
        self._advance(self._horizon_ms + 1)

    def _is_there(self, slot: Slot) -> bool:
        return (slot.topic, slot.partition, slot.offset) in self._placed

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
            self._place(record, event, (record.topic, record.partition, record.offset))
            side = Side(record, event)
            self.rows.append(self._make.unchanged(side, record, "recorded", record.source or "", answer=False))
            return
        instead = self._hypothesis.inputs(event)
        if not instead:
            self.rows.append(self._make.differing(Side(record, event), None, "recorded", record.source or ""))
        for ordinal, each in enumerate(instead):
            self._suppose(record, event, each, ordinal)

    def _suppose(self, record: Record, recorded: Event, event: Event, ordinal: int) -> None:
        """Put an external event where a recorded one stands (`ordinal` 0), or after it."""
        if ordinal == 0:
            same = event == recorded
            now = record if same else record.replace(value=self._played.codec.encode(event))
            self._place(now, event, (record.topic, record.partition, record.offset))
            origin: Origin = "recorded" if same else "modelled"
            if same:
                row = self._make.unchanged(Side(now, event), record, origin, record.source or "", answer=False)
            else:
                row = self._make.differing(Side(record, recorded), Side(now, event), origin, record.source or "")
            self.rows.append(row)
            return
        contract, key = contract_of(type(event)), (key_of(event) or "").encode()
        place = contract.topic.name, contract.topic.partition_of(key), -1
        new_id = derived_id(record.event_id, "whatif", key.decode(), ordinal)
        value = self._played.codec.encode(event)
        now = Record(*place, record.timestamp_ms, key, value, new_id, contract.type, "whatif", correlation_id=new_id)
        self.rows.append(self._make.differing(None, Side(now, event), "modelled", "whatif"))
        self._deliver(record.timestamp_ms, now, event)

    # --- what a task did then, done again

    def _do(self, name: TaskName, item: Item, at_ms: int) -> None:
        step = item.step
        if item.slot is not None:
            self._handle_slot(name, item.slot, at_ms, item.refused)
            return
        match step.kind:
            case "begin":
                self._tasks[name].begin(step.topic, step.last)
            case "deadline":
                due = Due(step.first, step.decider, step.key, step.detail)
                self._announced.discard((name, due))
                self._pass_deadline(name, due, at_ms)
            case "answer":
                self._answer(name, step, at_ms)

    def _handle_slot(self, name: TaskName, slot: Slot, at_ms: int, refused: Any) -> None:
        place = slot.topic, slot.partition, slot.offset
        placed = self._placed.get(place)
        if placed is None or name not in placed.left:
            return
        placed.left.discard(name)
        if not placed.left:
            del self._placed[place]
        dropped = {decider: refusal for decider, refusal in refused.items() if refusal.kind == "drop"}
        self._waiting[name, key_text(placed.record)] -= 1
        self._handle(name, placed.record, placed.event, at_ms, dropped)

    def _handle(self, name: TaskName, record: Record, event: Event | None, at_ms: int, refused: Any) -> None:
        task = self._tasks[name]
        try:
            emitted = task.handle(record, event, at_ms, refused)
        except UndecodableRecord as error:
            self.rows.append(self._make.failed(record, task.service.emits_as, error.reason, at_ms))
            return
        self._take_out(name, emitted, at_ms, "decided", record.type or "")
        for failed in task.failed:
            handler = f"{task.service.emits_as}/{failed.decider}"
            self.rows.append(self._make.failed(record, handler, failed.reason, at_ms))
        task.failed.clear()
        self._schedule(name, key_text(record))

    def _pass_deadline(self, name: TaskName, due: Due, at_ms: int) -> None:
        task = self._tasks[name]
        if due.decider not in task.deciders:
            return
        emitted = task.pass_deadline(due, at_ms)
        if emitted is not None:
            self._take_out(name, emitted, at_ms, "decided", f"deadline {due.name}")
            self._schedule(name, due.key)

    def _answer(self, name: TaskName, step: Step, at_ms: int) -> None:
        """Answer a request as it was answered then, if it is the same; else from the model, at the same time."""
        asked = self._asked.pop(step.request, None)
        if asked is None:
            return
        if not asked.same:
            self._model_answer(name, asked, at_ms)
            return
        task = self._tasks[name]
        twin = self._twins.get(derived_id(step.request, step.decider, step.key, 0))
        event = None if twin is None else self._make.event(twin)
        if event is not None:
            emitted = task.take_answer(Answer(step.request, event), at_ms)
            self._take_out(name, emitted, at_ms, "recorded", f"effect {asked.record.type}")

    def _model_answer(self, name: TaskName, asked: Asked, at_ms: int) -> None:
        effect = self._tasks[name].effects[asked.record.type or ""]
        answer = self._model.answer(effect, asked.record, asked.event)
        if answer is not None and answer.event is not None:
            self._push(at_ms, AnswerDue(name, asked.record.type or "", answer))

    # --- what comes of it

    def _take_out(self, name: TaskName, emitted: Iterable[Emitted], at_ms: int, origin: Origin, cause: str) -> None:
        handlers, answer = self._tasks[name].handlers, origin != "decided"
        for record, event, asks in emitted:
            twin = self._twins.pop(record.event_id, None)
            now, handler = Side(record, event), handlers.get((record.source or "", cause), record.source or "")
            same = twin is not None and self._is_same(record, event, twin)
            if twin is not None and same:
                self.rows.append(self._make.unchanged(now, twin, origin, handler, answer=answer))
            else:
                then = None if twin is None else Side(twin, self._make.event(twin))
                self.rows.append(self._make.differing(then, now, origin, handler, answer=answer))
            if twin is not None and (twin.topic, twin.partition) == (record.topic, record.partition):
                self._place(record.placed(twin.offset), event, (twin.topic, twin.partition, twin.offset))
            else:
                self._deliver(at_ms, record, event)
            if asks:
                was_asked = twin is not None and twin.type == record.type
                self._ask(name, Asked(record, event, same), at_ms, was_asked=was_asked)

    def _ask(self, name: TaskName, asked: Asked, at_ms: int, *, was_asked: bool) -> None:
        if was_asked:
            self._asked[asked.record.event_id] = asked
        else:
            self._model_answer(name, asked, at_ms)

    def _is_same(self, record: Record, event: Event, twin: Record) -> bool:
        if (record.type, record.topic, record.key) != (twin.type, twin.topic, twin.key):
            return False
        return (
            record.value == twin.value
            or self._played.codec.gives(event, twin.value or b"")
            or (self._make.event(twin) == event)
        )

    def _place(self, record: Record, event: Event | None, place: Place) -> None:
        """Put an event where a recorded one stands: each consumer handles it when it handled that one."""
        names = self._consumers_of(record)
        left = {name for name in names if name in self._journalled}
        if len(left) < len(names):
            self._push(record.timestamp_ms, Delivery(record, event, [name for name in names if name not in left]))
        if left:
            self._placed[place] = Placed(record, event, left)
            for name in left:
                self._waiting[name, key_text(record)] += 1

    def _deliver(self, at_ms: int, record: Record, event: Event | None) -> None:
        names = self._consumers_of(record)
        if names:
            self._push(at_ms, Delivery(record, event, names))

    def _consumers_of(self, record: Record) -> list[TaskName]:
        names = self._consumers.get((record.topic, record.partition), ())
        return [name for name in names if self._tasks[name].handles(record)]

    # --- what was never recorded

    def _push(self, at_ms: int, what: Delivery | AnswerDue | DeadlineDue) -> None:
        heappush(self._novel, Novel(at_ms, next(self._numbers), what))

    def _schedule(self, name: TaskName, key: str) -> None:
        for due in self._tasks[name].dues(key):
            if (name, due) not in self._scheduled:
                self._scheduled.add((name, due))
                self._push(due.at_ms, DeadlineDue(name, due))

    def _advance(self, to_ms: int) -> None:
        """Play what is due before a time."""
        while self._novel and self._novel[0].at_ms < to_ms:
            at_ms, _, what = heappop(self._novel)
            match what:
                case Delivery(record, event, names):
                    for name in names:
                        self._handle(name, record, event, at_ms, {})
                case AnswerDue(name, request, answer):
                    emitted = self._tasks[name].take_answer(answer, at_ms)
                    self._take_out(name, emitted, at_ms, "modelled", f"effect {request}")
                case DeadlineDue(name, due):
                    self._fall_due(name, due, at_ms, to_ms)

    def _fall_due(self, name: TaskName, due: Due, at_ms: int, to_ms: int) -> None:
        if self._waiting[name, due.key] > 0 and at_ms < self._horizon_ms:
            self._push(to_ms, DeadlineDue(name, due))  # it waits for inputs that were there when it fell due
            return
        self._scheduled.discard((name, due))
        if (name, due) not in self._announced:
            self._pass_deadline(name, due, at_ms)


def followed(choreography: Choreography) -> list[Service]:
    """Return the services that are played: those whose past is kept, since they read no compacted topic."""
    return [*Routes(choreography).services]


def task_names(choreography: Choreography) -> Iterator[TaskName]:
    """Yield the tasks of the services that are played."""
    return ((service.name, n) for service in followed(choreography) for n in range(service.partitions))
