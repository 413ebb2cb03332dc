"""Rebuilds the tables: in full or incrementally, with the same result."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import perf_counter

from pyspark.sql import SparkSession

from analytics.asking import ask, spans_of
from analytics.audit.application import Application
from analytics.rebuilding.building import Build, Progress
from analytics.rebuilding.catalogue import catalogue_of
from analytics.rebuilding.quality import QUARANTINE, Broken
from analytics.session import configured
from analytics.stores import Manifest, Place, TableFormat, VersionPlace, alone_in, begin_version, current, read_manifest
from eventlib.errors import LogUnavailable, WiringError
from eventlib.log.archive.files import Lost
from eventlib.log.archive.files import read_manifest as read_archive
from eventlib.log.archive.place import SCHEME, place_of
from eventlib.log.base import Log, TopicPartition
from eventlib.values import to_ms

AsOf = datetime | Mapping[TopicPartition, int]
"""A time (inclusive); or the first offset of each partition that is excluded."""

_ROWS_AT_ONCE = 500_000
"""How many rows one Spark task holds at most, about: this bounds its memory."""


@dataclass(frozen=True)
class How:
    """How to rebuild: `full` reads the whole log, not only new records; `incomplete` accepts dropped records.

    `keep` is how many of the newest versions stay, for current readers. `select` names the tables that are made, with those
    that they are made of; without it, those that are there already, or all.
    `enforce` publishes nothing when new rows break what their columns declare. `table_format` is the tables' format; None: of
    those that are there, or Parquet.
    """

    full: bool = False
    incomplete: bool = False
    keep: int = 2
    select: tuple[str, ...] = ()
    enforce: bool = False
    table_format: TableFormat | None = None


NEW = How()


@dataclass(frozen=True)
class Rebuilt:
    """The result of one run: the offsets that it read, the rows of its tables, and the undecodable records.

    `left_out` are the events that have no columns, `broken` how many new rows break which rule.
    """

    manifest: Manifest
    full: bool
    read: Mapping[TopicPartition, range]
    records: int
    undecodable: int
    seconds: float
    left_out: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = ()


def rebuild(  # noqa: PLR0913  named, all but three
    spark: SparkSession,
    url: str,
    place: Place,
    *,
    as_of: AsOf | None = None,
    how: How = NEW,
    application: Application | None = None,
    progress: Progress = lambda *_: None,
) -> Rebuilt:
    """Bring the tables in `place` up to a log's end, or as of a time or of offsets.

    The tables are those of an application's contracts, and its own (`application`; None: as in pyproject.toml). Reads only
    new records, unless `full`, or where the existing tables cannot be continued: they are as of a time, later than `as_of`,
    or defined otherwise. Guarantee: the tables are those of a full rebuild at the same offsets, they all change
    atomically, and a run that finds nothing new changes nothing.
    Raises: LogUnavailable when there is no log, it has dropped needed records and `incomplete` is not set, or while another
    process rebuilds there; RowsRefused, with `how.enforce`; WiringError when the tables are another log's or of another format, the log
    has less than they, or a table's declaration is wrong.
    """
    began, whose = perf_counter(), application or Application()
    with alone_in(place):
        version = current(place)
        table_format = _format(version, how.table_format, place)
        select = how.select or selection(version, how)
        if how.enforce and select:
            select = tuple(dict.fromkeys((*select, QUARANTINE)))
        catalogue = catalogue_of(whose, select)
        log_id, there = ask(url, partial(_places, topics=catalogue.sources))
        ends = _ends(there, as_of, catalogue.journals)
        before = (
            None
            if how.full or version is None
            else _going_on(read_manifest(version), catalogue.definition, log_id, ends, place, as_of)
        )
        begin = {p: 0 if before is None else before.ends.get(p, 0) for p in ends}
        dropped = _dropped_of(url, there, begin, ends)
        if dropped and not how.incomplete:
            raise LogUnavailable(_incomplete(url, dropped))
        new = {p: range(begin[p], end) for p, end in ends.items() if end > begin[p]}
        if before is not None and not new:
            return Rebuilt(before, False, {}, 0, 0, perf_counter() - began)
        number = 1 + (0 if version is None else int(version.name))
        writing = begin_version(spark, place, number, version if before else None, table_format)
        build = Build(spark, url, catalogue, writing, progress, how.enforce)
        with build.version, _settings(spark, sum(map(len, new.values()))):
            records, undecodable = build.make(begin, ends, as_of if isinstance(as_of, datetime) else None)
        manifest = Manifest(
            number=number,
            definition=catalogue.definition,
            log_id=log_id,
            log_url=url,
            as_of_ms=to_ms(as_of) if isinstance(as_of, datetime) else None,
            topics=_by_topic(ends),
            rows=dict(sorted(build.version.rows().items(), key=lambda item: catalogue.published.index(item[0]))),
            select=select,
            dropped=(*(before.dropped if before else ()), *dropped),
            table_format=table_format,
        )
        manifest = build.version.commit(manifest, how.keep, build.told)
    took = perf_counter() - began
    return Rebuilt(manifest, before is None, new, records, undecodable, took, catalogue.left_out, build.broken)


def selection(version: VersionPlace | None, how: How) -> tuple[str, ...]:
    """Return the tables that are made where none are asked for: those of a version that can be gone on with, or all."""
    return () if version is None or how.full else read_manifest(version).select


def _format(version: VersionPlace | None, wanted: TableFormat | None, place: Place) -> TableFormat:
    """Return the format of the tables. Raises: WiringError when those that are there have another one."""
    there = None if version is None else read_manifest(version).table_format
    if wanted is not None and there is not None and wanted != there:
        raise WiringError(f"the tables in {place} are {there}: rebuild to another directory for --format {wanted}")
    return wanted or there or "parquet"


async def _places(log: Log, topics: Sequence[str]) -> tuple[str, Mapping[TopicPartition, range]]:
    return log.log_id.removeprefix("archive-"), await spans_of(log, topics)


def _ends(
    there: Mapping[TopicPartition, range], as_of: AsOf | None, journals: Sequence[str]
) -> dict[TopicPartition, int]:
    """Return where each partition is read to; journals that `as_of` does not name, as far as their inputs are."""
    if as_of is None or isinstance(as_of, datetime):
        return {p: span.stop for p, span in there.items()}
    beyond = [p for p, end in as_of.items() if p in there and end > there[p].stop]
    if beyond:
        (topic, partition), end = beyond[0], there[beyond[0]].stop
        raise WiringError(f"--as-of names offset {as_of[beyond[0]]} of {topic}/{partition}, which ends at {end}")
    return {p: as_of.get(p, span.stop if p[0] in journals else 0) for p, span in there.items()}


def _dropped_of(
    url: str,
    there: Mapping[TopicPartition, range],
    begin: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Lost]:
    """Return the selected records that the log no longer has; an archive's manifest names those dropped before it."""
    if url.startswith(SCHEME):
        gone = [each for each in read_archive(place_of(url)).lost if (each.topic, each.partition) in there]
    else:
        gone = [Lost(topic=p[0], partition=p[1], first=begin[p], end=span.start) for p, span in there.items()]
    asked = [(each, begin[each.topic, each.partition], ends[each.topic, each.partition]) for each in gone]
    cut = [each.model_copy(update={"first": max(each.first, b), "end": min(each.end, e)}) for each, b, e in asked]
    return [each for each in cut if each.first < each.end]


def _incomplete(url: str, dropped: Sequence[Lost]) -> str:
    """Return a message about them, with the remedy."""
    first = dropped[0]
    more = f", and of {len(dropped) - 1} more partitions" if len(dropped) > 1 else ""
    return (
        f"{url} has dropped {first.topic}/{first.partition} from {first.first} to {first.end}{more}: tables of what is left "
        "are incomplete; rebuild from an archive that has it (--log archive:DIR), from which the log then continues, or use "
        "what is left with --incomplete"
    )


def _going_on(
    before: Manifest,
    definition: str,
    log_id: str,
    ends: Mapping[TopicPartition, int],
    place: Place,
    as_of: AsOf | None,
) -> Manifest | None:
    """Return the tables to continue from; None when they are rebuilt from the beginning."""
    if before.log_id != log_id:
        raise WiringError(f"the tables in {place} are of {before.log_url}, another log: rebuild to another directory")
    if before.as_of_ms is not None or isinstance(as_of, datetime) or before.definition != definition:
        return None
    less = [p for p, end in before.ends.items() if ends.get(p, 0) < end]
    if less and as_of is None:
        (topic, partition) = less[0]
        raise WiringError(
            f"{topic}/{partition} ends at {ends.get(less[0], 0)}, and the tables in {place} go up to {before.ends[less[0]]}: "
            "read the log itself, or its archive once it is up to date; or rebuild with --full"
        )
    return None if less else before


def _by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, tuple[int, ...]]:
    topics = sorted({topic for topic, _ in ends})
    return {topic: tuple(end for (name, _), end in sorted(ends.items()) if name == topic) for topic in topics}


@contextmanager
def _settings(spark: SparkSession, records: int) -> Iterator[None]:
    """Set Spark's number of tasks by the memory of each, and the time format that every reader supports."""
    name = "spark.sql.shuffle.partitions"
    cores = spark.sparkContext.defaultParallelism
    rounds = -(-max(int(spark.conf.get(name) or 0), records // _ROWS_AT_ONCE) // cores)
    tasks = max(1, rounds) * cores  # with one more, all others would wait for it
    wanted = {
        name: str(tasks),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.maxConcurrentOutputFileWriters": "64",  # else rows are sorted to be written by type
    }
    with configured(spark, wanted):
        yield
