"""Opens tables of any format: to read them, and to write the next version."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from analytics.place import store_of
from analytics.stores.delta import DeltaVersion
from analytics.stores.directory import DirectoryVersion
from analytics.stores.iceberg import IcebergVersion
from analytics.stores.iceberg_objects import IcebergObjectVersion
from analytics.stores.manifest import TableFormat
from analytics.stores.objects import ObjectVersion, PublishedObjects
from analytics.stores.pointer import StoredVersion
from analytics.stores.published import Published
from analytics.stores.versions import VersionPlace, read_manifest, version_at
from eventlib.errors import WiringError
from eventlib.ground.durable import alone
from eventlib.ground.object_store import ObjectStore, Place
from eventlib.log.base import TopicPartition

AnyVersion = DirectoryVersion | ObjectVersion
"""A version under construction."""

_VERSIONS: Mapping[TableFormat, type[DirectoryVersion]] = {
    "parquet": DirectoryVersion,
    "iceberg": IcebergVersion,
    "delta": DeltaVersion,
}
_ON_A_STORE: Mapping[TableFormat, type[ObjectVersion]] = {"parquet": ObjectVersion, "iceberg": IcebergObjectVersion}
_CLASSES = {
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "delta": "io.delta.tables.DeltaTable",
    "s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


def alone_in(place: Place) -> AbstractContextManager[None]:
    """Be the only process on this machine that rebuilds in a directory; on a store, publishing decides instead.

    Raises: LogUnavailable; OSError.
    """
    return alone(place, "rebuilds in") if isinstance(place, Path) else nullcontext()


def begin_version(
    spark: SparkSession, place: Place, number: int, before: VersionPlace | None, table_format: TableFormat
) -> AnyVersion:
    """Begin a version of the tables in `place`, to go on from `before`.

    Raises: WiringError when the session does not have what the format needs, or the place cannot have it; LogUnavailable.
    """
    refuse_unfit(place, table_format)
    refuse_unready(spark, place, table_format)
    if isinstance(place, ObjectStore):
        return _ON_A_STORE[table_format](spark, place, number, before if isinstance(before, StoredVersion) else None)
    return _VERSIONS[table_format](spark, place, number, before if isinstance(before, Path) else None)


def tables(
    spark: SparkSession,
    place: Place,
    *,
    version: int | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> dict[str, DataFrame]:
    """Return the tables of the current version, by name; of a kept one by its number, or by where it `ends` on the log.

    Raises: LogUnavailable when there are none; WiringError when that version is not kept, or the session cannot read it.
    """
    there = version_at(place, version, ends)
    manifest = read_manifest(there)
    refuse_unready(spark, place, manifest.table_format)
    found = Published(spark, there) if isinstance(there, Path) else PublishedObjects(spark, there)
    return {table: found.read(table) for table in manifest.rows}


def refuse_unfit(place: Place, table_format: TableFormat | None) -> None:
    """Refuse a format that tables in a place cannot have. Raises: WiringError."""
    if isinstance(place, ObjectStore) and table_format not in {None, *_ON_A_STORE}:
        raise WiringError(
            f"tables in {place} cannot be {table_format}, whose log in a bucket a run that was overtaken could write over: "
            "take --format iceberg or parquet, or --out DIR"
        )


def refuse_unready(spark: SparkSession, place: Place, table_format: TableFormat) -> None:
    """Refuse a session without the jars of a format, or of a store. Raises: WiringError."""
    if table_format == "delta" and "DeltaCatalog" not in (spark.conf.get("spark.sql.catalog.spark_catalog", "") or ""):
        raise WiringError(
            "this Spark session is not configured for delta: `analytics.session(formats=['delta'], fetch=True)` is; with "
            "spark-submit, set spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    for name in (table_format, store_of(place)):
        if name in _CLASSES and not _has(spark, _CLASSES[name]):
            option = "--s3" if name == "s3a" else f"--format {name}"
            raise WiringError(
                f"this Spark session has no jars for {name}: `analytics.session(formats=['{name}'], fetch=True)` "
                f"has, and spark-submit with --jars of `python -m analytics connectors {option}`"
            )


def _has(spark: SparkSession, name: str) -> bool:
    found = getattr(spark._jvm, name.rpartition(".")[0])  # noqa: SLF001  the only way to it
    return type(getattr(found, name.rpartition(".")[2])).__name__ == "JavaClass"
