"""The laws that a choreography declares, checked on its log: events grouped by the key that a law is about."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Finding, Rule
from analytics.audit.rows import RECORD, WIDTH, batches_of, findings, record_columns, record_of, rows_of
from analytics.audit.standing import Flight, Standing
from eventlib.choreography import Choreography
from eventlib.decider import Decider
from eventlib.errors import UndecodableRecord
from eventlib.event import Event
from eventlib.eventlog import EventLog
from eventlib.inspection.ordering import causes_first
from eventlib.laws import Breach, Fold, Watch, judged_by_events
from eventlib.log.port import Record
from eventlib.runtime.records import STATE, state_name

UNREADABLE = Rule("unreadable", "error", "Every event can be read as what its type says.")

_ROW = t.StructType([
    *RECORD.fields,
    t.StructField("depth", t.IntegerType()),
    t.StructField("field", t.StringType()),
    t.StructField("about", t.StringType()),
    t.StructField("after", t.StringType()),
])  # fmt: skip
_LAST = 5
_NOT_READ = "unreadable"
_STATE_FIELD = "state"


def law_rules(choreography: Choreography) -> list[Rule]:
    """Return the laws as rules."""
    return [Rule(each.name, "error", each.sentence) for each in judged_by_events(choreography.laws)]


def law_findings(events: DataFrame, newest: DataFrame, check: "LawCheck") -> DataFrame:
    """Return which laws a log breaks; `newest` are its changelogs' newest records."""
    records = events.select(*record_columns(), f.col("correlation_id").alias("saga"))
    told = (
        records.repartition("saga")
        .sortWithinPartitions("saga")
        .drop("saga")
        .mapInArrow(partial(_unfolded, check=check), _ROW)
    )
    states = newest.filter(f.col("key").startswith(STATE)).select(
        *record_columns(),
        f.lit(_LATEST).alias("depth"),
        f.lit(_STATE_FIELD).alias("field"),
        f.lit("").alias("about"),
        f.lit("").alias("after"),
    )
    known = states.mapInArrow(partial(_states, check=check), _ROW)
    by_key = told.unionAll(known).repartition("field", "about")
    in_order = by_key.sortWithinPartitions("field", "about", "at_ms", "depth", "topic", "partition", "offset")
    return in_order.mapInArrow(partial(_folded, check=check), FINDING)


_LATEST = 1 << 30


class LawCheck:
    """What workers need: where the log is, whose it is, and how it stands."""

    def __init__(self, application: Application, url: str, standing: Standing) -> None:
        self.application = application
        self.url = url
        self.standing = standing


def _unfolded(batches: Iterable[pa.RecordBatch], check: LawCheck) -> Iterator[pa.RecordBatch]:
    """Yield each event once for each field that some law is about.

    With what tells its place among those of its millisecond: how many causes it has there, and the nearest of them that is
    about the same key.
    """
    folds = _folds(check.application.choreography)
    with check.application.opened(check.url) as log:
        yield from batches_of(_told(rows_of(batches), folds, log), _ROW)


def _folds(choreography: Choreography) -> dict[str, list[Fold[Any]]]:
    found = dict[str, list[Fold[Any]]]()
    for each in judged_by_events(choreography.laws):
        for source in each.sources:
            if isinstance(source, Fold) and source not in found.setdefault(source.key, []):
                found[source.key].append(source)
    return found


_AT, _SAGA = RECORD.names.index("at_ms"), RECORD.names.index("correlation_id")


def _told(
    rows: Iterator[tuple[Any, ...]], folds: dict[str, list[Fold[Any]]], log: EventLog
) -> Iterator[tuple[Any, ...]]:
    for _, group in groupby(rows, key=lambda row: row[_SAGA]):
        saga = [(row, record, _read(log, record)) for row in group for record in [record_of(row)]]
        by_id = {record.event_id: record for _, record, _ in saga}
        yield from ((*row, 0, _NOT_READ, row[4], "") for row, _, event in saga if not isinstance(event, Event))
        readable = [(row, record, event) for row, record, event in saga if isinstance(event, Event)]
        for field, of_field in folds.items():
            known = [(row, record, _about(of_field, event)) for row, record, event in readable]
            about = {record.event_id: key for _, record, key in known}
            for row, record, key in known:
                if key is not None:
                    same = [each.event_id for each in _causes(record, by_id) if about.get(each.event_id) == key]
                    # The nearest cause in its own millisecond that is about the same key.
                    yield (*row, _depth(record, by_id), field, key, same[0] if same else "")


def _about(of_field: Sequence[Fold[Any]], event: Event) -> str | None:
    return next((key for fold in of_field if (key := fold.concerns(event)) is not None), None)


def _read(log: EventLog, record: Record) -> Event | str:
    try:
        event = log.decode(record)
    except UndecodableRecord as error:
        return error.reason
    except Exception as error:  # noqa: BLE001  whatever is on the log, it is a finding
        return str(error)
    return event or f"{record.type} is not an event of this choreography"


def _depth(record: Record, by_id: dict[str, Record]) -> int:
    """Return how many causes an event has in its own millisecond; what begins with a cause of another saga comes last."""
    causes = [*_causes(record, by_id)]
    first = causes[-1] if causes else record
    is_known = first.causation_id in by_id if first.causation_id else first.sequence is None
    return len(causes) if is_known else len(causes) + _UNKNOWN_CAUSE


def _causes(record: Record, by_id: dict[str, Record]) -> Iterator[Record]:
    """Yield the causes of an event in its own millisecond, the nearest first."""
    seen, at = {record.event_id}, record
    while (cause := by_id.get(at.causation_id or "")) is not None:
        if cause.timestamp_ms != record.timestamp_ms or cause.event_id in seen:
            return
        seen.add(cause.event_id)
        yield cause
        at = cause


_UNKNOWN_CAUSE = 1 << 20


def _states(batches: Iterable[pa.RecordBatch], check: LawCheck) -> Iterator[pa.RecordBatch]:
    """Yield the states of deciders that some law is about, last of all that is known of their keys."""
    judged = {s.name: s for each in judged_by_events(check.application.choreography.laws) for s in each.sources}

    def told() -> Iterator[tuple[Any, ...]]:
        for row in rows_of(batches):
            decider, key = state_name(row[4])
            source = judged.get(decider)
            if isinstance(source, Decider) and row[5]:
                yield (*row[:3], _FOR_EVER, *row[4:WIDTH], _LATEST, source.key, key, "")

    return batches_of(told(), _ROW)


_FOR_EVER = 1 << 62


def _folded(batches: Iterable[pa.RecordBatch], check: LawCheck) -> Iterator[pa.RecordBatch]:
    """Yield what the laws find, key by key."""
    with check.application.opened(check.url) as log:
        judge = _Judge(check, log)
        keyed = groupby(rows_of(batches), key=lambda row: (row[WIDTH + 1], row[WIDTH + 2]))
        yield from findings(each for (field, key), rows in keyed for each in judge.key(field, key, rows))


class _Judge:
    """Takes the events of one key after the other."""

    def __init__(self, check: LawCheck, log: EventLog) -> None:
        choreography = check.application.choreography
        self._log = log
        laws = judged_by_events(choreography.laws)
        self._watches = {name: Watch(each for each in laws if each.key == name) for name in {each.key for each in laws}}
        self._flight = Flight(check.application, check.standing)
        self._deciders = {decider.name: decider for decider in choreography.deciders}
        self._story = check.application.story_field

    def key(self, field: str, key: str, rows: Iterable[Sequence[Any]]) -> Iterator[Finding]:
        """Yield what breaks a law about one key, each law once."""
        if field == _NOT_READ:
            yield from (self._unreadable(record_of(row)) for row in rows)
            return
        watch = self._watches[field]
        found, last, is_open = dict[str, Finding](), deque[str](maxlen=_LAST), False
        for row in _in_order(rows):
            record, story = record_of(row), key if field == self._story else ""
            if row[WIDTH] == _LATEST:
                breaches = self._known(watch, record)
            else:
                event = self._log.decode(record)
                if event is None:
                    continue
                story = story or str(getattr(event, self._story, None) or "")
                last.append(record.event_id)
                is_open = is_open or self._flight.has(record)
                breaches = watch.said(event, record.meta())
            for breach in breaches:
                found.setdefault(breach.law.name, _finding(breach, story, [record.event_id] if record.id else last))
        rest = watch.settled(field, key)
        for breach in () if is_open else rest:
            found.setdefault(breach.law.name, _finding(breach, key if field == self._story else "", last))
        yield from found.values()

    def _known(self, watch: Watch, record: Record) -> list[Breach]:
        decider, key = state_name((record.key or b"").decode())
        source = self._deciders[decider]
        return watch.changed(source, key, self._log.codec.decode(source.state, record.value or b""))

    def _unreadable(self, record: Record) -> Finding:
        key = (record.key or b"").decode()
        sentence = f"{record.type} at {record.topic}/{record.partition}/{record.offset}: {_read(self._log, record)}"
        return Finding(UNREADABLE.name, UNREADABLE.severity, key, f"key {key}", [record.event_id], sentence)


def _in_order(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield a key's rows as they came about: within a millisecond, as causes, sequences and offsets tell, before depths."""
    for _, group in groupby(rows, key=lambda row: row[_AT]):
        moment = [*group]
        after = [record_of(row)._replace(causation_id=row[WIDTH + 3] or None) for row in moment]
        yield from (moment[i] for i in causes_first(after))


def _finding(breach: Breach, story: str, evidence: Iterable[str]) -> Finding:
    about = f"{breach.law.key} {breach.key}"
    sentence = f"{breach.law.sentence} Not so: {breach.what_was_known}"
    return Finding(breach.law.name, "error", story, about, list(evidence), sentence)
