"""What follows from what: inputs are handled, what they emit takes its place, and is handled in turn.

What has the same id as a recorded event stands in its place: ids derive from causes, so its cause was the same, and it is
handled when that one was. What was never recorded is handled at its own virtual time, after what was recorded then.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from analytics.whatif.hypothesis import Hypothesis, Model
from analytics.whatif.played import Due, Emitted, PlayedTask, TaskName, followed, task_names
from analytics.whatif.rows import Origin, RowMaker, Side
from eventlib.errors import UndecodableRecord, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.effect import Effect
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.replay.journal_steps import NONE_REFUSED, Refusal
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.log import driven
from eventlib.simulation.scenario import drawn_from

Place = tuple[str, int, int]
"""A topic, a partition and an offset."""

_MOST_ATTEMPTS = 100


class ModelledAnswers:
    """Runs effects on the model's ports, with their retries, in no time.

    Guarantee: the answer follows from the question, its id and the seed alone, whatever else was asked, and wherever.
    """

    def __init__(self, model: Model | None, seed: int) -> None:
        self._model = model
        self._seed = seed

    def answer(self, effect: Effect, request: Record, event: Event) -> Answer | None:
        """Return what an effect comes back with; None without a model, or when it never comes back.

        Raises: WiringError when the model lacks the port, or the method, that the effect calls.
        """
        if self._model is None:
            return None
        ports = self._model(drawn_from(Random(f"{self._seed}/{request.event_id}")))  # noqa: S311  a model, no secret
        attempts = EffectAttempts(effect, request, event)
        port = attempts.asking.port
        if port is not None and port not in ports:
            raise WiringError(
                f"the model has no port {port!r}, which answers {request.type}: add it to what it returns"
            )
        for _ in range(_MOST_ATTEMPTS):
            try:
                return attempts.answered(driven(attempts.asking.coroutine(attempts.arguments(ports))))
            except Exception as error:
                if isinstance(error, AttributeError) and port is not None and error.obj is ports[port]:
                    raise WiringError(
                        f"the model's port {port!r} has no {error.name!r}, which answers {request.type}: add it there"
                    ) from error
                follows = attempts.failed(error)
                if isinstance(follows, Answer):
                    return follows
        return None


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


class Timeline:
    """The tasks of an alternative past, what waits for them, and what is asked of the outside world.

    `rows` has what came of it since it was last emptied. `_twins` are the recorded events of the current time that no
    alternative one has matched, by id; a wrong clock had set what is played `_ahead_ms` ahead. `_consumers` are the tasks that read a partition, of which `_journalled` have a past.
    """

    def __init__(self, recorded: EventLog, hypothesis: Hypothesis, horizon_ms: int) -> None:
        self.rows = list[tuple[Any, ...]]()
        self._hypothesis = hypothesis
        self._horizon_ms = horizon_ms
        self._journalled = {*task_names(hypothesis.today.choreography)}
        self._model = ModelledAnswers(hypothesis.ports, hypothesis.seed)
        self._make = RowMaker(recorded, hypothesis.figures)
        self._played = recorded
        self._tasks = dict[TaskName, PlayedTask]()
        self._consumers = defaultdict[TopicPartition, list[TaskName]](list)
        self._placed = dict[Place, Placed]()
        self._waiting = Counter[tuple[TaskName, str]]()
        self._passed = dict[tuple[TaskName, str], int]()
        self._asked = dict[str, Asked]()
        self._announced = set[tuple[TaskName, Due]]()
        self._scheduled = set[tuple[TaskName, Due]]()
        self._touched = set[tuple[TaskName, str]]()
        self._deciders_then = {decider.name: decider for decider in hypothesis.today.choreography.deciders}
        self._novel = list[Novel]()
        self._numbers = count()
        self._ahead_ms = 0
        self._twins = dict[str, Record]()

    def play_by(self, log: EventLog) -> None:
        """Let the services of a log's choreography decide from now on, with the states that they had before."""
        self._played = log
        before, self._tasks = self._tasks, {}
        self._consumers.clear()
        for service in followed(log.choreography):
            for partition in range(service.partitions):
                name = service.name, partition
                self._tasks[name] = PlayedTask(service, partition, log, before.get(name))
                for topic in service.inputs:
                    self._consumers[topic.name, partition].append(name)
                for key in self._tasks[name].known_keys:
                    self._schedule(name, key)

    def _handle(
        self,
        name: TaskName,
        record: Record,
        event: Event | None,
        at_ms: int,
        refused: Mapping[str, Refusal] = NONE_REFUSED,
    ) -> None:
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

    def _modelled(self, name: TaskName, asked: Asked) -> Answer | None:
        """Return what the model answers; None for nothing."""
        answer = self._model.answer(self._tasks[name].effects[asked.record.type or ""], asked.record, asked.event)
        return None if answer is None or answer.event is None else answer

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
                self._touch(record)
                self._touched.add((name, record.subject or ""))
            if twin is not None and (twin.topic, twin.partition) == (record.topic, record.partition):
                self._place(record.placed(twin.offset), event, (twin.topic, twin.partition, twin.offset))
            else:
                self._deliver(at_ms, record, event)
            asked = Asked(record, event, same)
            if asks and twin is not None and twin.type == record.type:
                self._asked[record.event_id] = asked
            elif asks and (modelled := self._modelled(name, asked)) is not None:
                self._push(at_ms - self._ahead_ms, AnswerDue(name, record.type or "", modelled))

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
        topic, _, offset = place
        left = {name for name in names if name in self._journalled and self._passed.get((name, topic), -1) < offset}
        if len(left) < len(names):  # others have no past, or came past it before it was there
            self._push(
                record.timestamp_ms - self._ahead_ms,
                Delivery(record, event, [name for name in names if name not in left]),
            )
        if left:
            self._placed[place] = Placed(record, event, left)
            for name in left:
                self._waiting[name, key_text(record)] += 1

    def _touch(self, record: Record) -> None:
        """Take note that the keys which consume a record have a past that differs."""
        for name in self._consumers.get((record.topic, record.partition), ()):
            self._touched.add((name, key_text(record)))

    def _deliver(self, at_ms: int, record: Record, event: Event | None) -> None:
        names = self._consumers_of(record)
        if names:
            self._push(at_ms - self._ahead_ms, Delivery(record, event, names))

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
                        self._handle(name, record, event, at_ms)
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
        if (name, due) in self._announced:
            return
        then = self._deciders_then.get(due.decider)
        if (name, due.key) not in self._touched and then is not None and self._tasks[name].was_due(due, then):
            return  # nothing of its key differs, so it was due then, too: inputs that came in time kept it from passing
        self._pass_deadline(name, due, at_ms)
