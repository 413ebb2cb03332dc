"""An archive as a DataFrame: the Parquet files that its manifest names."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.schema import STORED, key_as_text
from analytics.selection import Selection, narrowed
from eventlib.log.archive.files import DataFile, Span, read_manifest
from eventlib.log.archive.place import located, place_of
from eventlib.object_store import Place
from eventlib.values import to_ms

_FILES = t.StructType([
    t.StructField(field.name, t.BinaryType() if field.name == "key" else field.dataType) for field in STORED.fields
])  # fmt: skip


def read(spark: SparkSession, url: str, selection: Selection) -> DataFrame:
    """Return what `analytics.log` does, without schema ids. Raises: LogUnavailable, LogCorrupt."""
    place = place_of(url)
    files = [file for file in read_manifest(place).files if _may_have(file, selection)]
    whole = [file for file in files if all(_asked(file, span, selection) == _all(span) for span in file.spans)]
    parts = [file for file in files if file not in whole]
    frames = [_load(spark, place, found) for found in (whole, parts) if found]
    if parts:
        frames[-1] = _within(frames[-1], parts, selection)
    if not frames:
        return spark.createDataFrame([], STORED)
    records = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
    return narrowed(records.withColumn("key", key_as_text(f.col("key"))).select(*STORED.names), selection)


def _load(spark: SparkSession, place: Place, files: Iterable[DataFile]) -> DataFrame:
    checked = spark.read.option("parquet.page.verify-checksum.enabled", "true")
    return checked.schema(_FILES).parquet(*(located(place, file.path) for file in files))


def _may_have(file: DataFile, selection: Selection) -> bool:
    if selection.since is not None and file.newest_ms < to_ms(selection.since):
        return False
    if selection.until is not None and file.oldest_ms >= to_ms(selection.until):
        return False
    return any(_asked(file, span, selection) for span in file.spans)


def _all(span: Span) -> range:
    return range(span.first, span.end)


def _asked(file: DataFile, span: Span, selection: Selection) -> range | None:
    return selection.span((file.topic, span.partition), span.first, span.end)


def _within(records: DataFrame, files: Iterable[DataFile], selection: Selection) -> DataFrame:
    """Return the records of files of which only some offsets are selected."""
    asked = dict[tuple[str, int], range]()
    for file in files:
        for span in file.spans:
            found = _asked(file, span, selection)
            if found is not None:
                before = asked.get((file.topic, span.partition), found)
                asked[file.topic, span.partition] = range(min(before.start, found.start), max(before.stop, found.stop))
    condition = f.lit(False)
    for (topic, partition), offsets in asked.items():
        here = (f.col("topic") == topic) & (f.col("partition") == partition)
        condition |= here & (f.col("offset") >= offsets.start) & (f.col("offset") < offsets.stop)
    return records.filter(condition)
