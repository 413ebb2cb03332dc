"""Makes the report of a log: tables rebuilt, log audited, numbers computed, and all of it on one page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics import report
from analytics.addon import declared
from analytics.audit import audit
from analytics.audit import rules as declared_rules
from analytics.audit.application import Application
from analytics.audit.finding import FINDING
from analytics.rebuilding import How, rebuild, tables
from analytics.reporting.page import Made, MadeSection, page
from analytics.reporting.part import Part, Report, Section, Tables, Tile, duration
from analytics.stores import Place, current, read_manifest
from eventlib.errors import WiringError
from eventlib.log.base import TopicPartition
from eventlib.model.choreography import Choreography
from eventlib.runtime.records import code_version

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many steps are done, and how many there are."""


@dataclass(frozen=True)
class Reported:
    """A page, and its sources."""

    html: str
    made: Made
    findings: int | None


def make_report(  # noqa: PLR0913  named, all but three
    spark: SparkSession,
    url: str,
    place: Place,
    *,
    audited: bool = True,
    application: Application | None = None,
    progress: Progress = lambda *_: None,
    console: str = "",
) -> Reported:
    """Bring the tables in `place` up to the log's end, and report on them; `audited` is whether to include an audit.

    The page links to the pages of the console at the address `console`, if there is one. Raises: as `rebuild` and `audit` do.
    """
    began, whose = perf_counter(), application or Application()
    own = own_report(whose)
    needed = (*report.TABLES, *own.tables)
    planned = planned_sections(own, whose.choreography)
    rebuild(spark, url, place, how=How(select=_selection(place, needed)), application=whose, progress=progress)
    steps = 1 + sum(len(section.parts) for section in planned) + audited
    found, numbers = tables(spark, place), count()

    def made_of(make: Callable[[Tables], Part]) -> Part:
        part = make(found)
        progress(f"reporting: {part.title.lower()}", next(numbers), steps)
        part.rows  # noqa: B018  computed now, so that progress is told
        return part

    done = [MadeSection(each.name, each.title, [*map(made_of, each.parts)]) for each in planned]
    if audited:
        progress("auditing the log", steps - 2, steps)
        done.append(MadeSection("audit", "Audit", _audited(spark, url, whose)))
    progress("drawing", steps - 1, steps)
    made = Made(url, _read(place), code_version(whose.choreography), datetime.now(UTC), perf_counter() - began)
    parts = {part.name: part for section in done for part in section.parts}
    html = page(own.title, done, own.tiles(parts) or generic_tiles(parts), span_of(found), made, console)
    return Reported(html, made, len(parts["findings"].rows) if audited else None)


def own_report(application: Application) -> Report:
    """Return what an application adds to the report; only a title, if it adds nothing. Raises: WiringError."""
    found = [*declared(application, Report)]
    if len(found) > 1:
        raise WiringError(f"{application.choreography.analytics} has {len(found)} reports: make one of them")
    return found[0] if found else Report(f"The sagas of {application.choreography.name}")


def planned_sections(own: Report, choreography: Choreography) -> list[Section]:
    """Return an application's sections and, after them, those that every report has and it does not replace."""
    names = {section.name for section in own.sections}
    return [*own.sections, *(each for each in report.sections(choreography) if each.name not in names)]


def generic_tiles(parts: Mapping[str, Part]) -> list[Tile]:
    """Return the figures at the top for any application."""
    if "sagas" not in parts:
        return []
    (row,) = parts["sagas"].rows
    tiles = [Tile(f"{row['sagas']:,}", "sagas"), Tile(f"{row['open']:,}", "still open")]
    if row["sagas"] > row["open"]:
        tiles.append(Tile(f"{row['compensated'] / row['sagas']:.1%}", "with compensations"))
        tiles.append(Tile(duration(row["p50_ms"]), "median time to the end"))
    if "parked" in parts:
        still = sum(each["still"] for each in parts["parked"].rows)
        tiles.append(Tile(f"{still:,}", "parked", "bad") if still else Tile("✓", "nothing is parked", "good"))
    return tiles


def _selection(place: Place, needed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tables that are made: the report's, beside those that are there; none are named where all are."""
    version = current(place)
    there = None if version is None else read_manifest(version).select
    return () if there == () else tuple(dict.fromkeys([*(there or ()), *needed]))


def _audited(spark: SparkSession, url: str, whose: Application) -> list[Part]:
    rows = audit(spark, url, whose).collect()
    found: DataFrame = spark.createDataFrame(rows, FINDING)
    return [report.findings(found), report.rules(found, declared_rules(whose))]


def span_of(found: Tables) -> tuple[datetime, datetime] | None:
    """Return the times of the first event of a saga and of the last; None when there is none."""
    ends = (f.unix_millis(f.min("started_at")), f.unix_millis(f.max("last_at")))
    first, last = found["sagas"].agg(*ends).collect()[0]
    return None if first is None else (_EPOCH + timedelta(milliseconds=first), _EPOCH + timedelta(milliseconds=last))


def _read(place: Place) -> dict[TopicPartition, range]:
    """Return the offsets that the tables are made from."""
    version = current(place)
    ends = {} if version is None else read_manifest(version).ends
    return {place: range(end) for place, end in ends.items()}
