"""Spark's Python workers, and sessions in a JVM that runs: what they cost before they begin."""

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.session import session
from analytics.worker_daemon import IMPORTED


def test_a_worker_reads_no_zip_files_again_for_each_task(spark: SparkSession) -> None:
    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        zips = sum(isinstance(each, zipimporter) for each in sys.path_importer_cache.values())
        name = zipimporter.invalidate_caches.__name__
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"zips": [zips], "name": [name]})

    (found,) = spark.range(1, numPartitions=1).mapInArrow(told, "zips long, name string").collect()
    assert found.zips > 0  # else there is nothing to save any more
    assert found.name == "_remember"


def test_a_worker_begins_with_what_the_jobs_import_and_its_collector_does_not_look_at_that(spark: SparkSession) -> None:
    wanted = list(IMPORTED)

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lacking = [name for name in wanted if name not in sys.modules]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"lacking": [lacking], "frozen": [gc.get_freeze_count()]})

    frame = spark.range(1, numPartitions=1).mapInArrow(told, "lacking array<string>, frozen long")
    (found,) = frame.collect()
    assert found.lacking == []
    assert found.frozen > len(sys.modules)


@pytest.mark.usefixtures("spark")
def test_a_session_in_a_jvm_that_runs_is_no_start_that_makes_an_archive_of_classes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    session("tests")
    assert [*tmp_path.rglob("*.started")] == []
