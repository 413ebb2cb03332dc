"""Which decisions two versions of the code make differently, grouped by what is different about them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from eventlib.model.measures import Measures
from eventlib.replay.report import MOST_SAGAS, ComparedEvent, Difference, Kind

_PARKS: set[Kind] = {"raises", "unreadable"}
_FAILS: set[Kind] = {*_PARKS, "no-deadline", "overdue", "unhandled", "state"}


class Signature(NamedTuple):
    """What the decisions of a group have in common."""

    handler: str
    input: str
    kind: str
    delta: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """One decision that differs: what the older code emits (`before`), and how the newer one differs from the record."""

    before: Sequence[ComparedEvent]
    difference: Difference
    recovers: bool = False

    @property
    def after(self) -> Sequence[ComparedEvent]:
        """What the newer code emits."""
        return self.difference.now

    @property
    def kind(self) -> str:
        """How it differs: as `Difference.kind` says, or `recovers`, where the older code raised."""
        if self.recovers:
            return "recovers"
        if self.difference.kind in _FAILS:
            return self.difference.kind
        return "other" if self.before and self.after else "silent" if self.before else "talks"

    @property
    def parks(self) -> bool:
        """Whether the newer code parks the input."""
        return self.difference.kind in _PARKS

    @property
    def signature(self) -> Signature:
        """The signature that it shares with its group."""
        return Signature(self.difference.handler, self.difference.input.type, self.kind, self.delta)

    @property
    def delta(self) -> tuple[str, ...]:
        """The types of events that are emitted more (+) or less (-), or with other fields (~), in alphabetical order."""
        counts = Counter(each.type for each in self.after)
        counts.subtract(each.type for each in self.before)
        found = [f"{'+' if n > 0 else '-'}{name}" for name, n in counts.items() for _ in range(abs(n))]
        if not found:
            old, new = (Counter(map(repr, events)) for events in (self.before, self.after))
            found = [f"~{each.type}" for each in self.after if repr(each) in new - old]
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class DifferenceGroup:
    """Decisions that differ in the same way: how many, in how many sagas, the smallest one; `lines` are responsible.

    `lines` are `path:line in function` of lines that have changed and run in the smallest one.
    """

    signature: Signature
    decisions: int
    sagas: tuple[str, ...]
    example: Changed
    lines: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_expected(self) -> bool:
        """Whether it was declared."""
        return bool(self.reason)


class Total(NamedTuple):
    """How much more (or less) of a type of event is emitted, and what its money and units come to."""

    type: str
    events: int
    measures: Measures


@dataclass(frozen=True, slots=True)
class Diff:
    """What two versions of the code decide differently: `base` and `head` are their names.

    `stale` are declarations of differences that are not there; `notes` and `damaged` are as a replay's.
    """

    base: str
    head: str
    events: int
    decisions: int
    groups: tuple[DifferenceGroup, ...]
    totals: tuple[Total, ...]
    parked: int
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def differences(self) -> int:
        """How many decisions differ."""
        return sum(group.decisions for group in self.groups)

    @property
    def sagas(self) -> tuple[str, ...]:
        """The sagas with a difference."""
        return tuple(sorted({saga for group in self.groups for saga in group.sagas}))

    @property
    def unexpected(self) -> tuple[DifferenceGroup, ...]:
        """The groups that were not declared."""
        return tuple(group for group in self.groups if not group.is_expected)


def changed(base: Iterable[Difference], head: Iterable[Difference]) -> Iterator[Changed]:
    """Yield the decisions that two versions make differently, given where each differs from what was recorded."""
    older = {_place(each): each for each in base}
    for new in head:
        old = older.pop(_place(new), None)
        if old is None:
            yield Changed(new.then, new)
        elif (_told(old.now), old.kind in _FAILS and old.kind) != (_told(new.now), new.kind in _FAILS and new.kind):
            yield Changed(old.now, new, recovers=old.kind in _PARKS and new.kind not in _FAILS)
    for old in older.values():  # the newer code decides what was recorded
        yield Changed(old.now, replace(old, now=old.then, kind="other", why=""), recovers=old.kind in _PARKS)


def _place(difference: Difference) -> tuple[str, str, str, int]:
    """Return what names a decision: of whom, about which key, on what."""
    given = difference.input
    return difference.source, difference.key, given.id or given.type, given.offset


def _told(events: Sequence[ComparedEvent]) -> list[tuple[object, ...]]:
    return [(each.type, each.key, each.topic, each.facts, each.error) for each in events]


class Grouping:
    """Counts differing decisions by their signatures, and keeps the smallest of each."""

    def __init__(self) -> None:
        self._decisions = Counter[Signature]()
        self._sagas = defaultdict[Signature, set[str]](set)
        self._smallest: dict[Signature, tuple[tuple[object, ...], Changed]] = {}
        self._events = Counter[str]()
        self._measures = defaultdict[str, dict[str, Decimal]](dict)
        self.parked = 0

    def add(self, found: Changed) -> None:
        """Count a decision."""
        difference, signature = found.difference, found.signature
        self._decisions[signature] += 1
        if len(self._sagas[signature]) < MOST_SAGAS:
            self._sagas[signature].add(difference.saga)
        size = (len(repr((difference.input.facts, found.before, found.after))), difference.place)
        if signature not in self._smallest or size < self._smallest[signature][0]:
            self._smallest[signature] = size, found
        self.parked += found.parks
        for sign, events in ((1, found.after), (-1, found.before)):
            for event in events:
                self._events[event.type] += sign
                measures = self._measures[event.type]
                for unit, amount in event.measures.items():
                    measures[unit] = measures.get(unit, Decimal()) + sign * amount

    def groups(self) -> tuple[DifferenceGroup, ...]:
        """Return the groups, the most frequent first."""
        order = sorted(self._decisions, key=lambda signature: (-self._decisions[signature], signature))
        return tuple(
            DifferenceGroup(each, self._decisions[each], tuple(sorted(self._sagas[each])), self._smallest[each][1])
            for each in order
        )

    def totals(self) -> tuple[Total, ...]:
        """Return what is emitted more or less, by type, of the types for which that is anything."""
        found = list[Total]()
        for name in sorted(self._events):
            measures: Mapping[str, Decimal] = {unit: sum_ for unit, sum_ in self._measures[name].items() if sum_}
            if self._events[name] or measures:
                found.append(Total(name, self._events[name], measures))
        return tuple(found)
