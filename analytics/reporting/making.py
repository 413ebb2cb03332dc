"""Makes the report of a log: tables rebuilt, log audited, numbers computed, and all of it on one page."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics import report
from analytics.audit import audit
from analytics.audit import rules as declared_rules
from analytics.audit.application import Application
from analytics.audit.finding import FINDING
from analytics.rebuilding import How, rebuild, tables
from analytics.rebuilding.versions import current, read_manifest
from analytics.reporting.page import Made, page
from analytics.reporting.part import Part
from analytics.reporting.sales import Tables
from eventlib.log.base import TopicPartition
from eventlib.runtime.records import code_version

_READ = ("orders", "order_lines", "payments", "dispatches", "saga_steps", "saga_outcomes")
"""The tables that the parts of the report read: the only ones that are made where there are none yet."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many steps are done, and how many there are."""


@dataclass(frozen=True)
class Reported:
    """A page, and its sources."""

    html: str
    made: Made
    findings: int | None


def make_report(
    spark: SparkSession,
    url: str,
    place: Path,
    *,
    audited: bool = True,
    application: Application | None = None,
    progress: Progress = lambda *_: None,
) -> Reported:
    """Bring the tables in `place` up to the log's end, and report on them; `audited` is whether to include an audit.

    Raises: as `rebuild` and `audit` do.
    """
    began, whose = perf_counter(), application or Application()
    steps = 2 + len(report.OF_TABLES) + audited
    progress("rebuilding the tables", 0, steps)
    how = How() if current(place) else How(select=_READ)
    rebuild(spark, url, place, how=how, application=whose)
    found = tables(spark, place)
    parts = dict[str, Part]()
    for number, make in enumerate(report.OF_TABLES, 1):
        part = make(found)
        progress(part.title.lower(), number, steps)
        parts[part.name] = part
        part.rows  # noqa: B018  computed now, so that progress is told
    if audited:
        progress("auditing the log", steps - 2, steps)
        parts |= _audited(spark, url, whose)
    progress("drawing", steps - 1, steps)
    made = Made(url, _read(place), code_version(whose.choreography), datetime.now(UTC), perf_counter() - began)
    html = page(parts, span_of(found), made)
    return Reported(html, made, len(parts["findings"].rows) if audited else None)


def _audited(spark: SparkSession, url: str, whose: Application) -> dict[str, Part]:
    rows = audit(spark, url, whose).collect()
    findings: DataFrame = spark.createDataFrame(rows, FINDING)
    return {part.name: part for part in (report.findings(findings), report.rules(findings, declared_rules(whose)))}


def span_of(found: Tables) -> tuple[datetime, datetime] | None:
    """Return the times of the first event of a saga and of the last; None when there is none."""
    ends = (f.unix_millis(f.min("started_at")), f.unix_millis(f.max("last_at")))
    first, last = found["saga_outcomes"].agg(*ends).collect()[0]
    return None if first is None else (_EPOCH + timedelta(milliseconds=first), _EPOCH + timedelta(milliseconds=last))


def _read(place: Path) -> dict[TopicPartition, range]:
    """Return the offsets that the tables are made from."""
    version = current(place)
    ends = {} if version is None else read_manifest(version).ends
    return {place: range(end) for place, end in ends.items()}
