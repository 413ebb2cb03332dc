"""Tables as Apache Iceberg: a version has a link to each table's metadata as of it.

`DIR/warehouse` has the tables, as an Iceberg Hadoop catalogue; each version's `orders.metadata.json` is a link to one of
the metadata files there. What a run that was killed has added there no link leads to: the next run goes back to what the
current version has, and deletes the rest.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from analytics.stores.directory import DirectoryVersion, link, refusing
from analytics.stores.manifest import VERSIONS, current, kept
from analytics.stores.published import POINTER
from analytics.stores.warehouse import Warehouse, snapshot_of, summary_of


class IcebergVersion(DirectoryVersion):
    """A version whose tables are Iceberg's."""

    takes_files = False

    def __init__(self, spark: SparkSession, place: Path, number: int, before: Path | None = None) -> None:
        super().__init__(spark, place, number, before)
        self._warehouse = Warehouse(spark, self.place / "warehouse")
        if self._warehouse.begin():
            self._warehouse.go_back(self._kept_pointers())
        self._there = {*self._warehouse.path.rglob("*")}

    def write(self, table: str, rows: DataFrame, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write a table as one snapshot; return the rows that were written."""
        if hidden:
            return super().write(table, rows, grows=grows, hidden=True)
        parent = None
        writer = rows.writeTo(self._warehouse.name(table)).option(
            "snapshot-property.eventlib.version", str(self.number)
        )
        if grows and self.before is not None and self.before.has(table):
            self._grown.add(table)
            parent = snapshot_of(self._warehouse.newest(table))
            with refusing(table, "iceberg"):
                writer.append()
        else:
            with refusing(table, "iceberg"):
                writer.using("iceberg").tableProperty("format-version", "2").createOrReplace()
        return self._written_rows(table, rows, parent)

    def take(self, table: str, rows: DataFrame, staged: str, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write staged rows, but for a hidden table."""
        if hidden:
            return super().take(table, rows, staged, grows=grows, hidden=True)
        return self.write(table, rows, grows=grows)

    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before: its metadata."""
        if hidden:
            super().keep(table, hidden=True)
            return
        self._written[table] = False
        self._point(table)

    def snapshots(self) -> Mapping[str, int]:
        """Return each table's snapshot."""
        return {table: snapshot_of(path) for table, path in _pointers(self.path).items()}

    def _written_rows(self, table: str, rows: DataFrame, parent: int | None) -> DataFrame:
        self._written[table] = False
        self._point(table)
        newest = self._warehouse.newest(table)
        reader = self.spark.read.format("iceberg")
        if parent is not None:
            if snapshot_of(newest) == parent:
                return self.spark.createDataFrame([], rows.schema)
            reader = reader.option("start-snapshot-id", parent)
        return reader.load(str(newest))

    def _point(self, table: str) -> None:
        path = self._warehouse.newest(table).relative_to(self.place)
        link(self.path / f"{table}{POINTER}", Path("../..") / path)

    def _kept_pointers(self) -> dict[str, Path]:
        """Return the metadata file of each table in the newest published version that has it."""
        versions = [] if current(self.place) is None else kept(self.place)
        return {table: path for version in versions for table, path in _pointers(version).items()}

    def _count(self, table: str) -> int:
        return int(summary_of(_pointers(self.path)[table])["total-records"])

    def _compact_table(self, table: str) -> None:
        if self._written[table]:
            super()._compact_table(table)
        elif self._warehouse.compact(table):
            self._point(table)

    def _made(self) -> Iterable[Path]:
        yield from super()._made()
        yield from {*self._warehouse.path.rglob("*")} - self._there
        yield from self._warehouse.path.glob("*/*")

    def _expire(self) -> None:
        """Delete what no version needs any more, and note that nothing is unfinished."""
        needed = dict[str, set[Path]]()
        for version in (self.place / VERSIONS).iterdir():
            for table, path in _pointers(version).items():
                needed.setdefault(table, set()).add(path)
        mine = _pointers(self.path)
        for table in self._warehouse.tables():
            if self._warehouse.expire(table, needed.get(table, set())) and table in mine:
                self._point(table)
            self._warehouse.forget_metadata(table, needed.get(table, set()))
        self._warehouse.end()


def _pointers(version: Path) -> dict[str, Path]:
    """Return a version's metadata file of each table."""
    return {path.name.removesuffix(POINTER): path.resolve() for path in version.glob(f"*{POINTER}")}
