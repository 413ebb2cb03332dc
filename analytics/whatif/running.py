"""Plays an alternative past with Spark's workers, and makes its tables."""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.audit.application import Run
from analytics.audit.routing import Routes
from analytics.audit.rows import batches_of, records_of
from analytics.whatif.alternative import Alternative
from analytics.whatif.codec import alternative_log
from analytics.whatif.figures import Figure
from analytics.whatif.hypothesis import Hypothesis
from analytics.whatif.past import ANNOUNCED, JOURNALLED, last_ms, past
from analytics.whatif.played import Due
from analytics.whatif.rows import row_schema
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.runtime.records import JournalEntry, TaskTime
from eventlib.runtime.runtime import collect_garbage_seldom

_REFUSED = re.compile(r"^eventlib\.errors\.WiringError: (.+)$", re.MULTILINE)
"""What a worker has refused, in the text that Spark makes of it."""

_PART, _TIME = itemgetter(4), itemgetter(5, 1)  # of a row, its part; what orders it, and its time
_OBJECTS = 500_000


@dataclass(frozen=True)
class Outcome:
    """The tables of an alternative past; `parts` is how many workers could play it beside each other."""

    events: DataFrame
    sagas: DataFrame
    parts: int


def what_if(
    spark: SparkSession, url: str, hypothesis: Hypothesis, place: Path, *, most_parts: int | None = None
) -> Outcome:
    """Decide a whole log again by other rules, and write `whatif_events` and `whatif_sagas` in a directory.

    At most `most_parts` workers play independent parts beside each other; by default as many as there are cores.

    Guarantee: the log is only read; the same log, rules and seed give the same tables, however many workers there are;
    the code that wrote the log, with nothing changed, gives no difference.
    Raises: WiringError for rules that do not fit the log; LogUnavailable when the log has dropped records.
    """
    hypothesis.load()
    with hypothesis.today.running(url) as (opened, run):
        clocks = run(Routes(hypothesis.today.choreography).shared_clocks(opened))
    horizon_ms = last_ms(spark, url, hypothesis.today, clocks)
    rows, parts = past(spark, url, hypothesis.today, most_parts or spark.sparkContext.defaultParallelism, clocks)
    schema = row_schema(hypothesis.figures)
    played = rows.mapInArrow(partial(_played, hypothesis=hypothesis, url=url, horizon_ms=horizon_ms), schema)
    events = _written(played, place / "whatif_events")
    sagas = _written(_sagas_of(events, hypothesis.figures), place / "whatif_sagas")
    return Outcome(events, sagas, parts)


def _written(rows: DataFrame, path: Path) -> DataFrame:
    """Write a table in place of the one before, and return it as it was written. Raises: WiringError as a worker does."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        rows.write.parquet(str(unfinished))
    except PySparkException as error:
        refused = _REFUSED.findall(str(error))
        if not refused:
            raise
        raise WiringError(refused[-1]) from error
    shutil.rmtree(path, ignore_errors=True)
    unfinished.rename(path)
    return rows.sparkSession.read.schema(rows.schema).parquet(str(path))


def _played(
    batches: Iterable[pa.RecordBatch], hypothesis: Hypothesis, url: str, horizon_ms: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a worker's parts, one after the other."""
    collect_garbage_seldom(growth=_OBJECTS)
    schema = row_schema(hypothesis.figures)
    for _, rows in groupby(records_of(batches), key=_PART):
        with hypothesis.tomorrow.running(url) as (recorded, run):
            yield from batches_of(_Part(hypothesis, recorded, run, horizon_ms).rows(rows), schema)


class _Part:
    """One part of the work: its rows in the order of time go in, those of the alternative past come out."""

    def __init__(self, hypothesis: Hypothesis, recorded: EventLog, run: Run, horizon_ms: int) -> None:
        self._hypothesis = hypothesis
        self._recorded = recorded
        self._routes = Routes(hypothesis.today.choreography)
        self._tomorrow = run(alternative_log(recorded, hypothesis.tomorrow.choreography))
        first = self._tomorrow
        if hypothesis.since_ms:
            first = run(alternative_log(recorded, hypothesis.today.choreography))
        self._switched = not hypothesis.since_ms
        self._alternative = Alternative(recorded, first, hypothesis, horizon_ms)

    def rows(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        alternative = self._alternative
        for time, moment in groupby(rows, key=_TIME):
            if not self._switched and time[0] >= self._hypothesis.since_ms:
                alternative.play_by(self._tomorrow)
                self._switched = True
            self._play(time, moment)
            yield from alternative.rows
            alternative.rows.clear()
        alternative.end()
        yield from alternative.rows

    def _play(self, time: TaskTime, moment: Iterable[tuple[Any, ...]]) -> None:
        records, entries = list[Record](), list[tuple[tuple[str, int], JournalEntry]]()
        for record, at_ms, number, role, _, _ in moment:
            if role == JOURNALLED:
                entry = self._recorded.codec.decode(JournalEntry, record.value or b"")
                entries.append((self._task(number), entry))
            elif role == ANNOUNCED:
                due = Due(at_ms, record.source or "", record.subject or "", record.type or "")
                self._alternative.announce(self._task(number), due)
            else:
                records.append(record)
        self._alternative.moment(time, records, entries)

    def _task(self, number: int) -> tuple[str, int]:
        service, partition = self._routes.task(number)
        return service.name, partition


def _sagas_of(events: DataFrame, figures: Sequence[Figure]) -> DataFrame:
    """Return one row for each saga: outcomes, reasons, sums, how many answers were modelled, and its first difference."""
    differs = f.col("difference") != "unchanged"
    place = f.concat_ws("/", "topic", "partition", "offset")
    first = f.struct(
        place.alias("position"),
        f.coalesce("type_now", "type_then").alias("type"),
        "handler",
        "difference",
        "type_then",
        "type_now",
        "id",
        f.coalesce("at_now", "at_then").alias("at"),
    )
    answers = f.struct(
        f.count_if(f.col("is_answer") & (f.col("origin") == "recorded")).alias("recorded"),
        f.count_if(f.col("is_answer") & (f.col("origin") == "modelled")).alias("modelled"),
    )
    sums = [column for figure in figures for column in _sums(figure)]
    return (
        events.where("saga != ''")
        .groupBy("saga")
        .agg(
            *(_outcome(when).alias(f"outcome_{when}") for when in ("then", "now")),
            *(_last(f"reason_{when}", when).alias(f"reason_{when}") for when in ("then", "now")),
            *(f.count(f"type_{when}").alias(f"events_{when}") for when in ("then", "now")),
            f.count_if(f.col("difference") == "failed").alias("failed"),
            answers.alias("answers"),
            *sums,
            f.min(f.when(differs, f.col("position"))).alias("first_number"),
            f.min_by(first, f.when(differs, f.col("position"))).alias("first_difference"),
        )
        .drop("first_number")
    )


def _outcome(when: str) -> Column:
    return f.coalesce(_snake(_last(f"type_{when}", when)), f.lit("open"))


def _last(column: str, when: str) -> Column:
    """Return a column of the event that ended the saga; NULL while none has."""
    return f.max_by(column, f.when(f.col(f"final_{when}"), f.col(f"at_{when}")))


def _sums(figure: Figure) -> list[Column]:
    currency, then, now = figure.columns
    return [f.max(currency).alias(currency), f.sum(then).alias(then), f.sum(now).alias(now)]


def _snake(name: Column) -> Column:
    """Return a type's name in snake case."""
    return f.lower(f.regexp_replace(name, "(?<=[a-z0-9])(?=[A-Z])", "_"))
