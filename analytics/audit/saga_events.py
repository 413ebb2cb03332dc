"""The events of whole sagas: decoded once, each with its order among those of its millisecond."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from typing import Final

from analytics.audit.key_checking import KeyChecker, key_of_event, read
from analytics.audit.key_rows import MISKEYED, UNREADABLE, Row
from analytics.audit.packed_events import KeyRow, packed, values_of
from analytics.audit.status import InFlight
from eventlib.eventlog import EventLog
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text

_UNKNOWN_CAUSE: Final = 1 << 20
_NO_CAUSES: Final[Sequence[int]] = ()
_order = attrgetter("order")


class SagaEvents:
    """Makes the rows of sagas' events; with `shared`, only of these keys of the field that a saga ends under, with their events."""

    def __init__(self, checker: KeyChecker, flight: InFlight, log: EventLog, shared: Set[str] | None = None) -> None:
        self._checker = checker
        self._flight = flight
        self._log = log
        self._shared = shared
        wanted = checker.folds.items() if shared is None else [(checker.story, checker.folds[checker.story])]
        self._folds = [*wanted]
        self._of_many: dict[tuple[str, str], list[KeyRow]] = {}

    def rows(self, records: Iterable[Record]) -> Iterator[Row]:
        """Yield the rows of records that come saga by saga; under other keys than a saga's own, all events have one row."""
        saga = list[Record]()
        for record in records:
            if saga and record.correlation_id != saga[0].correlation_id:
                yield from self._saga(saga)
                saga = []
            saga.append(record)
        if saga:
            yield from self._saga(saga)
        of_many, self._of_many = self._of_many, {}
        for (field, key), rows in of_many.items():
            rows.sort(key=_order)
            yield Row(*rows[0].order, field, key, None, None, packed(rows))

    def _saga(self, records: Sequence[Record]) -> list[Row]:
        found, events = list[Row](), list[Event | None]()
        in_flight = self._is_in_flight(records)
        for record in records:
            event = read(self._log, record)
            readable = None if isinstance(event, str) else event
            events.append(readable)
            if self._shared is None and (readable is None or key_text(record) != key_of_event(readable)):
                rule, alone = UNREADABLE if readable is None else MISKEYED, KeyRow(record, 0, "", in_flight)
                found.append(Row(*alone.order, rule.name, key_text(record), None, None, packed([alone])))
        places = {record.event_id: i for i, record in enumerate(records)}
        causes = [_causes(i, records, places) for i in range(len(records))]
        depths = [_depth(i, each, records, places) for i, each in enumerate(causes)]
        for field, fold in self._folds:
            keys = [None if event is None else _key(event, field) for event in events]
            is_own = field == self._checker.story
            of_keys: dict[str, list[KeyRow]] = {}
            for i, key in enumerate(keys):
                if key is not None and (self._shared is None or key in self._shared):
                    after = _after(keys, i, causes[i], records)
                    if is_own:
                        of_keys.setdefault(key, []).append(KeyRow(records[i], depths[i], after, in_flight, events[i]))
                    else:
                        known = events[i]
                        values = None if known is None or fold.wants_meta else values_of(known)
                        row = KeyRow(records[i], depths[i], after, in_flight, None, values)
                        self._of_many.setdefault((field, key), []).append(row)
            for key, rows in of_keys.items():
                rows.sort(key=_order)
                folded = self._checker.folded(field, key, rows) if self._shared is None else None
                of_key = Row(*rows[0].order, field, key, records[0].correlation_id, folded, b"")
                found.append(of_key if folded is not None else of_key._replace(events=packed(rows)))
        return found

    def _is_in_flight(self, records: Sequence[Record]) -> bool:
        for record in records:  # noqa: SIM110  compiled, a loop takes half the time of a generator
            if self._flight.has(record):
                return True
        return False


def _key(event: Event, field: str) -> str | None:
    """Return what `Fold.concerns` returns; called for every event."""
    key = event.__dict__.get(field)
    return None if key is None else str(key)


def _causes(i: int, records: Sequence[Record], places: Mapping[str, int]) -> Sequence[int]:
    """Return the causes of an event in its own millisecond, the nearest first."""
    cause, at_ms = places.get(records[i].causation_id or ""), records[i].timestamp_ms
    if cause is None or records[cause].timestamp_ms != at_ms:  # mostly
        return _NO_CAUSES
    found, seen = list[int](), {records[i].event_id}
    while cause is not None and records[cause].timestamp_ms == at_ms and records[cause].event_id not in seen:
        seen.add(records[cause].event_id)
        found.append(cause)
        cause = places.get(records[cause].causation_id or "")
    return found


def _depth(i: int, causes: Sequence[int], records: Sequence[Record], places: Mapping[str, int]) -> int:
    """Return how many causes an event has in its own millisecond; chains from another saga's cause come last."""
    first = records[causes[-1] if causes else i]
    is_known = first.causation_id in places if first.causation_id else first.sequence is None
    return len(causes) if is_known else len(causes) + _UNKNOWN_CAUSE


def _after(keys: Sequence[str | None], i: int, causes: Sequence[int], records: Sequence[Record]) -> str:
    """Return the id of the nearest cause about the same key."""
    for cause in causes:
        if keys[cause] == keys[i]:
            return records[cause].event_id
    return ""
