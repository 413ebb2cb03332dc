"""Tables on an object store: the rows that a directory has, for engines of others; commands; what is refused."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.audit import audit
from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild, tables
from analytics.rebuilding.catalogue import catalogue_of
from analytics.stores import Manifest, TableFormat, needed
from analytics.stores.objects import ObjectVersion
from analytics.stores.pointer import ObjectManifest
from analytics.stores.versions import read_manifest
from eventlib.errors import LogUnavailable
from eventlib.ground.object_store import ObjectStore
from tests.analytics.engines import Rows, on_store_in_duckdb, rows_in, rows_of, spark_rows
from tests.analytics.sources import REPAIRS, archived, thirds
from tests.analytics.test_stores import SELECT
from tests.commands import ended
from tests.moto import on_this_machine


@pytest.fixture(scope="module")
def expected(spark: SparkSession, repaired: tuple[Path, Rebuilt]) -> Rows:
    there = tables(spark, repaired[0])
    return {name: spark_rows(there[name]) for name in catalogue_of(REPAIRS, SELECT).published}


@pytest.mark.extended
@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_increments_on_a_store_have_the_rows_of_a_full_rebuild_in_a_directory(
    spark: SparkSession, repair_log: str, moto: str, bucket: ObjectStore, expected: Rows, table_format: TableFormat
) -> None:
    how = How(select=SELECT, table_format=table_format, keep=1)
    rebuild(spark, repair_log, bucket, as_of=thirds(repair_log, 2), application=REPAIRS, how=how)
    done = rebuild(spark, repair_log, bucket, application=REPAIRS, how=how)
    assert not done.full
    assert rows_in(spark, bucket) == expected
    assert done.manifest.rows == {name: rows.total() for name, rows in expected.items()}
    assert {name: rows_of(table) for name, table in as_others_read(bucket, moto)} == expected
    assert len(bucket.sizes("versions/")) == 1
    said = ended("sql", "SELECT count(*) AS steps FROM saga_steps", "--out", str(bucket), "--json", by=run)
    assert json.loads(said.stdout) == {"steps": expected["saga_steps"].total()}


@pytest.mark.extended
def test_an_archive_on_a_store_is_rebuilt_and_audited_as_its_log_is(
    spark: SparkSession, repair_log: str, bucket: ObjectStore, expected: Rows, tmp_path: Path
) -> None:
    url = archived(repair_log, bucket)
    assert url.startswith("archive:s3a://")
    rebuild(spark, url, tmp_path, application=REPAIRS, how=How(select=SELECT))
    assert rows_in(spark, tmp_path) == expected
    findings = [Counter(map(str, audit(spark, each, REPAIRS).collect())) for each in (url, repair_log)]
    assert findings[0] == findings[1]


def as_others_read(place: ObjectStore, url: str) -> Iterator[tuple[str, pa.Table]]:
    """Read the tables that the pointer leads to, with nothing of ours."""
    import polars as pl
    from pyarrow.fs import S3FileSystem
    from pyiceberg.table import StaticTable

    there = on_this_machine(url)
    pointer = json.loads(place.get("current.json")[0])
    manifest = json.loads(place.get(f"versions/{pointer['versions'][-1]}/manifest.json")[0])
    for table in manifest["rows"]:
        files = manifest["files"][table]
        if manifest["table_format"] == "iceberg":
            names = {"s3.endpoint": url, "s3.region": there["AWS_REGION"]}
            keys = {
                "s3.access-key-id": there["AWS_ACCESS_KEY_ID"],
                "s3.secret-access-key": there["AWS_SECRET_ACCESS_KEY"],
            }
            (metadata,) = files
            read = StaticTable.from_metadata(place.address(metadata), {**names, **keys}).scan().to_arrow()
            address = f"s3://{place.bucket}/{place.prefix}/{metadata}"
            assert rows_of(on_store_in_duckdb(f"iceberg_scan('{address}')", url, there)) == rows_of(read)
            yield table, read
        else:
            store = S3FileSystem(
                endpoint_override=url.removeprefix("http://"), scheme="http", region=there["AWS_REGION"]
            )
            paths = [f"{place.bucket}/{place.prefix}/{file}" for file in files]
            read = pq.ParquetDataset(paths, filesystem=store).read()
            options = {"aws_endpoint_url": url, "aws_region": there["AWS_REGION"], "aws_allow_http": "true"}
            scanned = pl.scan_parquet([f"s3://{path}" for path in paths], storage_options=options).collect()
            assert scanned.height == read.num_rows
            listed = ", ".join(f"'s3://{path}'" for path in paths)
            assert rows_of(on_store_in_duckdb(f"read_parquet([{listed}])", url, there)) == rows_of(read)
            yield table, read


@pytest.mark.extended
def test_of_two_rebuilds_one_publishes_and_the_other_says_so(
    spark: SparkSession, repair_log: str, bucket: ObjectStore, expected: Rows
) -> None:
    how, began = How(select=("kinds",)), list[str]()

    def overtaking(step: str, *_: object) -> None:
        if not began:
            began.append(step)
            rebuild(spark, repair_log, bucket, application=REPAIRS, how=how)

    with pytest.raises(LogUnavailable, match=r"another process has rebuilt in s3a://.* meanwhile"):
        rebuild(spark, repair_log, bucket, application=REPAIRS, how=how, progress=overtaking)
    version = read_manifest(needed(bucket))
    assert isinstance(version, ObjectManifest)
    assert version.number == 1
    assert rows_in(spark, bucket)["kinds"] == expected["kinds"]


def test_what_a_store_cannot_have_is_refused_before_spark_starts(repair_log: str, bucket: ObjectStore) -> None:
    def refused(*arguments: str) -> str:
        said = ended("rebuild", "--log", repair_log, "--app", "tests.analytics.repairs:repairs", *arguments, by=run)
        assert said.returncode != 0
        return " ".join(said.stderr.split())

    assert "cannot be delta" in refused("--out", str(bucket), "--format", "delta")
    assert "write s3a://BUCKET/DIR" in refused("--out", "s3a://bucket")
    assert "neither a directory nor s3a://BUCKET/DIR" in refused("--out", "gs://bucket/dir")
    assert bucket.sizes("") == {}
    said = ended("sql", "SELECT 1", "--out", str(bucket), by=run)
    assert f"there are no tables in {bucket}" in " ".join(said.stderr.split())


def test_what_earlier_runs_have_left_is_deleted_and_nothing_of_one_that_may_still_publish(bucket: ObjectStore) -> None:
    left, later = (f"data/{number:010}-{token}/orders/part.parquet" for number, token in ((1, "0dead"), (2, "0new")))
    for key in (left, later):
        bucket.put(key, b"")
    no_spark: Any = None
    with ObjectVersion(no_spark, bucket, 1, None) as version:
        version.commit(Manifest(number=1, definition="", log_id="", log_url="", topics={}, rows={}), keep=2)
    assert [*bucket.sizes("data/")] == [later]
    with pytest.raises(LogUnavailable, match="another process has rebuilt"):
        ObjectVersion(no_spark, bucket, 1, None)  # which looked before that was published
