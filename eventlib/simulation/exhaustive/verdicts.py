"""The invariants' folds in an exploration, by number."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from eventlib.invariants import Invariant, InvariantChecker, Violation
from eventlib.model.decider import Decider
from eventlib.simulation.exhaustive.tasks import Numbered, State, Tasks, canonical


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
