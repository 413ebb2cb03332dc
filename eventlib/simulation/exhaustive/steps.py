"""The steps that are possible at a moment of an exploration."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from eventlib.errors import OutcomeUnknown
from eventlib.eventlog import EventLog
from eventlib.invariants import Invariant, InvariantChecker, Violation
from eventlib.model.decider import Decider
from eventlib.model.effect import Effect
from eventlib.model.record import Record
from eventlib.publication import Publication
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.exhaustive.external import ExternalWorlds
from eventlib.simulation.exhaustive.moment import Moment, Step, Waiting, put
from eventlib.simulation.exhaustive.tasks import Made, Numbered, State, TaskName, Tasks, canonical
from eventlib.simulation.invariant_monitor import FAILURES, broken
from eventlib.simulation.scenario import Scenario
from eventlib.simulation.stage import BEGIN_MS, Stage


class Steps:
    """What can happen next to an application and its external systems; `requests` may come at any moment.

    Without `forgets`, no state is forgotten. Calls of `reliable` ports are made once, and answered.
    """

    def __init__(
        self,
        stage: Stage,
        scenario: Scenario,
        invariants: Sequence[Invariant],
        *,
        forgets: bool = True,
        reliable: Collection[str] = (),
    ) -> None:
        self.stage = stage
        self._scenario = scenario
        self._forgets = forgets
        self._reliable = reliable
        self.log: EventLog = stage.set(lambda: BEGIN_MS)
        self.tasks = Tasks(stage, self.log)
        self.outside = ExternalWorlds(scenario.ports, reliable)
        self.verdicts = Verdicts(invariants, self.tasks)
        self.requests: Sequence[int] = ()
        self._reports: dict[int, Sequence[int]] = {}
        self.effects: dict[tuple[str, str], Effect] = {
            (service.name, request.__name__): effect
            for service in stage.played.services
            for decider in service.deciders
            for request, effect in decider.effects.items()
        }

    @property
    def first(self) -> Moment:
        """The moment before anything has happened."""
        return Moment((), (), self.outside.first, self.verdicts.first, 0, (), BEGIN_MS)

    def after(self, moment: Moment, *, deadlines: bool) -> Iterator[Step]:
        """Yield every step that is possible."""
        for number, request in enumerate(self.requests):
            if not moment.asked >> number & 1:
                asked = moment._replace(asked=moment.asked | 1 << number)
                yield self.after_emitting(f"{self.tasks.record(request).type} is asked", asked, (request,), ())
        yield from self._inputs(moment)
        for task, known in moment.knows:
            for pending in self.tasks.pending(known):
                yield from self._effect(moment, task, pending)
        for call in moment.flying:
            landed = moment._replace(flying=tuple(each for each in moment.flying if each != call))
            for world in self.outside.land(moment.outside, call):
                yield Step(f"{self.outside.described(call)} arrives late", landed._replace(outside=world))
        yield from self._callbacks(moment)
        if deadlines:
            yield from self._deadlines(moment)

    def without_what_is_over(self, moment: Moment) -> Moment:
        """Return a moment without the calls on their way that change nothing any more: it has the same future."""
        if not moment.flying:
            return moment
        is_over = self.outside.is_over
        return moment._replace(flying=tuple(call for call in moment.flying if not is_over(moment.outside, call)))

    def before(self, moment: Moment) -> Iterator[Step]:
        """Yield the steps that come before the exploration: inputs, and effects of ports whose calls are always answered."""
        yield from self._inputs(moment)
        for task, known in moment.knows:
            for pending in self.tasks.pending(known):
                if self.effects[task[0], pending.type or ""].ask.port in self._reliable:
                    yield from self._effect(moment, task, pending)

    def _inputs(self, moment: Moment) -> Iterator[Step]:
        for (service, partition, topic), (number, *left) in moment.waiting:
            task, record = (service, partition), self.tasks.record(number)
            taken = moment._replace(waiting=put(moment.waiting, (service, partition, topic), tuple(left)))
            for before, now in self._remembering(moment, taken, task):
                made = self.tasks.handle(task, _known(now, task), number, now.at_ms)
                what = f"{service}/{partition} takes {record.type} {record.subject}"
                yield self.made(f"{before}{what}", now, task, made)

    def at_rest(self, moment: Moment) -> Sequence[Violation]:
        """Return the invariants that a moment breaks at which nothing can happen."""
        return self.verdicts.rest(moment.seen, self._scenario.facts(self.outside[moment.outside]))

    def course(self, request: Record, effect: Effect) -> EffectAttempts:
        """Return the attempts of an effect that is pending."""
        return EffectAttempts(effect, request, self.tasks.event(request))

    def _effect(self, moment: Moment, task: TaskName, request: Record) -> Iterator[Step]:
        effect = self.effects[task[0], request.type or ""]

        def course() -> EffectAttempts:
            return self.course(request, effect)

        def answered(acted: Moment, answer: Answer, what: str) -> Iterator[Step]:
            for before, now in self._remembering(moment, acted, task):
                made = self.tasks.handle_answer(task, _known(now, task), answer, now.at_ms)
                yield self.made(f"{before}{request.type} {what}", now, task, made)

        name, is_reliable = self.tasks.number(request), effect.ask.port in self._reliable
        for world, answer in self.outside.attempts(moment.outside, name, course):
            acted = moment._replace(outside=world)
            if answer is not None:
                emitted = type(answer.event).__name__ if answer.event else answer.reason
                yield from answered(acted, answer, f"is answered: {emitted}")
            if world != moment.outside and not is_reliable:
                yield Step(f"{request.type} takes place, and its answer is lost", acted)
        if is_reliable:
            return
        yield from self._departures(moment, self.outside.departures(moment.outside, name, course))
        if effect.ask.retry.attempts is not None:
            yield from answered(moment, _given_up(course()), "is given up")

    def _departures(self, moment: Moment, departures: Iterable[tuple[int, int]]) -> Iterator[Step]:
        for world, call in departures:
            if call not in moment.flying:
                on_its_way = moment._replace(outside=world, flying=tuple(sorted((*moment.flying, call))))
                yield Step(f"{self.outside.described(call)} is on its way", on_its_way)

    def _remembering(self, moment: Moment, now: Moment, task: TaskName) -> Iterator[tuple[str, Moment]]:
        """Yield what a task that takes something has before that: what it knows, and what is left once it has forgotten."""
        yield "", now
        due = self.tasks.forgets(task, _known(now, task)) if task in moment.idle else None
        if due is not None:
            later = now._replace(at_ms=max(now.at_ms, due.at_ms))
            made = self.tasks.pass_deadlines(task, _known(now, task), later.at_ms)
            what = f"{due.decider} {due.key} is forgotten; "
            yield what, self.made(what, later, task, made).moment

    def _callbacks(self, moment: Moment) -> Iterator[Step]:
        """Yield what external systems may report, each once; that they report it twice is covered by simulated schedules."""
        for number in self.reports(moment.outside):
            if number not in moment.reported:
                reported = moment._replace(reported=tuple(sorted((*moment.reported, number))))
                yield self.after_emitting(f"{self.tasks.record(number).type} is reported", reported, (number,), ())

    def reports(self, world: int) -> Sequence[int]:
        """Return what a world's external systems report, by the numbers of its events."""
        if world not in self._reports:
            events = self._scenario.callbacks(self.outside[world])
            published = [Publication(event, f"callback {name}") for name, event in events.items()]
            records = [self.log.records_of(each, BEGIN_MS)[0] for each in published]
            self._reports[world] = [self.tasks.number(record) for record in records]
        return self._reports[world]

    def _deadlines(self, moment: Moment) -> Iterator[Step]:
        """Yield the passing of each task's next deadline, once the task has read what was there before.

        Others may stand still for as long as they like meanwhile, so no task waits for another one's deadline.
        """
        behind = {place[:2] for place, _ in moment.waiting}
        for task, known in moment.knows:
            due = None if task in behind else self.tasks.next_due(task, known)
            if due is not None:
                later = moment._replace(at_ms=max(moment.at_ms, due.at_ms))
                made = self.tasks.pass_deadlines(task, known, later.at_ms)
                yield self.made(f"{due.name} of {due.decider} {due.key} passes", later, task, made)

    def made(self, what: str, moment: Moment, task: TaskName, made: Made) -> Step:
        """Return the step that a task has made; one that parks a key breaks an invariant."""
        if made.parked is not None:
            why = f"{task[0]}/{task[1]} parks it: {made.parked.reason}"
            return Step(what, moment, [broken(FAILURES, f"{made.parked.decider} {made.parked.key}", why)])
        idle = tuple(each for each in moment.idle if each != task)
        knowing = moment._replace(knows=put(moment.knows, task, made.knows), idle=idle)
        return self.after_emitting(what, knowing, made.emitted, made.states)

    def after_emitting(self, what: str, moment: Moment, emitted: Iterable[int], states: Iterable[State]) -> Step:
        """Return the step that adds emitted events to the inputs of their deciders and to the invariants."""
        waiting = moment.waiting
        for number in emitted:
            record = self.tasks.record(number)
            for service in self.stage.readers.get(record.topic, ()):
                if (service.name, record.type) in self.stage.handles:
                    place = (service.name, record.partition, record.topic)
                    waiting = put(waiting, place, (*dict(waiting).get(place, ()), number))
        seen, violations = self.verdicts.after(moment.seen, emitted, states)
        return Step(what, moment._replace(waiting=waiting, seen=seen, idle=self.idle(moment, waiting)), violations)

    def idle(self, moment: Moment, waiting: Waiting) -> tuple[TaskName, ...]:
        """Return the tasks that have read all that was there and may have forgotten a state by when they take the next."""
        if not self._forgets:
            return ()
        behind = {place[:2] for place, _ in waiting}
        ready = {task for task, known in moment.knows if task not in behind and self.tasks.forgets(task, known)}
        return tuple(sorted(ready.union(moment.idle)))


def _known(moment: Moment, task: TaskName) -> int:
    return dict(moment.knows).get(task, 0)


def _given_up(course: EffectAttempts) -> Answer:
    while not isinstance(follows := course.failed(OutcomeUnknown("explored: no answer")), Answer):
        pass
    return follows


class Verdicts:
    """The invariants' folds, by number; `first` is one that has seen nothing."""

    def __init__(self, invariants: Sequence[Invariant], tasks: Tasks) -> None:
        self._tasks = tasks
        self._lawful = {s.name: s for each in invariants for s in each.sources if isinstance(s, Decider)}
        self._watches = Numbered[InvariantChecker]()
        self.first = self._watches.number(InvariantChecker(invariants), ())
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
