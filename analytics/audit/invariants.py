"""Checks the invariants that a choreography declares on its log: events grouped by the key of each invariant."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.rows import RECORD, WIDTH, findings, record_columns, records_of
from analytics.audit.shares import make_ready
from analytics.audit.status import InFlight, LogStatus
from analytics.schema import UNREADABLE as UNREADABLE_HEADERS
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.invariants import Fold, InvariantChecker, Violation, judged_by_events
from eventlib.log.record import Record, key_text
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, key_of
from eventlib.queries.sagas import causes_first
from eventlib.runtime.records import STATE, state_name

UNREADABLE = Rule("unreadable", "error", "Every event can be read as what its type says.")
MISKEYED = Rule("key-differs", "error", "An event's key is what its own field says.")

_ROW = t.StructType([
    *RECORD.fields,
    t.StructField("depth", t.IntegerType()),
    t.StructField("field", t.StringType()),
    t.StructField("about", t.StringType()),
    t.StructField("after", t.StringType()),
    t.StructField("in_flight", t.BooleanType()),
])  # fmt: skip
_LAST = 5
_NO_META = Meta("")
_NOT_READ, _MISKEYED = UNREADABLE.name, MISKEYED.name


def invariant_rules(choreography: Choreography) -> list[Rule]:
    """Return the invariants as rules."""
    return [Rule(each.name, "error", each.sentence) for each in judged_by_events(choreography.invariants)]


def invariant_findings(events: DataFrame, newest: DataFrame, check: "InvariantCheck") -> DataFrame:
    """Return the invariants that a log violates; `newest` are its changelogs' newest records."""
    records = events.select(*record_columns(), f.col("correlation_id").alias("saga"))
    unfolded = (
        records.repartition("saga")
        .sortWithinPartitions("saga")
        .drop("saga")
        .mapInArrow(partial(_unfolded, check=check), _ROW)
    )
    states = newest.filter(f.col("key").startswith(STATE)).select(*record_columns())
    known = states.withColumn("at_ms", f.lit(_FOR_EVER)).mapInArrow(partial(_states, check=check), _ROW)
    by_key = unfolded.unionAll(known).repartition("field", "about")
    # Spark compares the first number without reading the rows, all of which have one of a few fields.
    first = f.xxhash64("field", "about")
    in_order = by_key.sortWithinPartitions(first, "field", "about", "at_ms", "depth", "topic", "partition", "offset")
    return in_order.mapInArrow(partial(_folded, check=check), FINDING)


_LATEST, _FOR_EVER = 1 << 30, 1 << 62  # the depth and the time of a decider's state: after all its events


class InvariantCheck:
    """What workers need: the log's URL, its application, and its status."""

    def __init__(self, application: Application, url: str, status: LogStatus) -> None:
        self.application = application
        self.url = url
        self.status = status


def _unfolded(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield each event once for each field that an invariant is about.

    With its order among those of its millisecond (how many causes it has there, and the nearest of them about the same key),
    and whether its saga is in flight.
    """
    make_ready()
    folds, flight = _folds(check.application.choreography), InFlight(check.application, check.status)
    with check.application.opened(check.url) as log:
        for whole in _whole_sagas(batches):
            records = [record for record, _ in records_of([whole])]
            yield from _with_columns(whole, _located(records, folds, flight, log))


def _folds(choreography: Choreography) -> dict[str, Fold[Any]]:
    """Return the fields that invariants are about, each with one of the folds that return an event's keys."""
    sources = (source for each in judged_by_events(choreography.invariants) for source in each.sources)
    return {source.key: source for source in sources if isinstance(source, Fold)}


_SAGA = RECORD.names.index("correlation_id")


def _whole_sagas(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def _located(
    records: Sequence[Record], folds: Mapping[str, Fold[Any]], flight: InFlight, log: EventLog
) -> Iterator["_Added"]:
    """Yield the added columns of each record for each field that it is about."""
    for _, group in groupby(range(len(records)), key=lambda i: records[i].correlation_id):
        saga = [*group]
        places = {records[i].event_id: i for i in saga}
        in_flight = any(flight.has(records[i]) for i in saga)
        events = {i: _read(log, records[i]) for i in saga}
        about = {
            field: {i: fold.concerns(event) for i, event in events.items() if isinstance(event, Event)}
            for field, fold in folds.items()
        }
        for i in saga:
            if not isinstance(events[i], Event):
                yield i, 0, _NOT_READ, key_text(records[i]), "", in_flight
                continue
            if key_text(records[i]) != _key_of(events[i]):
                yield i, 0, _MISKEYED, key_text(records[i]), "", in_flight
            causes = [*_causes(i, records, places)]
            depth = _depth(i, causes, records, places)
            for field, known in about.items():
                key = known[i]
                if key is not None:
                    same = (records[cause].event_id for cause in causes if known.get(cause) == key)
                    yield i, depth, field, key, next(same, ""), in_flight


_Added = tuple[int, int, str, str, str, bool]
"""Which of a batch's records, and the columns of `_ROW` after a record's."""


def _with_columns(batch: pa.RecordBatch, added: Iterable[_Added]) -> Iterator[pa.RecordBatch]:
    """Yield records of a batch with added columns; Arrow copies them, in a tenth of the time of Python objects."""
    found = [*added]
    if found:
        rows, *columns = zip(*found, strict=True)
        schema = to_arrow_schema(_ROW)
        new = map(pa.array, columns, schema.types[WIDTH:])
        yield pa.RecordBatch.from_arrays([*batch.take(pa.array(rows)).columns, *new], schema=schema)


def _key_of(event: object) -> str:
    try:
        return (key_of(event) if isinstance(event, Event) else None) or ""
    except ContractError:
        return ""


def _read(log: EventLog, record: Record) -> Event | str:
    if any(name == UNREADABLE_HEADERS for name, _ in record.headers):
        return "its bytes are damaged"
    try:
        event = log.decode(record)
    except UndecodableRecord as error:
        return error.reason
    except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
        return str(error)
    return event or f"{record.type} is not an event of this choreography"


def _depth(i: int, causes: Sequence[int], records: Sequence[Record], places: Mapping[str, int]) -> int:
    """Return how many causes an event has in its own millisecond; chains from another saga's cause come last."""
    first = records[causes[-1] if causes else i]
    is_known = first.causation_id in places if first.causation_id else first.sequence is None
    return len(causes) if is_known else len(causes) + _UNKNOWN_CAUSE


def _causes(i: int, records: Sequence[Record], places: Mapping[str, int]) -> Iterator[int]:
    """Yield the causes of an event in its own millisecond, the nearest first."""
    seen, at_ms = {records[i].event_id}, records[i].timestamp_ms
    while (cause := places.get(records[i].causation_id or "")) is not None:
        if records[cause].timestamp_ms != at_ms or records[cause].event_id in seen:
            return
        seen.add(records[cause].event_id)
        yield cause
        i = cause


_UNKNOWN_CAUSE = 1 << 20


def _states(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield the states of deciders that an invariant is about, after all events of their keys."""
    judged = {s.name: s for each in judged_by_events(check.application.choreography.invariants) for s in each.sources}

    def unfolded(batch: pa.RecordBatch) -> Iterator[_Added]:
        for i, (record, _) in enumerate(records_of([batch])):
            decider, _, key = key_text(record).removeprefix(STATE).partition("/")
            source = judged.get(decider)
            if isinstance(source, Decider) and record.value:
                yield i, _LATEST, source.key or "", key, "", False

    for batch in batches:
        yield from _with_columns(batch, unfolded(batch))


_AT, _KEY = itemgetter(1), itemgetter(3, 4)  # of a row: a record, its time, and the columns of `_ROW` after a record's


def _folded(batches: Iterable[pa.RecordBatch], check: InvariantCheck) -> Iterator[pa.RecordBatch]:
    """Yield the violations of the invariants, key by key."""
    make_ready()
    with check.application.opened(check.url) as log:
        judge = _Checker(check, log)
        keyed = groupby(records_of(batches), key=_KEY)
        yield from findings(each for (field, key), rows in keyed for each in judge.key(field, key, rows))


class _Checker:
    """Checks the events of one key after the other."""

    def __init__(self, check: InvariantCheck, log: EventLog) -> None:
        choreography = check.application.choreography
        self._log = log
        invariants = judged_by_events(choreography.invariants)
        self._watches = {
            name: InvariantChecker(each for each in invariants if each.key == name)
            for name in {each.key for each in invariants}
        }
        self._deciders = {decider.name: decider for decider in choreography.deciders}
        self._story = check.application.story_field

    def key(self, field: str, key: str, rows: Iterable[Sequence[Any]]) -> Iterator[Finding]:
        """Yield the violations for one key, each invariant once."""
        if field == _NOT_READ:
            yield from (self._unreadable(record) for record, *_ in rows)
            return
        if field == _MISKEYED:
            yield from (self._miskeyed(record) for record, *_ in rows)
            return
        watch = self._watches[field]
        wants_meta = watch.wants_meta
        found, last, is_open = dict[str, Finding](), deque[str](maxlen=_LAST), False
        for record, depth, in_flight in _in_order(rows):
            story = key if field == self._story else ""
            if depth == _LATEST:
                try:
                    violations = self._known(watch, record)
                except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
                    where = f"{record.topic}/{record.partition}/{record.offset}"
                    sentence = f"The state at {where} cannot be read: {error}"
                    found[where] = Finding(
                        UNREADABLE.name, "error", story, f"key {key_text(record)}", [where], sentence
                    )
                    continue
            else:
                event = self._log.decode(record)
                if event is None:
                    continue
                story = story or str(getattr(event, self._story, None) or "")
                last.append(record.event_id)
                is_open = is_open or in_flight
                violations = watch.emitted(event, record.meta() if wants_meta else _NO_META)
            for violation in violations:
                found.setdefault(
                    violation.invariant.name, _finding(violation, story, [record.event_id] if record.id else last)
                )
        rest = watch.settled(field, key)
        for violation in () if is_open else rest:
            found.setdefault(violation.invariant.name, _finding(violation, key if field == self._story else "", last))
        yield from found.values()

    def _known(self, watch: InvariantChecker, record: Record) -> list[Violation]:
        decider, key = state_name((record.key or b"").decode())
        source = self._deciders[decider]
        return watch.changed(source, key, self._log.codec.decode(source.state, record.value or b""))

    def _miskeyed(self, record: Record) -> Finding:
        event = self._log.decode(record)
        order = str(getattr(event, self._story, None) or "")
        where = f"{record.topic}/{record.partition}/{record.offset}"
        sentence = f"{record.type} at {where} has the key {key_text(record)!r}, but its field is {_key_of(event)!r}."
        return Finding(MISKEYED.name, MISKEYED.severity, order, f"key {key_text(record)}", [record.event_id], sentence)

    def _unreadable(self, record: Record) -> Finding:
        key = (record.key or b"").decode()
        sentence = f"{record.type} at {record.topic}/{record.partition}/{record.offset}: {_read(self._log, record)}"
        return Finding(UNREADABLE.name, UNREADABLE.severity, key, f"key {key}", [record.event_id], sentence)


def _in_order(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Record, int, bool]]:
    """Yield a key's records, with their depths and whether their sagas are in flight, in causal order: within a millisecond, by causes, sequences and offsets, before depths."""
    for _, group in groupby(rows, key=_AT):
        moment = [*group]
        for i in _order(moment) if len(moment) > 1 else (0,):
            record, _, depth, *_, in_flight = moment[i]
            yield record, depth, in_flight


def _order(moment: Sequence[Sequence[Any]]) -> list[int]:
    return causes_first([record for record, *_ in moment], [after for *_, after, _ in moment])


def _finding(violation: Violation, story: str, evidence: Iterable[str]) -> Finding:
    about = f"{violation.invariant.key} {violation.key}"
    sentence = f"{violation.invariant.sentence} Violated: {violation.what_was_known}"
    return Finding(violation.invariant.name, "error", story, about, list(evidence), sentence)
