"""Proves that what is under way comes to a lawful end under the current code, whatever order things come in."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from eventlib.errors import DamagedRecord, EventlibError
from eventlib.eventlog import EventLog
from eventlib.ground.fork_pool import in_processes
from eventlib.invariants import Fold, Invariant
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.proof.beginning import CannotGoOn, Prepared, Preparing, begin
from eventlib.proof.damage import Doubts
from eventlib.proof.past_effects import NotExplorable
from eventlib.proof.shapes import shape_of
from eventlib.proof.under_way import TaskName, UnderWay, under_way
from eventlib.simulation.exhaustive import Bounds
from eventlib.simulation.exhaustive.explore import Exploration
from eventlib.simulation.exhaustive.steps import Steps
from eventlib.simulation.scenario import Scenario
from eventlib.simulation.stage import Stage


@dataclass(frozen=True, slots=True)
class ProofBounds:
    """How much is explored: of each shape so many sagas (None: all), and of each saga so many moments."""

    sagas: int | None = 1
    moments: int = 100_000
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Proved:
    """What came of one saga of a shape; `keys` are all sagas of that shape.

    Lawful if `why` is empty. `story` are the fewest steps to where it goes wrong. Nothing is proved if `is_open`: `why`
    has what could not be explored.
    """

    key: str
    keys: tuple[str, ...]
    moments: int = 0
    steps: int = 0
    ends: int = 0
    farthest: int = 0
    why: str = ""
    invariant: str = ""
    story: tuple[str, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class InFlightProof:
    """What is proved of all sagas that are under way, and what is not.

    `damaged` are sentences about damaged places: what stood there, and so what else is in flight, is not known.
    """

    in_flight: int
    shapes: int
    explored: tuple[Proved, ...]
    left_out: tuple[str, ...]
    damaged: tuple[str, ...] = ()

    @property
    def unlawful(self) -> list[Proved]:
        """Sagas that do not come to a lawful end."""
        return [each for each in self.explored if each.why and not each.is_open]

    @property
    def open(self) -> list[Proved]:
        """Sagas of which nothing is proved."""
        return [each for each in self.explored if each.is_open]

    @property
    def farthest(self) -> int:
        """How many steps the farthest moment was away."""
        return max((each.farthest for each in self.explored), default=0)

    @property
    def holds(self) -> bool:
        """Whether all that is in flight is known, was explored as far as it was to be, and ends lawfully."""
        return not self.damaged and not any(each.why for each in self.explored)


class InFlight:
    """What was read from a log, to be proved once the log is closed."""

    def __init__(
        self, stage: Stage, found: UnderWay, doubts: Doubts, sagas: Sequence[Prepared], shared: "_SharedStates"
    ) -> None:
        self._stage = stage
        self._found = found
        self._doubts = doubts
        self._sagas = sagas
        self._shared = shared
        self._lost: Sequence[DamagedRecord] = ()
        self._invariants, self._skipped = _judged(stage, found.key)

    @classmethod
    async def read(cls, log: EventLog, stage: Stage) -> "InFlight":
        """Read what is under way on a log. Raises: ContractError as `under_way` does."""
        found = await under_way(log)
        doubts = await Doubts.read(log, found)
        preparing = Preparing(log, stage, found, doubts)
        made = cls(stage, found, doubts, await preparing.all(), await preparing.shared())
        if preparing.lost:
            made._lost = log.codec.registry.damaged
        return made

    def prove(self, scenario: type[Scenario], bounds: ProofBounds) -> InFlightProof:
        """Explore one saga of each shape, or as many as the bounds say. Call it while this process has no other thread."""
        steps = self._steps(scenario)
        shapes = defaultdict[Hashable, list[Prepared]](list)
        for saga in self._sagas:
            shapes[shape_of(steps, saga)].append(saga)
        chosen = [
            (saga, tuple(sorted(each.key for each in alike)))
            for alike in shapes.values()
            for saga in sorted(alike, key=lambda each: (each.size, each.key))[: bounds.sagas]
        ]
        workers = max(1, min(bounds.workers, len(chosen)))

        def work(index: int) -> list[Proved]:
            return [self._proved(scenario, saga, keys, bounds) for saga, keys in chosen[index::workers]]

        explored = chain.from_iterable(in_processes(work, workers))
        ordered = sorted(explored, key=lambda each: (-len(each.keys), each.keys, each.key))
        left_out, damaged = self._left_out(len(chosen)), sorted(map(str, (*self._found.damaged.values(), *self._lost)))
        return InFlightProof(len(self._sagas), len(shapes), tuple(ordered), tuple(left_out), tuple(damaged))

    def _steps(self, scenario: type[Scenario]) -> Steps:
        steps = Steps(self._stage, scenario(), self._invariants)
        steps.tasks.shared = self._shared_state
        return steps

    def _shared_state(self, task: TaskName, key: str) -> Record | None:
        records = self._shared.get(task, {})
        if self._doubts.is_unsure(task, key):
            raise NotExplorable(f"{key} of {task[0]}, which sagas share, may be damaged")
        if key in records and records[key] is None:
            raise NotExplorable(f"{key} of {task[0]}, which sagas share, cannot be read by the current code")
        return records.get(key)

    def _proved(self, scenario: type[Scenario], saga: Prepared, keys: tuple[str, ...], bounds: ProofBounds) -> Proved:
        nothing = Proved(saga.key, keys)
        try:
            steps = self._steps(scenario)
            firsts, before = begin(steps, saga)
            found = Exploration(steps, Bounds(moments=bounds.moments)).run(*firsts)
        except CannotGoOn as error:
            return replace(nothing, why=str(error), moments=1)
        except NotExplorable as error:
            return replace(nothing, why=str(error), is_open=True)
        except EventlibError as error:
            return replace(nothing, why=kept_reason(error, personal=False), is_open=True)
        size = replace(
            nothing, moments=found.moments, steps=found.steps, ends=found.ends, farthest=found.farthest + len(before)
        )
        if found.violation is not None:
            name, why = found.violation.invariant.name, str(found.violation)
            return replace(size, why=why, invariant=name, story=(*before, *found.story))
        if not found.complete:
            return replace(size, why=f"more than {bounds.moments:,} moments: allow more with --moments", is_open=True)
        return size

    def _left_out(self, explored: int) -> list[str]:
        omitted = list[str]()
        if explored < len(self._sagas):
            alone = (
                f"{explored:,} of {len(self._sagas):,} sagas were explored, the smallest of each shape; the others of"
            )
            omitted.append(f"{alone} a shape differ from it in texts, times and larger numbers")
        omitted.append("each saga was explored alone: what others do meanwhile to what they share was not")
        if self._skipped:
            omitted.append(f"not judged, since they are not about {self._found.key}: {', '.join(self._skipped)}")
        if self._found.others:
            omitted.append(f"{self._found.others:,} inputs and parked keys that belong to no saga")
        if self._found.cut:
            omitted.append(f"events that {', '.join(sorted(self._found.cut))} no longer has")
        omitted.append("requests that may still come from outside, zombies, and clocks that are wrong")
        return omitted


_SharedStates = Mapping[TaskName, Mapping[str, Record | None]]


def _judged(stage: Stage, field: str) -> tuple[list[Invariant], list[str]]:
    """Return the invariants that one saga alone can be judged by, and the names of the others."""
    judged, skipped = [_ending(field)], list[str]()
    for each in stage.declared.invariants:
        is_of_state = not each.at_rest and all(isinstance(source, Decider) for source in each.sources)
        if each.key == field or is_of_state:
            judged.append(each)
        else:
            skipped.append(each.name)
    return judged, skipped


@dataclass(frozen=True)
class _Course:
    """Whether a service has said anything of a saga, and whether it has ended."""

    begun: bool = False
    ended: bool = False


def _ending(field: str) -> Invariant:
    """Return the invariant that a saga which has begun emits a final event."""
    course = Fold("course", state=_Course, key=field)

    @course.evolve
    def follow(known: _Course, event: Event) -> _Course:
        contract = contract_of(type(event))
        if contract.request or contract.external is not None or contract.key != field:
            return known
        return _Course(begun=True, ended=known.ended or contract.final)

    def holds(known: _Course) -> bool:
        return known.ended or not known.begun

    sentence = "Every saga that has begun comes to its final event."
    return Invariant("sagas_end", sentence, (course,), True, holds)
