"""The events of whole sagas: decoded once, each with its order among those of its millisecond."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from analytics.audit.key_checking import KeyChecker, KeyRow, key_of_event, packed, read
from analytics.audit.key_rows import MISKEYED, UNREADABLE, Row
from analytics.audit.status import InFlight
from eventlib.eventlog import EventLog
from eventlib.log.record import Record, key_text
from eventlib.model.event import Event

_UNKNOWN_CAUSE: Final = 1 << 20
_NO_CAUSES: Final[Sequence[int]] = ()
_order = attrgetter("order")


class SagaEvents:
    """Makes the rows of sagas' events."""

    def __init__(self, checker: KeyChecker, flight: InFlight, log: EventLog) -> None:
        self._checker = checker
        self._flight = flight
        self._log = log

    def rows(self, records: Sequence[Record]) -> Iterator[Row]:
        """Yield the rows of records that come saga by saga."""
        first = 0
        for i in range(1, len(records) + 1):
            if i == len(records) or records[i].correlation_id != records[first].correlation_id:
                yield from self._saga(records[first:i])
                first = i

    def _saga(self, records: Sequence[Record]) -> list[Row]:
        found, events = list[Row](), list[Event | None]()
        in_flight = any(self._flight.has(record) for record in records)
        for record in records:
            event = read(self._log, record)
            readable = event if isinstance(event, Event) else None
            events.append(readable)
            if readable is None or key_text(record) != key_of_event(readable):
                rule = UNREADABLE if readable is None else MISKEYED
                found.append(_row(rule.name, key_text(record), [KeyRow(record, 0, "", in_flight)], None))
        places = {record.event_id: i for i, record in enumerate(records)}
        causes = [_causes(i, records, places) for i in range(len(records))]
        depths = [_depth(i, each, records, places) for i, each in enumerate(causes)]
        for field, fold in self._checker.folds.items():
            keys = [None if event is None else fold.concerns(event) for event in events]
            of_keys: dict[str, list[KeyRow]] = {}
            for i, key in enumerate(keys):
                if key is not None:
                    row = KeyRow(records[i], depths[i], _after(keys, i, causes[i], records), in_flight, events[i])
                    of_keys.setdefault(key, []).append(row)
            for key, rows in of_keys.items():
                rows.sort(key=_order)
                folded = self._checker.folded(field, key, rows) if field == self._checker.story else None
                found.append(_row(field, key, rows, folded))
        return found


def _row(field: str, key: str, rows: Sequence[KeyRow], folded: bytes | None) -> Row:
    return Row(*rows[0].order, field, key, folded, packed(rows))


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
