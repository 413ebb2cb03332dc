"""The events of whole sagas: decoded once, each with its order among those of its millisecond."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from analytics.audit.key_checking import KeyChecker, KeyRow, key_of_event, packed, read
from analytics.audit.key_rows import MISKEYED, UNREADABLE, Added
from analytics.audit.rows import RECORD
from analytics.audit.status import InFlight
from eventlib.eventlog import EventLog
from eventlib.log.record import Record, key_text
from eventlib.model.event import Event

_SAGA = RECORD.names.index("correlation_id")
_UNKNOWN_CAUSE = 1 << 20
_OF_KEY = itemgetter(0)


def whole_sagas(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows that come saga by saga, so that no saga is split between batches."""
    begun, last = list[pa.RecordBatch](), None
    for batch in batches:
        sagas = batch.column(_SAGA).to_pylist()
        if begun and sagas and sagas[0] != last:
            yield pa.concat_batches(begun)
            begun.clear()
        if sagas:
            start = sagas.index(last := sagas[-1])
            if start:
                yield pa.concat_batches([*begun, batch.slice(0, start)])
                begun.clear()
            begun.append(batch.slice(start))
    if begun:
        yield pa.concat_batches(begun)


class SagaEvents:
    """Makes the rows of sagas' events."""

    def __init__(self, checker: KeyChecker, flight: InFlight, log: EventLog) -> None:
        self._checker = checker
        self._flight = flight
        self._log = log

    def rows(self, records: Sequence[Record]) -> Iterator[Added]:
        """Yield the rows of records that come saga by saga."""
        for _, group in groupby(range(len(records)), key=lambda i: records[i].correlation_id):
            yield from self._saga([*group], records)

    def _saga(self, saga: Sequence[int], records: Sequence[Record]) -> Iterator[Added]:
        in_flight = any(self._flight.has(records[i]) for i in saga)
        events = dict[int, Event]()
        for i in saga:
            record, event = records[i], read(self._log, records[i])
            if isinstance(event, Event):
                events[i] = event
                if key_text(record) == key_of_event(event):
                    continue
            rule = MISKEYED if i in events else UNREADABLE
            yield Added(i, 0, rule.name, key_text(record), in_flight=in_flight)
        places = {records[i].event_id: i for i in saga}
        causes = {i: _causes(i, records, places) for i in events}
        depths = {i: _depth(i, causes[i], records, places) for i in events}
        for field, fold in self._checker.folds.items():
            concerns = fold.concerns
            known = {i: key for i, event in events.items() if (key := concerns(event)) is not None}
            if field == self._checker.story:
                rows = [
                    (key, KeyRow(records[i], depths[i], _after(known, i, causes[i], records), in_flight, events[i]), i)
                    for i, key in known.items()
                ]
                yield from self._together(field, rows)
            else:
                for i, key in known.items():
                    yield Added(i, depths[i], field, key, _after(known, i, causes[i], records), in_flight)

    def _together(self, field: str, rows: list[tuple[str, KeyRow, int]]) -> Iterator[Added]:
        """Yield one row for each key: with what its events of this saga have led to, and with all of them."""
        rows.sort(key=_key_and_order)
        for key, group in groupby(rows, key=_OF_KEY):
            found = [*group]
            _, first, at = found[0]
            in_order = [row for _, row, _ in found]
            folded = self._checker.folded(field, key, in_order)
            yield Added(at, first.depth, field, key, first.after, first.in_flight, folded, packed(in_order))


def _causes(i: int, records: Sequence[Record], places: Mapping[str, int]) -> Sequence[int]:
    """Return the causes of an event in its own millisecond, the nearest first."""
    cause, at_ms = places.get(records[i].causation_id or ""), records[i].timestamp_ms
    if cause is None or records[cause].timestamp_ms != at_ms:  # mostly
        return ()
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


def _after(known: Mapping[int, str], i: int, causes: Sequence[int], records: Sequence[Record]) -> str:
    """Return the id of the nearest cause about the same key."""
    return next((records[cause].event_id for cause in causes if known.get(cause) == known[i]), "") if causes else ""


def _key_and_order(row: tuple[str, KeyRow, int]) -> tuple[object, ...]:
    key, (record, depth, *_), _ = row
    return key, record.timestamp_ms, depth, record.topic, record.partition, record.offset
