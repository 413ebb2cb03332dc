"""Explores every state that a small case can reach, each one once.

A state (`Moment`) is the tasks' states, their waiting inputs, the external systems, and the invariants' folds. Tasks and
their transactions are real; a step begins with a task that was just restored from its changelog, so that crashes before
an input are covered.

Left out, without missing a state: records that no decider handles, since no step depends on them; several inputs in
one transaction, since a task handles them one after the other; attempts that do not arrive, since they change nothing,
and giving up after too many of them is explored; calls that arrive later than their answer was given up. Time does not
pass: deadlines, external duplicates, zombies and parked keys are covered by simulated schedules.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventlib.errors import OutcomeUnknown, WiringError
from eventlib.eventlog import EventLog, Publication
from eventlib.invariants import InvariantChecker, Violation
from eventlib.log.record import Record
from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.runtime.effects import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.exhaustive.external import ExternalWorlds
from eventlib.simulation.exhaustive.tasks import Made, Numbered, State, TaskName, Tasks, canonical
from eventlib.simulation.invariant_monitor import FAILURES, broken
from eventlib.simulation.scenario import Scenario
from eventlib.simulation.stage import BEGIN_MS, Stage

Waiting = tuple[tuple[tuple[str, int, str], tuple[int, ...]], ...]


class Moment(NamedTuple):
    """A state of the whole; equal moments have equal futures.

    `knows` is by task, `waiting` by (service, partition, topic); `asked` has a bit for each request that was made,
    `flying` are the calls that may still arrive.
    """

    knows: tuple[tuple[TaskName, int], ...]
    waiting: Waiting
    outside: int
    seen: int
    asked: int
    flying: tuple[int, ...]


class Step(NamedTuple):
    """A step to a moment, and the invariants that it breaks."""

    what: str
    moment: Moment
    violations: Sequence[Violation] = ()


@dataclass(frozen=True)
class Explored:
    """The number of moments, of steps to them, and of ends; the first violation, and its story."""

    moments: int
    steps: int
    ends: int
    violation: Violation | None = None
    story: tuple[str, ...] = ()


def explore(stage: Stage, scenario: Scenario) -> Explored:
    """Visit every moment of a scenario's small case, depth first, until an invariant is broken.

    Raises: WiringError for a scenario without a small case. Memory grows with the moments: about 1 KB for each.
    """
    return _Exploration(stage, scenario).run()


class _Exploration:
    def __init__(self, stage: Stage, scenario: Scenario) -> None:
        self._stage = stage
        self._scenario = scenario
        log = stage.set(lambda: BEGIN_MS)
        self._tasks = Tasks(stage, log)
        self._outside = ExternalWorlds(scenario.ports)
        self._verdicts = _Verdicts(stage, self._tasks)
        case = scenario.small_case()
        if not case.requests:
            raise WiringError(
                f"{type(scenario).__name__} has no small case to explore: let small_case return its requests"
            )
        self._before = [self._tasks.number(record) for record in _records(log, case.before, "before")]
        self._requests = [self._tasks.number(record) for record in _records(log, case.requests, "request")]
        self._effects = {
            (service.name, request.__name__): effect
            for service in stage.played.services
            for decider in service.deciders
            for request, effect in decider.effects.items()
        }

    def run(self) -> Explored:
        first = self._settled(Moment((), (), self._outside.first, self._verdicts.first, 0, ()))
        visited, steps, ends = {first}, 0, 0
        path = [("", first, self._after(first))]
        while path:
            step = next(path[-1][2], None)
            if step is None:
                path.pop()
                continue
            steps += 1
            if step.moment in visited and not step.violations:
                continue
            visited.add(step.moment)
            violations = step.violations or self._at_rest(step.moment)
            ends += violations is not None and not step.violations
            path.append((step.what, step.moment, self._after(step.moment)))
            if violations:
                return Explored(len(visited), steps, ends, violations[0], tuple(what for what, *_ in path[1:]))
        return Explored(len(visited), steps, ends)

    def _settled(self, moment: Moment) -> Moment:
        """Return the moment after the initial events are handled, one step after the other."""
        every_request = (1 << len(self._requests)) - 1
        for number in self._before:
            moment = self._after_emitting("", moment, (number,), ()).moment._replace(asked=every_request)
            while step := next(self._after(moment), None):
                moment = step.moment
        return moment._replace(asked=0)

    def _at_rest(self, moment: Moment) -> Sequence[Violation] | None:
        """Return the invariants that an end breaks; None if the moment is no end."""
        if next(self._after(moment), None) is not None:
            return None
        return self._verdicts.rest(moment.seen, self._scenario.facts(self._outside[moment.outside]))

    # --- possible next steps

    def _after(self, moment: Moment) -> Iterator[Step]:
        for number, request in enumerate(self._requests):
            if not moment.asked >> number & 1:
                asked = moment._replace(asked=moment.asked | 1 << number)
                yield self._after_emitting(f"{self._tasks.record(request).type} is asked", asked, (request,), ())
        knows = dict(moment.knows)
        for (service, partition, topic), queue in moment.waiting:
            task, record = (service, partition), self._tasks.record(queue[0])
            taken = moment._replace(waiting=_with(moment.waiting, (service, partition, topic), queue[1:]))
            made = self._tasks.handle(task, knows.get(task, 0), queue[0])
            yield self._made(f"{service}/{partition} takes {record.type} {record.subject}", taken, task, made)
        for task, known in moment.knows:
            for pending in self._tasks.pending(known):
                yield from self._effect(moment, task, known, pending)
        for call in moment.flying:
            landed = moment._replace(flying=tuple(each for each in moment.flying if each != call))
            for world in self._outside.land(moment.outside, call):
                yield Step(f"{self._outside.described(call)} arrives late", landed._replace(outside=world))

    def _effect(self, moment: Moment, task: TaskName, known: int, request: Record) -> Iterator[Step]:
        effect = self._effects[task[0], request.type or ""]

        def course() -> EffectAttempts:
            return EffectAttempts(effect, request, self._tasks.event(request))

        name = self._tasks.number(request)
        for world, answer in self._outside.attempts(moment.outside, name, course):
            acted = moment._replace(outside=world)
            if answer is not None:
                made = self._tasks.handle_answer(task, known, answer)
                emitted = type(answer.event).__name__ if answer.event else answer.reason
                yield self._made(f"{request.type} is answered: {emitted}", acted, task, made)
            if world != moment.outside:
                yield Step(f"{request.type} takes place, and its answer is lost", acted)
        call = self._outside.call(moment.outside, name, course)
        if call not in moment.flying:
            on_its_way = moment._replace(flying=tuple(sorted((*moment.flying, call))))
            yield Step(f"{self._outside.described(call)} is on its way", on_its_way)
        if effect.ask.retry.attempts is not None:
            made = self._tasks.handle_answer(task, known, _given_up(course()))
            yield self._made(f"{request.type} is given up", moment, task, made)

    def _made(self, what: str, moment: Moment, task: TaskName, made: Made) -> Step:
        if made.parked:
            return Step(what, moment, [broken(FAILURES, made.parked, f"{task[0]}/{task[1]} cannot handle its input")])
        knowing = moment._replace(knows=_with(moment.knows, task, made.knows))
        return self._after_emitting(what, knowing, made.emitted, made.states)

    def _after_emitting(self, what: str, moment: Moment, emitted: Iterable[int], states: Iterable[State]) -> Step:
        """Return the step that adds emitted events to the inputs of their deciders and to the invariants."""
        waiting = moment.waiting
        for number in emitted:
            record = self._tasks.record(number)
            for service in self._stage.readers.get(record.topic, ()):
                if (service.name, record.type) in self._stage.handles:
                    place = (service.name, record.partition, record.topic)
                    waiting = _with(waiting, place, (*dict(waiting).get(place, ()), number))
        seen, violations = self._verdicts.after(moment.seen, emitted, states)
        return Step(what, moment._replace(waiting=waiting, seen=seen), violations)


class _Verdicts:
    """The invariants' folds, by number."""

    def __init__(self, stage: Stage, tasks: Tasks) -> None:
        self._tasks = tasks
        self._lawful = {
            s.name: s for invariant in stage.declared.invariants for s in invariant.sources if isinstance(s, Decider)
        }
        self._watches = Numbered[InvariantChecker]()
        self.first = self._watches.number(InvariantChecker(stage.declared.invariants), ())
        self._after: dict[tuple[int, Hashable], tuple[int, Sequence[Violation]]] = {}

    def after(self, seen: int, emitted: Iterable[int], states: Iterable[State]) -> tuple[int, Sequence[Violation]]:
        """Return the folds after a step, and the invariants that it breaks."""
        found = list[Violation]()
        facts: list[int | State] = [*emitted, *(state for state in states if state.decider in self._lawful)]
        for each in facts:
            key = (seen, each if isinstance(each, int) else each.same)
            if key not in self._after:
                self._after[key] = self._checked(self._watches[seen], each)
            seen, violations = self._after[key]
            found += violations
        return seen, found

    def rest(self, seen: int, facts: Any) -> Sequence[Violation]:
        """Return the invariants that do not hold at rest."""
        return self._watches[seen].rest(facts)

    def _checked(self, watch: InvariantChecker, what: int | State) -> tuple[int, Sequence[Violation]]:
        after = watch.forked()
        if isinstance(what, int):
            record = self._tasks.record(what)
            violations = after.emitted(self._tasks.event(record), record.meta())
        else:
            violations = after.changed(self._lawful[what.decider], what.key, what.state)
        return self._watches.number(after, canonical(after.known())), violations


def _records(log: EventLog, events: Sequence[Event], key: str) -> list[Record]:
    return [log.records_of(Publication(e, f"{key} {n}"), BEGIN_MS)[0] for n, e in enumerate(events)]


def _given_up(course: EffectAttempts) -> Answer:
    while not isinstance(follows := course.failed(OutcomeUnknown("explored: no answer")), Answer):
        pass
    return follows


def _with(pairs: tuple[Any, ...], name: object, value: object) -> tuple[Any, ...]:
    """Return sorted pairs with a value added or replaced; an empty value removes the pair."""
    changed = {**dict(pairs), name: value}
    return tuple(sorted(pair for pair in changed.items() if pair[1] not in ((), 0)))
