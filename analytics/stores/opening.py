"""Opens tables of any format: to read them, and to write the next version."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from analytics.stores.delta import DeltaVersion
from analytics.stores.iceberg import IcebergVersion
from analytics.stores.manifest import TableFormat, read_manifest, version_at
from analytics.stores.published import Published
from analytics.stores.version import Version
from eventlib.errors import WiringError
from eventlib.log.base import TopicPartition

_VERSIONS: Mapping[TableFormat, type[Version]] = {
    "parquet": Version,
    "iceberg": IcebergVersion,
    "delta": DeltaVersion,
}
_CLASSES = {"iceberg": "org.apache.iceberg.spark.SparkCatalog", "delta": "io.delta.tables.DeltaTable"}


def begin_version(
    spark: SparkSession, place: Path, number: int, before: Path | None, table_format: TableFormat
) -> Version:
    """Begin a version of the tables in `place`, to go on from `before`.

    Raises: WiringError when the session does not have what the format needs.
    """
    refuse_unready(spark, table_format)
    return _VERSIONS[table_format](spark, place, number, before)


def tables(
    spark: SparkSession,
    place: Path,
    *,
    version: int | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> dict[str, DataFrame]:
    """Return the tables of the current version, by name; of a kept one by its number, or by where it `ends` on the log.

    Raises: LogUnavailable when there are none; WiringError when that version is not kept, or the session cannot read it.
    """
    path = version_at(place, version, ends)
    manifest, found = read_manifest(path), Published(spark, path)
    refuse_unready(spark, manifest.table_format)
    return {table: found.read(table) for table in manifest.rows}


def refuse_unready(spark: SparkSession, table_format: TableFormat) -> None:
    """Refuse a session without the jars of a format. Raises: WiringError."""
    if table_format == "delta" and "DeltaCatalog" not in (spark.conf.get("spark.sql.catalog.spark_catalog", "") or ""):
        raise WiringError(
            "this Spark session is not configured for delta: `analytics.session(formats=['delta'], fetch=True)` is; with "
            "spark-submit, set spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    name = _CLASSES.get(table_format)
    if name is not None and not _has(spark, name):
        raise WiringError(
            f"this Spark session has no jars for {table_format}: `analytics.session(formats=['{table_format}'], fetch=True)` "
            f"has, and spark-submit with --jars of `python -m analytics connectors --format {table_format}`"
        )


def _has(spark: SparkSession, name: str) -> bool:
    found = getattr(spark._jvm, name.rpartition(".")[0])  # noqa: SLF001  the only way to it
    return type(getattr(found, name.rpartition(".")[2])).__name__ == "JavaClass"
