"""Spark's Python workers: what a task costs them before it begins."""

import sys
from collections.abc import Iterable, Iterator
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import SparkSession


def test_a_worker_reads_no_zip_files_again_for_each_task(spark: SparkSession) -> None:
    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        zips = sum(isinstance(each, zipimporter) for each in sys.path_importer_cache.values())
        name = zipimporter.invalidate_caches.__name__
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"zips": [zips], "name": [name]})

    (found,) = spark.range(1, numPartitions=1).mapInArrow(told, "zips long, name string").collect()
    assert found.zips > 0  # else there is nothing to save any more
    assert found.name == "_remember"
