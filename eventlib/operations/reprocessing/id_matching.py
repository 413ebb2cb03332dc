"""Matches ids of a rerun's outputs to the original outputs of the same cause."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from eventlib.codec.base import Codec
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.operations.reprocessing.original_outputs import OutputsAt
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.emit import Emission

_What = tuple[str, bytes | None, bytes | None]
_Cause = tuple[str, str, str]
"""A source, its subject, and the id of the cause."""

_NOTHING: Sequence[Record] = ()


class Naming:
    """Assigns ids to the outputs of one task of a rerun, transaction by transaction.

    `later` are the service's outputs when it took over an earlier rerun, long after their causes.
    """

    def __init__(self, codec: Codec, later: Sequence[Record]) -> None:
        self._codec = codec
        self._later: dict[_Cause, list[Record]] = {}
        for record in later:
            cause = record.source or "", record.subject or "", record.causation_id or ""
            self._later.setdefault(cause, []).append(record)
        self._then = OutputsAt()
        self._turn: tuple[Emission, list[Record]] | None = None
        self._instead: dict[str, list[Record]] = {}

    def begin(self, then: OutputsAt) -> None:
        """Begin a transaction for which the service had these outputs."""
        self._then = then
        self._turn = None
        self._instead = {}

    def instead_of(self, event_id: str) -> Record | None:
        """Remove and return the service's event that an emitted event replaces; None if there is none."""
        found = self._instead.get(event_id)
        return found.pop(0) if found else None

    def __call__(self, emission: Emission, emitted: Sequence[Event]) -> list[str]:
        """Return the ids of the events of one emission.

        First, equal events get the recorded ids, preferably at the same position; then events of equal type and key. The rest
        get ids that the service has not used, but replace the recorded events that are left.
        """
        then = self._recorded(emission)
        later = self._later.get((emission.builder.source, emission.key, emission.cause.caused_by), _NOTHING)
        if not then and not later:
            return [emission.derived_id(ordinal) for ordinal in range(len(emitted))]
        whole = [_what(event, self._codec.encode(event)) for event in emitted]
        ids: list[str | None] = [None] * len(emitted)
        left = dict(enumerate(then))
        for ordinal, recorded in _matched(whole, ids, left):
            ids[ordinal] = self._placed(recorded.event_id, recorded)
        others = [ordinal for ordinal, event_id in enumerate(ids) if event_id is None]
        for ordinal, recorded in _matched(whole, ids, dict(enumerate(later))):
            ids[ordinal] = recorded.event_id
        used = {record.event_id for record in (*then, *later)}
        named = list[str]()
        for ordinal, event_id in enumerate(ids):
            named.append(event_id or _unused(emission, ordinal, whole[ordinal], used))
            used.add(named[-1])
        for ordinal, instead in zip(others, sorted(left), strict=False):
            self._placed(named[ordinal], left[instead])
        return named

    def _recorded(self, emission: Emission) -> list[Record]:
        if self._turn is None or self._turn[0] is not emission:
            self._turn = emission, _of_turn(emission, self._then)
        return self._turn[1]

    def _placed(self, event_id: str, recorded: Record) -> str:
        self._instead.setdefault(event_id, []).append(recorded)
        return event_id


def _of_turn(emission: Emission, then: OutputsAt) -> list[Record]:
    """Take the service's outputs of one emission: their ids derive from it, too."""
    found = list[Record]()
    while (record := then.take(emission.derived_id(len(found)))) is not None:
        found.append(record)
    return found


def _matched(
    whole: Sequence[_What], ids: Sequence[str | None], left: dict[int, Record]
) -> Iterator[tuple[int, Record]]:
    """Yield matches of events without ids with recorded ones, and remove these from `left`."""
    open_ones = [ordinal for ordinal, event_id in enumerate(ids) if event_id is None]
    for is_same in (_in_place, _equal, _one_fact):
        for ordinal in [*open_ones]:
            found = next((at for at, each in left.items() if is_same(ordinal, whole[ordinal], at, each)), None)
            if found is not None:
                open_ones.remove(ordinal)
                yield ordinal, left.pop(found)


def _unused(emission: Emission, ordinal: int, what: _What, used: Collection[str]) -> str:
    """Return an id that the service has not used: derived from the position, or else from the content."""
    event_id = emission.derived_id(ordinal)
    place = f"{event_id}\x1f{what[0]}\x1f{what[1]!r}"
    while event_id in used:
        event_id = place = derived_id(place, emission.builder.decider.name, emission.key, ordinal)
    return event_id


def _what(event: Event, value: bytes) -> _What:
    return contract_of(type(event)).type, (key_of(event) or "").encode(), value


def _equal(_ordinal: int, what: _What, _at: int, recorded: Record) -> bool:
    return what == (recorded.type, recorded.key, recorded.value)


def _in_place(ordinal: int, what: _What, at: int, recorded: Record) -> bool:
    return ordinal == at and _equal(ordinal, what, at, recorded)


def _one_fact(_ordinal: int, what: _What, _at: int, recorded: Record) -> bool:
    return what[:2] == (recorded.type, recorded.key)


class Outline(NamedTuple):
    """A summary of a task's journal.

    `entries` counts its transactions, `done` those before the given offset; in the millisecond of the last of these,
    `done_ms`, `done_emitted` events were emitted. `begun` are the topics that the task has consumed. `taken_over` has when
    the task took over earlier reruns (ms), and how many events it then emitted.
    """

    entries: int
    done: int
    done_ms: int
    done_emitted: int
    first_ms: int
    begun: frozenset[str]
    taken_over: tuple[tuple[int, int], ...]


async def outline(journal: TaskJournal, done_to: int) -> Outline:
    """Read a whole journal. Raises: ContractError when its beginning is missing."""
    entries = done = done_ms = done_emitted = first_ms = 0
    begun = set[str]()
    taken_over = list[tuple[int, int]]()
    async for record, entry in journal.entries():
        first_ms = first_ms or entry.at_ms
        entries += 1
        if record.offset < done_to:
            done += 1
            done_ms, done_emitted = entry.at_ms, entry.said + (done_emitted if entry.at_ms == done_ms else 0)
        begun |= {step.topic for step in entry.steps if step.kind == "begin"}
        if any(step.kind == "switch" for step in entry.steps):
            taken_over.append((entry.at_ms, entry.said))
    return Outline(entries, done, done_ms, done_emitted, first_ms, frozenset(begun), tuple(taken_over))
