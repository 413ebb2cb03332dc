"""Reads the tables of a version that is there."""

import json
from functools import cached_property
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analytics.stores.manifest import Manifest, TableFormat, read_manifest
from analytics.stores.pointer import ObjectManifest
from eventlib.ground.object_store import Place

POINTER = ".metadata.json"
"""What the link to a table's metadata is called, after the table: Iceberg's readers take it for the table."""

DELTA_LOG = "_delta_log"

_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


def entry_of(table: str, table_format: TableFormat) -> str:
    """Return what a reader opens for a table, in the tables' directory and in a version's."""
    return f"{table}{POINTER}" if table_format == "iceberg" else table


def opened_at(place: Place, table: str, manifest: Manifest) -> str:
    """Return where a table of the current version is, for people: what a reader opens, or where that is named."""
    if isinstance(place, Path):
        return str(place / entry_of(table, manifest.table_format))
    files = manifest.files[table] if isinstance(manifest, ObjectManifest) else ()
    return place.address(files[0]) if len(files) == 1 else f"{len(files)} files"


class Published:
    """A version that is there: its tables never change."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self.path = path.absolute()

    @cached_property
    def manifest(self) -> Manifest:
        """Its manifest. Raises: LogCorrupt, LogVersionMismatch."""
        return read_manifest(self.path)

    def has(self, table: str) -> bool:
        """Return whether it has a table, one for readers or a hidden one."""
        return (self.path / table).exists() or (self.path / f"{table}{POINTER}").exists()

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table."""
        directory, pointer = self.path / table, self.path / f"{table}{POINTER}"
        if pointer.exists():
            return self._spark.read.format("iceberg").load(str(pointer.resolve()))
        if (directory / DELTA_LOG).exists():
            return self._spark.read.format("delta").load(str(directory))
        return self._spark.read.schema(_schema_of(directory)).parquet(str(directory))


def _schema_of(directory: Path) -> StructType:
    """Return the columns that the files of a table have: Spark's own inference, which gives the same, is a job."""
    schema = pq.read_schema(min(directory.glob("*.parquet")))
    written = (schema.metadata or {}).get(_SPARKS_SCHEMA)
    return from_arrow_schema(schema) if written is None else StructType.fromJson(json.loads(written))
