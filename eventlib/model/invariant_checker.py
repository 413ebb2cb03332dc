"""Checks invariants as events come and states change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from eventlib.ground.arguments import AN_INVARIANT, check_each
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta
from eventlib.model.invariants import AnySource, ExternalState, ExternalStates, Fold, Invariant, Violation

S = TypeVar("S")


class InvariantChecker:
    """Checks invariants as events come and states change; it keeps each fold's state of each key that it got.

    Give it events so that causes come before their effects; `settled` checks a key for the last time and forgets it.
    """

    def __init__(self, invariants: Iterable[Invariant]) -> None:
        self._always: dict[AnySource, list[Invariant]] = {}
        self._at_rest = list[Invariant]()
        self._folds = list[Fold[Any]]()
        self._known: dict[AnySource, dict[str, Any]] = {}
        for each in check_each(invariants, Invariant, "invariants", AN_INVARIANT):
            if each.at_rest:
                self._at_rest.append(each)
            else:
                self._always.setdefault(each.sources[0], []).append(each)
            for source in each.sources:
                if isinstance(source, Fold) and source not in self._folds:
                    self._folds.append(source)
                self._known.setdefault(source, {})

    def emitted(self, event: Event, meta: Meta) -> list[Violation]:
        """Take an event in, and return the invariants that it breaks."""
        found = list[Violation]()
        for fold in self._folds:
            key = fold.concerns(event)
            if key is not None:
                known = self._known[fold]
                before = known.get(key)
                state = fold.after(fold.initial if before is None else before, event, meta)
                if state is not before:  # else it was checked when it came about
                    known[key] = state
                    for each in self._always.get(fold, ()):  # as `changed` does: called for every event
                        if not each.holds(state):
                            found.append(Violation(each, key, (state,)))
        return found

    @property
    def wants_meta(self) -> bool:
        """Tell whether a fold takes the Meta of an event, so that none is made in vain."""
        return any(fold.wants_meta for fold in self._folds)

    def changed(self, decider: Decider[S], key: str, state: S | None) -> list[Violation]:
        """Take note of a decider's state (None: forgotten), and return the invariants that it breaks."""
        known = self._known.get(decider)
        if known is None:
            return []
        if state is None:
            known.pop(key, None)
            return []
        known[key] = state
        return [Violation(each, key, (state,)) for each in self._always.get(decider, ()) if not each.holds(state)]

    def rest(self, outside: ExternalStates | None = None) -> list[Violation]:
        """Return the invariants that do not hold, now that nothing is in flight for any key.

        `outside` has what the outside world has, for each source that could be asked: for a key that is not in there,
        it has nothing.
        """
        external = outside or {}
        return [
            violation
            for each in self._at_rest
            for key in self._keys(each, external)
            for violation in self._rest(each, key, external)
        ]

    def settled(self, field: str, key: str, outside: ExternalStates | None = None) -> list[Violation]:
        """Return the invariants that do not hold for one key, now that nothing is in flight for it; and forget the key."""
        external = outside or {}
        invariants = [each for each in self._at_rest if each.key == field and _can_be_asked(each, external)]
        found = [violation for each in invariants for violation in self._rest(each, key, external)]
        for source, known in self._known.items():
            if source.key == field:
                known.pop(key, None)
        return found

    def hand_over(self, key: str) -> Mapping[str, object]:
        """Return what is known of a key by each source, for `take_over` of another checker; and forget the key."""
        return {repr(source): known.pop(key) for source, known in self._known.items() if key in known}

    def take_over(self, key: str, states: Mapping[str, object]) -> None:
        """Take up what `hand_over` has returned: of these invariants, checked with all that led to it."""
        for source, known in self._known.items():
            if repr(source) in states:
                known[key] = states[repr(source)]

    def forked(self) -> "InvariantChecker":
        """Return a copy that has seen the same, and is independent from here on."""
        made = copy(self)
        made._known = {source: dict(known) for source, known in self._known.items()}  # noqa: SLF001  of its own class
        return made

    def known(self) -> Mapping[str, Mapping[str, object]]:
        """Return what is known of each key by each source, equal for watches that will judge alike."""
        return {repr(source): known for source, known in self._known.items() if known}

    def __len__(self) -> int:
        """Count the values that are kept."""
        return sum(map(len, self._known.values()))

    def _keys(self, at_rest: Invariant, external: ExternalStates) -> Iterator[str]:
        if not _can_be_asked(at_rest, external):
            return iter(())
        places = [external[s] if isinstance(s, ExternalState) else self._known[s] for s in at_rest.sources]
        return iter(sorted({key for place in places for key in place}))

    def _rest(self, at_rest: Invariant, key: str, external: ExternalStates) -> Sequence[Violation]:
        places = [external[s] if isinstance(s, ExternalState) else self._known[s] for s in at_rest.sources]
        known = tuple(place.get(key, s.initial) for place, s in zip(places, at_rest.sources, strict=True))
        return () if at_rest.holds(*known) else (Violation(at_rest, key, known),)


def _can_be_asked(each: Invariant, external: ExternalStates) -> bool:
    return all(source in external for source in each.sources if isinstance(source, ExternalState))
