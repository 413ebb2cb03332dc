"""Tables on an object store: the rows that a directory has, for engines of others; versions; what is refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.rebuilding import How, rebuild
from analytics.stores import TableFormat
from eventlib.object_store import ObjectStore
from tests.analytics.sources import REPAIRS
from tests.analytics.test_rebuild import thirds
from tests.analytics.test_stores import SELECT, rows_in


@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_increments_on_a_store_have_the_rows_of_a_full_rebuild_in_a_directory(
    spark: SparkSession, repair_log: str, tmp_path: Path, bucket: ObjectStore, table_format: TableFormat
) -> None:
    how = How(select=SELECT, table_format=table_format)
    for turn in (1, 2, None):
        as_of = None if turn is None else thirds(repair_log, turn)
        done = rebuild(spark, repair_log, bucket, as_of=as_of, application=REPAIRS, how=how)
        assert done.full == (turn == 1)
    rebuild(spark, repair_log, tmp_path / "full", application=REPAIRS, how=How(select=SELECT))
    expected = rows_in(spark, tmp_path / "full")
    assert rows_in(spark, bucket) == expected
    assert done.manifest.rows == {name: rows.total() for name, rows in expected.items()}
