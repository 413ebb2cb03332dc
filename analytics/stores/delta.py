"""Tables as Delta Lake: each version's directories are whole tables.

A table that grows begins as that of the version before, of which every file is a hard link, and gets a commit; any other is
written anew. So a version is not seen before all of it is, an unfinished one is deleted with its directory, and expiry is that of
versions.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from analytics.session import configured
from analytics.stores.directory import DirectoryVersion, refusing
from analytics.stores.published import DELTA_LOG

_MANY_FILES = 8
_LARGE_BYTES = 64_000_000
_WRITTEN_OVER = "_last_checkpoint"
_COMMITS = f"{'?' * 20}.json"
_COMPACTION = {
    "spark.databricks.delta.optimize.minFileSize": str(_LARGE_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(_LARGE_BYTES),
}


class DeltaVersion(DirectoryVersion):
    """A version whose tables are Delta's."""

    takes_files = False

    def __init__(self, spark: SparkSession, place: Path, number: int, before: Path | None = None) -> None:
        super().__init__(spark, place, number, before)
        # What it knows of a directory of this name that was deleted since.
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # noqa: SLF001  no API in Python

    def write(self, table: str, rows: DataFrame, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write a table as one commit to it; return the rows that were written."""
        if hidden:
            return super().write(table, rows, grows=grows, hidden=True)
        self._written[table], there = False, list[str]()
        if grows and self.before is not None and self.before.has(table):
            self.keep(table)
            there = self._files(table)
        written = {"userMetadata": json.dumps({"eventlib.version": self.number})}
        with refusing(table, "delta"):
            rows.write.format("delta").options(**written).mode("append").save(str(self.path / table))
        added = {*self._files(table)} - {*there}
        if not added:
            return self.spark.createDataFrame([], rows.schema)
        return self.spark.read.schema(rows.schema).parquet(*sorted(added))

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written: from its files, since Delta would read its log in several jobs."""
        files = [] if self._written[table] else self._files(table)
        return self.spark.read.parquet(*files) if files else super().read(table)

    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before, without a commit to it."""
        if hidden:
            super().keep(table, hidden=True)
            return
        self._written[table] = False
        self._grown.add(table)
        shutil.copytree(self._before.path / table, self.path / table, copy_function=_share)

    def take(self, table: str, rows: DataFrame, staged: str, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write staged rows, but for a hidden table."""
        if hidden:
            return super().take(table, rows, staged, grows=grows, hidden=True)
        return self.write(table, rows, grows=grows)

    def snapshots(self) -> Mapping[str, int]:
        """Return each table's version in its own log."""
        tables = [table for table, hidden in self._written.items() if not hidden]
        logs = {table: self.path / table / DELTA_LOG for table in tables}
        return {table: max(int(path.stem) for path in log.glob(_COMMITS)) for table, log in logs.items()}

    def _files(self, table: str) -> list[str]:
        """Return the files that a table has now: a version's directory has no others."""
        return [str(path) for path in sorted((self.path / table).glob("*.parquet"))]

    def _compact_table(self, table: str) -> None:
        if self._written[table]:
            super()._compact_table(table)
            return
        sizes = [Path(file).stat().st_size for file in self._files(table)]
        if len([size for size in sizes if size < _LARGE_BYTES]) >= _MANY_FILES:
            named = str(self.path / table).replace("`", "``")
            with configured(self.spark, _COMPACTION):
                self.spark.sql(f"OPTIMIZE delta.`{named}`")
            live = {unquote(file.rpartition("/")[2]) for file in super().read(table).inputFiles()}
            for path in map(Path, self._files(table)):  # `VACUUM` prints on standard output
                if path.name not in live:
                    path.unlink()
                    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _share(source: str, target: str) -> None:
    """Link a file, which nothing changes; copy one that Delta writes over."""
    if _WRITTEN_OVER in source:
        shutil.copyfile(source, target)
    else:
        os.link(source, target)
