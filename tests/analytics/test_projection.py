"""Tables that Arrow writes from file to file have the rows and the types that Spark's query gives."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from analytics import projection
from analytics.projection import Projection

_AT = datetime(2026, 3, 1, 12, 0, 0, 123_456, UTC)
_LINES = "array<struct<sku: string, parts: map<string, bigint>>>"
_STAGED = (
    f"kind string, open boolean, number bigint, at timestamp, price decimal(9, 2), lines {_LINES}, "
    "of struct<set_at: bigint, name: string, until: timestamp>"
)
_ROWS = [
    ("a/b", True, 1, _AT, Decimal("1.50"), [("x", {"y": 2}), (None, None)], (1_772_366_400_123, "one", _AT)),
    ("a/b", True, None, None, None, None, (None, None, None)),
    ("a/b", True, 3, _AT, Decimal("-0.01"), [], None),
    ("a/b", False, 4, _AT, None, [], (1, "settled", _AT)),
    ("a/b", None, 5, None, None, None, (1, "?", None)),
    ("c", True, 6, None, None, None, (1, "another's", None)),
]
_LINE = t.StructType().add("sku", t.StringType()).add("parts", t.MapType(t.StringType(), t.LongType()))
_SCHEMA = (
    t.StructType()
    .add("name", t.StringType())
    .add("set_at", t.TimestampType())
    .add("until", t.TimestampType())
    .add("number", t.LongType())
    .add("price", t.DecimalType(9, 2))
    .add("lines", t.ArrayType(_LINE))
)
_OF_STRUCT = {"name": "of.name", "set_at": "of.set_at", "until": "of.until"}
_TABLE = Projection(
    _SCHEMA,
    {name: _OF_STRUCT.get(name, name) for name in _SCHEMA.names},
    {"kind": "a/b", "open": True},
    present="of",
)


@pytest.mark.parametrize("few_bytes", [0, 1 << 30], ids=["in Spark's workers", "here"])
def test_rows_and_types_are_those_of_the_query(
    spark: SparkSession, tmp_path: Path, few_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "FEW_BYTES", few_bytes)
    staged = spark.createDataFrame(_ROWS, _STAGED).coalesce(1)
    staged.write.parquet(str(tmp_path / "staged"))
    _TABLE.write(spark, [*(tmp_path / "staged").glob("*.parquet")], tmp_path / "table")
    written, wanted = spark.read.parquet(str(tmp_path / "table")), _TABLE(staged)
    assert written.schema == wanted.schema == _TABLE.schema
    assert sorted(written.collect(), key=str) == sorted(wanted.collect(), key=str)
    assert wanted.count() == 2


def test_without_rows_there_is_a_file_that_has_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    _TABLE.write(spark, [], tmp_path / "table")
    written = spark.read.parquet(str(tmp_path / "table"))
    assert (written.schema, written.count()) == (_TABLE.schema, 0)
