"""The log as one DataFrame, in one form wherever it stands."""

from typing import Unpack

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.schema import SCHEMA
from analytics.selection import Only, Selection
from eventlib.errors import WiringError


def log(spark: SparkSession, url: str, **only: Unpack[Only]) -> DataFrame:
    """Return the records of a log, with the columns of `SCHEMA`: all that was committed when this was called.

    What `only` says is answered by the source, which reads no more than that. Guarantee: the same rows however often it
    is evaluated, also while services write; those that retention or compaction drop meanwhile may be missing.
    Raises: WiringError for a URL that is none; LogUnavailable when there is no log.
    """
    selection = Selection.of(**only)
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from analytics.sqlite import read

        records = read(spark, url, selection)
    else:
        raise WiringError(f"{url!r} is not a log that Spark reads here: known are sqlite:///PATH")
    return records.withColumn("schema_id", _schema_id()).select(*SCHEMA.names)


def _schema_id() -> Column:
    """Return the schema id in front of a value: a zero byte, then four bytes with the high one first."""
    value = f.col("value")
    number = f.conv(f.hex(f.substring(value, 2, 4)), 16, 10).cast("int")
    return f.when(f.substring(value, 1, 1) == f.lit(b"\x00"), number)
