"""Invariants, and the sources of their values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar, overload

from eventlib.errors import WiringError
from eventlib.ground.arguments import AN_INVARIANT, check_each
from eventlib.model import signatures
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta

S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])


class Fold(Generic[S]):
    """A source of values from events alone: one state (a frozen dataclass with defaults) per key.

    Its evolve sees every event that has a field named `key`, whatever its record's key is, causes before
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
    """A source of values from an external system, by key: a payment gateway's ledger, for instance.

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
"""Reports of external systems, by key."""


@dataclass(frozen=True)
class Invariant:
    """A predicate over its sources' values for one key, and the sentence that it checks.

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
        """The values of its sources: of each, only the fields that differ from the initial state."""
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

    A state that its decider forgets is no longer compared.
    """
    invariants = check_each(invariants, Invariant, "invariants", AN_INVARIANT)
    return [each for each in invariants if not any(map(_is_elsewhere, each.sources))]


def _is_elsewhere(source: object) -> bool:
    return isinstance(source, ExternalState) or (isinstance(source, Decider) and source.forgotten_at is not None)


def _shown(known: Any, initial: object) -> str:
    if not is_dataclass(known) or type(known).__str__ is not object.__str__:
        return str(known)
    values = {field.name: getattr(known, field.name) for field in fields(known)}
    shown = [f"{name}={value!r}" for name, value in values.items() if value != getattr(initial, name)]
    return f"{type(known).__name__}({', '.join(shown)})"


def _unchanged(state: S, _event: Event) -> S:
    return state
