"""The log as one DataFrame, in one form for every kind of log."""

from typing import Unpack

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.asking import archived_ends
from analytics.schema import SCHEMA
from analytics.selection import Only, Selection
from eventlib.errors import WiringError


def log(spark: SparkSession, url: str, *, live: str | None = None, **only: Unpack[Only]) -> DataFrame:
    """Return the records of a log, with the columns of `SCHEMA`: all that was committed when this was called.

    `url` is `sqlite:///PATH`, `kafka://HOST:PORT` or `archive:DIR`; for an archive, `live` is the URL of its log, from which
    records that are not archived yet are read: each record once. The selection `only` is pushed down to the source.
    Guarantee: the same rows however often it is evaluated, also while services write; those that retention or compaction
    drop meanwhile may be missing.
    Raises: WiringError for an invalid URL, or a `live` that is not the archive's log; LogUnavailable when there is no log, or
    when it has dropped records before they were archived.
    """
    if live is None:
        records = _read(spark, url, Selection.of(**only))
    else:
        ends = archived_ends(url, live, only.get("topics", ()))
        end = {place: min(stop, only.get("end", ends).get(place, stop)) for place, stop in ends.items()}
        begin = {
            **only.get("begin", {}),
            **{p: max(stop, only.get("begin", ends).get(p, stop)) for p, stop in ends.items()},
        }
        old: Only = {**only, "end": end}
        new: Only = {**only, "begin": begin}
        records = _read(spark, url, Selection.of(**old)).unionAll(_read(spark, live, Selection.of(**new)))
    return records.withColumn("schema_id", _schema_id()).select(*SCHEMA.names)


def _read(spark: SparkSession, url: str, selection: Selection) -> DataFrame:
    match url.partition(":")[0]:
        case "sqlite":
            from analytics.sqlite import read
        case "kafka":
            from analytics.kafka import read
        case "archive":
            from analytics.archive import read
        case _:
            raise WiringError(
                f"{url!r} is not a log that Spark reads: known are sqlite:///PATH, kafka://HOST:PORT and archive:DIR"
            )
    return read(spark, url, selection)


def _schema_id() -> Column:
    """Return the schema id in front of a value: a zero byte, then four bytes, big-endian."""
    value = f.col("value")
    number = f.conv(f.hex(f.substring(value, 2, 4)), 16, 10).cast("int")
    return f.when(f.substring(value, 1, 1) == f.lit(b"\x00"), number)
