"""Tables as Delta Lake: each version's directories are whole tables, with hard links to the files of the version before.

So a version is not seen before all of it is, an unfinished one is deleted with its directory, and expiry is that of
versions: Delta's own VACUUM has nothing to find. A table's log goes back as far as the versions that are kept.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from analytics.session import configured
from analytics.stores.directory import DirectoryVersion, refusing
from analytics.stores.manifest import kept
from analytics.stores.published import DELTA_LOG, Published

_MANY_FILES = 8
_LARGE_BYTES = 64_000_000
_WRITTEN_OVER = "_last_checkpoint"
_IS_COMMIT = re.compile(r"(\d{20})\.json")
_IS_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet")
_LIVE = ".{}.files"
"""The names of a table's files in a version: for the versions after it, which keep them."""

_SIZES = {
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
        self._written[table] = False
        grows = grows and self.before is not None and self.before.has(table)
        if grows:
            self._grown.add(table)
        if self.current is not None and (self.current.path / table / DELTA_LOG).exists():
            _link_all(self.current.path / table, self.path / table)
        writer = rows.write.format("delta").option("userMetadata", json.dumps({"eventlib.version": self.number}))
        if not grows:
            writer = writer.option("overwriteSchema", "true")
        with refusing(table, "delta"):
            writer.mode("append" if grows else "overwrite").save(str(self.path / table))
        added = [unquote(each["path"]) for each in self._added(table)]
        if not added:
            return self.spark.createDataFrame([], rows.schema)
        return self.spark.read.schema(rows.schema).parquet(*self._paths(table, added))

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written: from its files, since Delta would read its log in several jobs."""
        if not self._written[table] and (files := self._live(table)):
            return self.spark.read.parquet(*self._paths(table, sorted(files)))
        return super().read(table)

    def _paths(self, table: str, files: Iterable[str]) -> list[str]:
        return [str(self.path / table / name) for name in files]

    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before, without a commit to it."""
        if hidden:
            super().keep(table, hidden=True)
            return
        self._written[table] = False
        self._grown.add(table)
        _link_all(self._before.path / table, self.path / table)

    def take(self, table: str, rows: DataFrame, staged: str, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write staged rows, but for a hidden table."""
        if hidden:
            return super().take(table, rows, staged, grows=grows, hidden=True)
        return self.write(table, rows, grows=grows)

    def snapshots(self) -> Mapping[str, int]:
        """Return each table's version in its own log."""
        tables = [table for table, hidden in self._written.items() if not hidden]
        return {table: int(self._last_commit(table).stem) for table in tables}

    def _last_commit(self, table: str) -> Path:
        return self._commits(table)[-1]

    def _commits(self, table: str) -> list[Path]:
        """Return a table's commits, oldest first."""
        log = self.path / table / DELTA_LOG
        return sorted(path for path in log.iterdir() if _IS_COMMIT.fullmatch(path.name))

    def _new_commits(self, table: str) -> list[Path]:
        """Return those of this version: none if nothing was written to an empty table."""
        since = self.current.manifest.snapshots.get(table, -1) if self.current is not None else -1
        return [path for path in self._commits(table) if int(path.stem) > since]

    def _added(self, table: str) -> list[Any]:
        commits = self._new_commits(table)
        return [action["add"] for path in commits for action in _actions(path) if "add" in action]

    def _count(self, table: str) -> int:
        new = sum(json.loads(each["stats"])["numRecords"] for each in self._added(table))
        return int(new) + (self.before.manifest.rows[table] if table in self._grown and self.before is not None else 0)

    def _compact_table(self, table: str) -> None:
        if self._written[table]:
            super()._compact_table(table)
            return
        sizes = [(self.path / table / name).stat().st_size for name in self._live(table)]
        if len([size for size in sizes if size < _LARGE_BYTES]) >= _MANY_FILES:
            found = self.spark._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]  # noqa: SLF001  no API in Python
            opened = found.forPath(self.spark._jsparkSession, str(self.path / table))  # noqa: SLF001
            with configured(self.spark, _SIZES):
                opened.optimize().executeCompaction()

    # --- what the versions that are kept need

    def _trim(self, keep: int) -> None:
        """Leave out the files, and the beginning of the log, that no version needs that is kept."""
        others = [] if self.current is None or keep == 1 else kept(self.place)[1 - keep :]
        for table, number in self.snapshots().items():
            live = self._live(table)
            (self.path / _LIVE.format(table)).write_text("\n".join(sorted(live)), encoding="utf-8")
            wanted, oldest = set(live), number
            for other in (Published(self.spark, each) for each in others):
                wanted |= _names(other.path, table)
                oldest = min(oldest, other.manifest.snapshots.get(table, oldest))
            directory = self.path / table
            _delete(path for path in directory.glob("*.parquet") if path.name not in wanted)
            checkpoints = [
                found for path in (directory / DELTA_LOG).iterdir() if (found := _checkpoint(path)) <= oldest
            ]
            first = max(checkpoints, default=0)
            _delete(path for path in (directory / DELTA_LOG).glob("0*") if int(path.name[:20]) < first)

    def _live(self, table: str) -> set[str]:
        """Return the names of the files that a table has now."""
        there = set[str]() if self.current is None else _names(self.current.path, table)
        for path in self._new_commits(table):
            for action in _actions(path):
                there -= {unquote(action["remove"]["path"])} if "remove" in action else set()
                there |= {unquote(action["add"]["path"])} if "add" in action else set()
        return there


def _names(version: Path, table: str) -> set[str]:
    path = version / _LIVE.format(table)
    return set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()


def _actions(commit: Path) -> list[Any]:
    return [json.loads(line) for line in commit.read_bytes().split(b"\n") if line]


def _checkpoint(path: Path) -> int:
    """Return the version that a file is a checkpoint of; -1 if it is none."""
    found = _IS_CHECKPOINT.fullmatch(path.name)
    return int(found[1]) if found else -1


def _delete(paths: Iterable[Path]) -> None:
    """Delete files, with Hadoop's checksums of them."""
    for path in list(paths):
        path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def _link_all(source: Path, target: Path) -> None:
    """Make a table of the files of another; those that Delta writes over are copied."""
    for directory in (Path(), Path(DELTA_LOG)):
        (target / directory).mkdir(parents=True)
        for path in (source / directory).iterdir():
            if path.is_file():
                make = shutil.copyfile if _WRITTEN_OVER in path.name else os.link
                make(path, target / directory / path.name)
