"""Tables as Apache Iceberg on an object store: a version's manifest names each table's metadata.

Spark writes them through a catalogue in memory, which begins with what the current version names. All files of a run, the
metadata too, are below its own directory: no run can write over what another has written.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from analytics.stores.directory import refusing
from analytics.stores.objects import DATA, ObjectVersion
from analytics.stores.pointer import StoredVersion, stored_versions
from eventlib.ground.object_store import ObjectStore

_MANY_FILES = 8
"""So many small files of a table are written anew as one."""

_LARGE_BYTES = 64_000_000
_NAMESPACE = "tables"
_DRIVER = "org.h2.Driver"


class IcebergObjectVersion(ObjectVersion):
    """A version whose tables are Iceberg's; hidden ones are Parquet."""

    def __init__(self, spark: SparkSession, place: ObjectStore, number: int, before: StoredVersion | None) -> None:
        super().__init__(spark, place, number, before)
        current = stored_versions(place)[-1:]
        there = current[0].manifest if current else None
        self._metadata = {table: there.files[table][0] for table in there.rows} if there else {}
        self._catalogue = Catalogue(spark, place, self._metadata)

    def write(self, table: str, rows: DataFrame, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write a table as one snapshot; return the rows that were written."""
        if hidden:
            return super().write(table, rows, grows=grows, hidden=True)
        parent, name = None, self._catalogue.name(table)
        where = self.place.address(f"{DATA}/{self.directory}/{table}")
        paths = {"write.data.path": f"{where}/data", "write.metadata.path": f"{where}/metadata"}
        writer = rows.writeTo(name).option("snapshot-property.eventlib.version", str(self.number))
        with refusing(table, "iceberg"):
            if grows and self._kept(table):
                self._grown.add(table)
                parent = self._catalogue.snapshot(table)
                self._catalogue.set_properties(table, paths)
                writer.append()
            else:
                for key, value in {**paths, "format-version": "2"}.items():
                    writer = writer.tableProperty(key, value)
                writer.using("iceberg").createOrReplace()
        self._note_metadata(table)
        return self._written_rows(table, rows, parent)

    def take(self, table: str, rows: DataFrame, staged: str, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write staged rows, but for a hidden table."""
        if hidden:
            return super().take(table, rows, staged, grows=grows, hidden=True)
        return self.write(table, rows, grows=grows)

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written."""
        if table in self._hidden:
            return super().read(table)
        return self.spark.read.format("iceberg").load(self.place.address(*self._files[table]))

    def snapshots(self) -> Mapping[str, int]:
        """Return each table's snapshot."""
        return {table: self._catalogue.snapshot(table) for table in self._files if table not in self._hidden}

    def _written_rows(self, table: str, rows: DataFrame, parent: int | None) -> DataFrame:
        reader = self.spark.read.format("iceberg")
        if parent is not None:
            if self._catalogue.snapshot(table) == parent:
                return self.spark.createDataFrame([], rows.schema)
            reader = reader.option("start-snapshot-id", parent)
        return reader.load(self.place.address(*self._files[table]))

    def _note_metadata(self, table: str) -> None:
        self._files[table] = (self.place.key_of(self._catalogue.metadata(table)),)

    def _count(self, table: str) -> int:
        return int(self._catalogue.summary(table)["total-records"])

    def _compact_table(self, table: str) -> None:
        if table in self._hidden:
            super()._compact_table(table)
        elif int(self._catalogue.summary(table)["total-data-files"]) >= _MANY_FILES:
            self._catalogue.compact(table)
            self._note_metadata(table)

    def _trim(self, others: list[StoredVersion]) -> None:
        """Leave out of each table's history what no kept version has as its state; its files are deleted later."""
        for table, current in self.snapshots().items():
            if self._files[table] == self._kept(table):
                continue  # as it is in the version before
            kept = {current, *(number for each in others if (number := each.manifest.snapshots.get(table)) is not None)}
            self._catalogue.forget_snapshots(table, but=kept)
            self._note_metadata(table)

    def _needed_by(self, version: StoredVersion) -> Iterator[str]:
        yield from super()._needed_by(version)
        manifest = version.manifest
        for table in manifest.rows:
            for file in self._catalogue.files_of(self.place.address(*manifest.files[table])):
                yield self.place.key_of(file)


class Catalogue:
    """A catalogue in memory, of tables whose metadata is on a store."""

    def __init__(self, spark: SparkSession, place: ObjectStore, metadata: Mapping[str, str]) -> None:
        self._spark = spark
        self._name = f"eventlib_{hashlib.blake2b(str(place).encode(), digest_size=8).hexdigest()}"
        self._configure(str(place))
        self._tables = spark._jsparkSession.sessionState().catalogManager().catalog(self._name).icebergCatalog()  # noqa: SLF001  no API in Python
        self._begin({table: place.address(key) for table, key in metadata.items()})

    def _configure(self, place: str) -> None:
        jvm: Any = self._spark._jvm  # noqa: SLF001  no API in Python
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass(_DRIVER).newInstance()  # which makes itself known
        catalog = f"spark.sql.catalog.{self._name}"
        self._spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "uri": f"jdbc:h2:mem:{self._name};DB_CLOSE_DELAY=-1",
            "jdbc.schema-version": "V1",
            "warehouse": place,
            "cache-enabled": "false",
        }.items():
            self._spark.conf.set(f"{catalog}.{key}", value)

    def _begin(self, metadata: Mapping[str, str]) -> None:
        """Have these tables, and no others that an earlier run of this session has left."""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._name}.{_NAMESPACE}")
        for left in self._tables.listTables(self._namespace()):
            self._tables.dropTable(left, False)
        for table, address in metadata.items():
            self._tables.registerTable(self._identifier(table), address)

    def _namespace(self) -> Any:
        jvm: Any = self._spark._jvm  # noqa: SLF001  no API in Python
        gateway: Any = self._spark.sparkContext._gateway  # noqa: SLF001  no API in Python
        levels = gateway.new_array(jvm.java.lang.String, 1)
        levels[0] = _NAMESPACE
        return jvm.org.apache.iceberg.catalog.Namespace.of(levels)

    def _identifier(self, table: str) -> Any:
        jvm: Any = self._spark._jvm  # noqa: SLF001  no API in Python
        return jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace(), table)

    def _table(self, table: str) -> Any:
        return self._tables.loadTable(self._identifier(table))

    def name(self, table: str) -> str:
        """Return a table's name in SQL."""
        return f"{self._name}.{_NAMESPACE}.`{table}`"

    def metadata(self, table: str) -> str:
        """Return the URL of a table's metadata."""
        return str(self._table(table).operations().current().metadataFileLocation())

    def snapshot(self, table: str) -> int:
        """Return the current snapshot of a table."""
        return int(self._table(table).currentSnapshot().snapshotId())

    def summary(self, table: str) -> Mapping[str, str]:
        """Return what is counted of the current snapshot."""
        return dict(self._table(table).currentSnapshot().summary())

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Set properties of a table."""
        update = self._table(table).updateProperties()
        for key, value in properties.items():
            update = update.set(key, value)
        update.commit()

    def compact(self, table: str) -> None:
        """Write small files anew as few."""
        jvm: Any = self._spark._jvm  # noqa: SLF001  no API in Python
        actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._spark._jsparkSession)  # noqa: SLF001
        rewriting = actions.rewriteDataFiles(self._table(table)).option("min-input-files", str(_MANY_FILES))
        rewriting.option("target-file-size-bytes", str(_LARGE_BYTES)).execute()

    def forget_snapshots(self, table: str, but: set[int]) -> None:
        """Leave snapshots out of a table's metadata; their files stay."""
        found = self._table(table)
        others = [each.snapshotId() for each in found.snapshots().iterator() if each.snapshotId() not in but]
        if others:
            expiring = found.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(False)
            for snapshot in others:
                expiring = expiring.expireSnapshotId(snapshot)
            expiring.commit()

    def files_of(self, metadata: str) -> Iterator[str]:
        """Yield the URLs of what the current snapshot in a metadata file is made of."""
        jvm: Any = self._spark._jvm  # noqa: SLF001  no API in Python
        iceberg = jvm.org.apache.iceberg
        io = iceberg.hadoop.HadoopFileIO(self._spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        snapshot = iceberg.TableMetadataParser.read(io, metadata).currentSnapshot()
        yield str(snapshot.manifestListLocation())
        for manifest in snapshot.allManifests(io):
            yield str(manifest.path())
            paths = iceberg.ManifestFiles.readPaths(manifest, io)
            yield from map(str, paths.iterator())
            paths.close()
