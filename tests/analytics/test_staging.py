"""Rows that Spark's workers write themselves are those that Spark's own writer has, with the same types."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from analytics.stores.staging import stage_here

_SCHEMA = t.StructType().add("id", t.StringType()).add("at", t.TimestampType()).add("double", t.LongType())


def _made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        text, at = batch["id"].cast(pa.string()), batch["id"].cast(pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([text, at, pc.add(batch["id"], batch["id"])], names=_SCHEMA.names)


@pytest.mark.parametrize("count", [0, 5_000])
def test_each_row_is_there_once_beside_what_a_failed_task_has_left(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    rows = spark.range(0, count, numPartitions=3)
    staged = stage_here(rows, _made, _SCHEMA, tmp_path / "staged")
    found = sorted(staged.collect(), key=lambda row: row.double)
    wanted = sorted(rows.mapInArrow(_made, _SCHEMA).collect(), key=lambda row: row.double)
    assert (found, staged.schema) == (wanted, _SCHEMA)
    (tmp_path / "staged" / "_unfinished").write_bytes(b"PAR1")
    assert spark.read.parquet(str(tmp_path / "staged")).count() == count
    first = pq.ParquetFile(next((tmp_path / "staged").glob("*.parquet")))
    if count:
        encodings = {column: first.metadata.row_group(0).column(column).encodings for column in (0, 2)}
        assert "RLE_DICTIONARY" not in encodings[0]  # ids differ
        assert "RLE_DICTIONARY" in encodings[2]
