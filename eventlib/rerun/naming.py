"""Gives what a rerun says about a cause the ids of what the service said about it, where the two are the same facts.

An id derives from its event's place among those that follow from one cause. Code that says one event more, or fewer,
would give all that come after it other ids; so they are matched by what they say.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from eventlib.codec.port import Codec
from eventlib.event import Event, contract_of, key_of
from eventlib.identity import derived_id
from eventlib.log.port import Record
from eventlib.rerun.recorded import SaidThen
from eventlib.runtime.saying import Turn

_What = tuple[str, bytes | None, bytes | None]
_Cause = tuple[str, str, str]
"""A source, its subject, and what caused it to speak."""

_NOTHING: Sequence[Record] = ()


class Naming:
    """Names what one task of a rerun says, in one transaction after the other.

    `later` is what the service has said when it took over an earlier rerun, long after the causes.
    """

    def __init__(self, codec: Codec, later: Sequence[Record]) -> None:
        self._codec = codec
        self._later: dict[_Cause, list[Record]] = {}
        for record in later:
            cause = record.source or "", record.subject or "", record.causation_id or ""
            self._later.setdefault(cause, []).append(record)
        self._then = SaidThen()
        self._turn: tuple[Turn, list[Record]] | None = None
        self._instead: dict[str, list[Record]] = {}

    def begin(self, then: SaidThen) -> None:
        """Begin a transaction in whose place the service said this."""
        self._then = then
        self._turn = None
        self._instead = {}

    def instead_of(self, event_id: str) -> Record | None:
        """Take the event of the service's in whose stead an event was said; None when there is none."""
        found = self._instead.get(event_id)
        return found.pop(0) if found else None

    def __call__(self, turn: Turn, said: Sequence[Event]) -> list[str]:
        """Return the ids of what is said in a turn.

        First those events get each other's ids that are alike, best in the same place; then those of one type and key.
        What is left gets ids that the service has not used, though it stands in the place of what else is left.
        """
        then = self._recorded(turn)
        later = self._later.get((turn.speaker.source, turn.key, turn.cause.caused_by), _NOTHING)
        if not then and not later:
            return [turn.derived_id(ordinal) for ordinal in range(len(said))]
        whole = [_what(event, self._codec.encode(event)) for event in said]
        ids: list[str | None] = [None] * len(said)
        left = dict(enumerate(then))
        for ordinal, recorded in _matched(whole, ids, left):
            ids[ordinal] = self._placed(recorded.event_id, recorded)
        others = [ordinal for ordinal, event_id in enumerate(ids) if event_id is None]
        for ordinal, recorded in _matched(whole, ids, dict(enumerate(later))):
            ids[ordinal] = recorded.event_id
        used = {record.event_id for record in (*then, *later)}
        named = list[str]()
        for ordinal, event_id in enumerate(ids):
            named.append(event_id or _unused(turn, ordinal, whole[ordinal], used))
            used.add(named[-1])
        for ordinal, instead in zip(others, sorted(left), strict=False):
            self._placed(named[ordinal], left[instead])
        return named

    def _recorded(self, turn: Turn) -> list[Record]:
        if self._turn is None or self._turn[0] is not turn:
            self._turn = turn, _of_turn(turn, self._then)
        return self._turn[1]

    def _placed(self, event_id: str, recorded: Record) -> str:
        self._instead.setdefault(event_id, []).append(recorded)
        return event_id


def _of_turn(turn: Turn, then: SaidThen) -> list[Record]:
    """Take what the service said in a turn: its ids derive from the turn as well."""
    found = list[Record]()
    while (record := then.take(turn.derived_id(len(found)))) is not None:
        found.append(record)
    return found


def _matched(
    whole: Sequence[_What], ids: Sequence[str | None], left: dict[int, Record]
) -> Iterator[tuple[int, Record]]:
    """Yield which of the events that have no ids yet are which of those recorded, and take these out of `left`."""
    open_ones = [ordinal for ordinal, event_id in enumerate(ids) if event_id is None]
    for is_same in (_in_place, _alike, _one_fact):
        for ordinal in [*open_ones]:
            found = next((at for at, each in left.items() if is_same(ordinal, whole[ordinal], at, each)), None)
            if found is not None:
                open_ones.remove(ordinal)
                yield ordinal, left.pop(found)


def _unused(turn: Turn, ordinal: int, what: _What, used: Collection[str]) -> str:
    """Return an id that the service has not used: the one that derives from the place, or one from what is said."""
    event_id = turn.derived_id(ordinal)
    place = f"{event_id}\x1f{what[0]}\x1f{what[1]!r}"
    while event_id in used:
        event_id = place = derived_id(place, turn.speaker.decider.name, turn.key, ordinal)
    return event_id


def _what(event: Event, value: bytes) -> _What:
    return contract_of(type(event)).type, (key_of(event) or "").encode(), value


_Same = Callable[[int, _What, int, Record], bool]


def _alike(_ordinal: int, what: _What, _at: int, recorded: Record) -> bool:
    return what == (recorded.type, recorded.key, recorded.value)


def _in_place(ordinal: int, what: _What, at: int, recorded: Record) -> bool:
    return ordinal == at and _alike(ordinal, what, at, recorded)


def _one_fact(_ordinal: int, what: _What, _at: int, recorded: Record) -> bool:
    return what[:2] == (recorded.type, recorded.key)
