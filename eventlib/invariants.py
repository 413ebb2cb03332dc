"""Invariants: what holds whatever happens, declared once, and checked wherever there are events.

An invariant is a pure predicate over what is known of one key: a `Fold` of every event that has the key's field, a decider's
state, or what the `ExternalState` world has. The simulator checks a choreography's invariants after each commit and when all has
come to rest; a test, a metric and a batch job that groups events by key check the same ones with `InvariantChecker`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar, overload

from eventlib.arguments import AN_INVARIANT, check_each
from eventlib.errors import WiringError
from eventlib.model import signatures
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta

__all__ = [
    "ExternalState",
    "ExternalStates",
    "Fold",
    "Invariant",
    "InvariantChecker",
    "Violation",
    "invariant",
    "judged_by_events",
]

S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])


class Fold(Generic[S]):
    """What an invariant knows of a key from events alone: one state (a frozen dataclass with defaults) per key.

    Its evolve sees every event that has a field named `key`, under whatever key it stands on the log, causes before
    their effects. A state that stays small keeps a check small, however many events a key has.
    """

    def __init__(self, name: str, *, state: type[S], key: str) -> None:
        self.name = name
        self.key = key
        self.initial: S = state()
        self._apply: Callable[..., S] = _unchanged
        self.wants_meta = False

    def __repr__(self) -> str:
        return f"Fold({self.name!r})"

    def evolve(self, function: F) -> F:
        """Register the pure function that applies an event: (state, event) or (state, event, meta)."""
        self.wants_meta = signatures.takes_meta(function, 2, f"evolve of fold {self.name}")
        self._apply = function
        return function

    def concerns(self, event: Event) -> str | None:
        """Return the key of an event, or None when it has none."""
        key = event.__dict__.get(self.key)  # what `getattr` says of a field that is not there takes ten times as long
        return None if key is None else str(key)

    def after(self, state: S, event: Event, meta: Meta) -> S:
        """Return the state after one event."""
        return self._apply(state, event, meta) if self.wants_meta else self._apply(state, event)


class ExternalState(Generic[S]):
    """What an external system knows of a key: a payment gateway's ledger, for instance.

    Supplied by the checker; invariants that need it are otherwise skipped.
    """

    def __init__(self, name: str, *, state: type[S], key: str) -> None:
        self.name = name
        self.key = key
        self.initial: S = state()

    def __repr__(self) -> str:
        return f"ExternalState({self.name!r})"


Source = Fold[S] | ExternalState[S] | Decider[S]
AnySource = Source[Any]
ExternalStates = Mapping[ExternalState[Any], Mapping[str, object]]
"""What external systems reported, by key."""


@dataclass(frozen=True)
class Invariant:
    """A predicate over its sources' values for one key, and the sentence that it stands for.

    It holds at every moment, or with `at_rest` as soon as nothing is in flight for the key.
    """

    name: str
    sentence: str
    sources: tuple[AnySource, ...]
    at_rest: bool
    holds: Callable[..., bool]

    @property
    def key(self) -> str:
        """The name of the field that all its sources are about."""
        return self.sources[0].key or ""


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold for a key; `known` is what its sources had."""

    invariant: Invariant
    key: str
    known: tuple[object, ...]

    def __str__(self) -> str:
        return f"{self.invariant.name}: {self.invariant.sentence} Not so for {self.invariant.key} {self.key}: {self.what_was_known}"

    @property
    def what_was_known(self) -> str:
        """What its sources had: of each, only what is not as it was in the beginning."""
        pairs = zip(self.known, self.invariant.sources, strict=True)
        return "; ".join(_shown(known, source.initial) for known, source in pairs)


@overload
def invariant(one: Source[A], /, *, at_rest: bool = False) -> Callable[[Callable[[A], bool]], Invariant]: ...
@overload
def invariant(one: Source[A], two: Source[B], /, *, at_rest: bool) -> Callable[[Callable[[A, B], bool]], Invariant]: ...
@overload
def invariant(
    one: Source[A], two: Source[B], three: Source[C], /, *, at_rest: bool
) -> Callable[[Callable[[A, B, C], bool]], Invariant]: ...
def invariant(*sources: AnySource, at_rest: bool = False) -> Callable[[Callable[..., bool]], Invariant]:
    """Declare an invariant: the decorated pure predicate over its sources' values, its docstring the sentence.

    An invariant over several sources holds `at_rest` only: while something is in flight they are not of one moment.
    Raises: WiringError for that, for sources that are about different keys, and for an invariant without a sentence.
    """

    def declared(holds: Callable[..., bool]) -> Invariant:
        name = signatures.name_of(holds)
        sentence = " ".join((holds.__doc__ or "").split())
        if not sentence:
            raise WiringError(f"invariant {name} has no docstring: write in one sentence what holds")
        keys = {source.key for source in sources}
        if len(keys) != 1 or None in keys:
            raise WiringError(f"invariant {name} is about {sorted(map(str, keys))}: its sources need one key, the same")
        if not at_rest and (len(sources) > 1 or isinstance(sources[0], ExternalState)):
            raise WiringError(
                f"invariant {name}: what is known in several places agrees at rest only; declare at_rest=True"
            )
        return Invariant(name, sentence, sources, at_rest, holds)

    return declared


def judged_by_events(invariants: Iterable[Invariant]) -> list[Invariant]:
    """Return the invariants that a log alone can be judged by: those that need nothing from outside.

    A state that its decider forgets is no longer there to be compared.
    """
    invariants = check_each(invariants, Invariant, "invariants", AN_INVARIANT)
    return [each for each in invariants if not any(map(_is_elsewhere, each.sources))]


def _is_elsewhere(source: object) -> bool:
    return isinstance(source, ExternalState) or (isinstance(source, Decider) and source.forgotten_at is not None)


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
                    for each in self._always.get(fold, ()):  # as `_broken` does: called for every event
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
        return self._broken(decider, key, state)

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
        """Return one that has seen the same, and goes on by itself."""
        made = copy(self)
        made._known = {source: dict(known) for source, known in self._known.items()}  # noqa: SLF001  of its own class
        return made

    def known(self) -> Mapping[str, Mapping[str, object]]:
        """Return what is known of each key by each source, equal for watches that will judge alike."""
        return {repr(source): known for source, known in self._known.items() if known}

    def __len__(self) -> int:
        """Count the values that are kept."""
        return sum(map(len, self._known.values()))

    def _broken(self, source: AnySource, key: str, state: object) -> list[Violation]:
        return [Violation(each, key, (state,)) for each in self._always.get(source, ()) if not each.holds(state)]

    def _keys(self, at_rest: Invariant, external: ExternalStates) -> Iterator[str]:
        if not _can_be_asked(at_rest, external):
            return iter(())
        places = [external[s] if isinstance(s, ExternalState) else self._known[s] for s in at_rest.sources]
        return iter(sorted({key for place in places for key in place}))

    def _rest(self, at_rest: Invariant, key: str, external: ExternalStates) -> Sequence[Violation]:
        places = [external[s] if isinstance(s, ExternalState) else self._known[s] for s in at_rest.sources]
        known = tuple(place.get(key, s.initial) for place, s in zip(places, at_rest.sources, strict=True))
        return _check(at_rest, key, known)


def _shown(known: Any, initial: object) -> str:
    if not is_dataclass(known) or type(known).__str__ is not object.__str__:
        return str(known)
    external = {field.name: getattr(known, field.name) for field in fields(known)}
    shown = [f"{name}={value!r}" for name, value in external.items() if value != getattr(initial, name)]
    return f"{type(known).__name__}({', '.join(shown)})"


def _check(each: Invariant, key: str, known: tuple[object, ...]) -> Sequence[Violation]:
    return () if each.holds(*known) else (Violation(each, key, known),)


def _can_be_asked(each: Invariant, external: ExternalStates) -> bool:
    return all(source in external for source in each.sources if isinstance(source, ExternalState))


def _unchanged(state: S, _event: Event) -> S:
    return state
