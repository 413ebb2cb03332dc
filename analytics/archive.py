"""An archive as a DataFrame: the Parquet files that its manifest names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.batches import text_array
from analytics.schema import STORED, key_as_text
from analytics.selection import Selection, narrowed
from eventlib.ground.object_store import Place
from eventlib.log.archive.files import DataFile, Span, read_manifest
from eventlib.log.archive.place import located, opened, place_of
from eventlib.log.archive.row_groups import unreadable
from eventlib.values import to_ms

_GROUPS_AT_ONCE = 4
_READ = ("partition", "offset", "recorded_at", "key", "value", "id", "type", "source", "correlation_id", "causation_id")
_FILES = t.StructType([
    t.StructField(field.name, t.BinaryType() if field.name == "key" else field.dataType) for field in STORED.fields
])  # fmt: skip


@dataclass(frozen=True)
class Portion:
    """Row groups of one file of a topic, of so many rows; `spans` are the offsets to read of each partition, if not all."""

    url: str
    path: str
    topic: str
    groups: tuple[int, ...]
    rows: int
    spans: Mapping[int, range] | None
    selection: Selection

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """Yield the selected records, with those columns of `STORED` that tables have. Raises: LogCorrupt."""
        return map(self._canonical, self.stored(_READ))

    def stored(self, columns: Sequence[str], coded: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield columns of the selected records as the file has them, `coded` ones as dictionaries. Raises: LogCorrupt."""
        place = place_of(self.url)
        read = [*dict.fromkeys([*columns, *self._selecting()])]
        try:
            with pq.ParquetFile(
                opened(place, self.path), page_checksum_verification=True, read_dictionary=[*coded]
            ) as file:
                for first in range(0, len(self.groups), _GROUPS_AT_ONCE):
                    groups = self.groups[first : first + _GROUPS_AT_ONCE]
                    table = file.read_row_groups(groups, columns=read, use_threads=False)
                    for batch in table.combine_chunks().to_batches():
                        yield self._selected(batch)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(located(place, self.path), error) from error

    def _selecting(self) -> Iterator[str]:
        """Yield the columns by which records are selected."""
        yield from ["type"] if self.selection.types else []
        yield from ["recorded_at"] if self.selection.until is not None else []
        yield from ["partition", "offset"] if self.spans is not None else []

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.selection.types:
            batch = batch.filter(pc.is_in(batch["type"].cast(pa.string()), pa.array(self.selection.types, pa.string())))
        if self.selection.until is not None:
            until = pa.scalar(to_ms(self.selection.until), pa.timestamp("ms", "UTC"))
            batch = batch.filter(pc.less(batch["recorded_at"], until))
        if self.spans is None:
            return batch
        partitions, offsets = batch["partition"].to_numpy(), batch["offset"].to_numpy()
        wanted = np.zeros(len(offsets), np.bool_)
        for partition, span in self.spans.items():
            wanted |= (partitions == partition) & (offsets >= span.start) & (offsets < span.stop)
        return batch.filter(pa.array(wanted))

    def _canonical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: batch[name] for name in _READ}
        columns["topic"] = pa.repeat(self.topic, batch.num_rows)
        columns["recorded_at"] = batch["recorded_at"].cast(pa.timestamp("us", "UTC"))
        columns["key"] = text_array(batch["key"])
        return pa.RecordBatch.from_pydict(columns)


def portions(url: str, selection: Selection) -> Iterator[Portion]:
    """Yield the row groups of an archive that may have records that are selected, each for itself. Raises: LogCorrupt."""
    place = place_of(url)
    for file in read_manifest(place).files:
        if not _may_have(file, selection):
            continue
        asked = {span.partition: _asked(file, span, selection) for span in file.spans}
        is_whole = all(asked[span.partition] == _all(span) for span in file.spans)
        spans = None if is_whole else {partition: span for partition, span in asked.items() if span is not None}
        try:
            metadata = pq.read_metadata(opened(place, file.path))
        except (OSError, pa.ArrowException) as error:
            raise unreadable(located(place, file.path), error) from error
        for group in range(metadata.num_row_groups):
            yield Portion(url, file.path, file.topic, (group,), metadata.row_group(group).num_rows, spans, selection)


def shares_of(found: Sequence[Portion], count: int) -> list[list[Portion]]:
    """Share portions among so many tasks at most, of about as many rows each; those of a file one after the other."""
    most = -(-sum(each.rows for each in found) // count)
    shares, rows = list[list[Portion]](), most
    for each in found:
        if rows >= most:
            shares.append([])
            rows = 0
        rows += each.rows
        last = shares[-1][-1] if shares[-1] else None
        if last is not None and last.path == each.path:
            shares[-1][-1] = replace(last, groups=(*last.groups, *each.groups), rows=last.rows + each.rows)
        else:
            shares[-1].append(each)
    return shares


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
