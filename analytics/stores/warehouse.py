"""A directory of Iceberg's tables, as its Hadoop catalogue has them: `TABLE/data`, and `TABLE/metadata/vN.metadata.json`."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from eventlib.ground.durable import settle

_MANY_FILES = 8
"""So many small files of a table are written anew as one."""

_LARGE_BYTES = 64_000_000
_UNFINISHED = ".unfinished"
_HINT = "version-hint.text"
_IS_METADATA = re.compile(r"v(\d+)\.metadata\.json")


class Warehouse:
    """The tables in a directory, and a catalogue of them in a Spark session."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self.path = spark, path
        self._catalog = f"eventlib_{hashlib.blake2b(str(path).encode(), digest_size=8).hexdigest()}"
        catalog = f"spark.sql.catalog.{self._catalog}"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{catalog}.type", "hadoop")
        spark.conf.set(f"{catalog}.warehouse", str(path))
        spark.conf.set(f"{catalog}.cache-enabled", "false")
        path.mkdir(exist_ok=True)

    def begin(self) -> bool:
        """Note that a run is under way, and return whether an earlier one has not ended."""
        mark = self.path / _UNFINISHED
        was_there = mark.exists()
        mark.touch()
        settle(self.path)
        return was_there

    def end(self) -> None:
        """Note that no run is under way."""
        (self.path / _UNFINISHED).unlink(missing_ok=True)

    def name(self, table: str) -> str:
        """Return a table's name in SQL."""
        return f"{self._catalog}.`{table}`"

    def tables(self) -> list[str]:
        """Return the names of the tables."""
        return sorted(path.name for path in self.path.iterdir() if path.is_dir())

    def newest(self, table: str) -> Path:
        """Return the newest metadata of a table."""
        return self._metadata(table)[-1]

    def _metadata(self, table: str) -> list[Path]:
        """Return a table's metadata files, oldest first."""
        return sorted(
            (path for path in self._directory(table).iterdir() if _IS_METADATA.fullmatch(path.name)), key=_number
        )

    def _directory(self, table: str) -> Path:
        return self.path / table / "metadata"

    # --- what a killed run has left

    def go_back(self, pointers: Mapping[str, Path]) -> None:
        """Make these metadata files the newest of their tables, and delete all that they do not need."""
        for table in self.tables():
            if table not in pointers:
                shutil.rmtree(self.path / table)
                continue
            last = pointers[table]
            later = [path for path in self._metadata(table) if _number(path) > _number(last)]
            for path in later:  # an expiry has changed no rows, and has deleted files
                if snapshot_of(path) != snapshot_of(last):
                    break
                last = path
            self._point_to(table, last)
            for path in reversed(self._metadata(table)):
                if _number(path) > _number(last):
                    _delete(path)
            self._delete_orphans(table)

    def _point_to(self, table: str, metadata: Path) -> None:
        hint = self._directory(table) / _HINT
        (hint.parent / f".{_HINT}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the text that was there
        hint.write_text(str(_number(metadata)))

    def _delete_orphans(self, table: str) -> None:
        now_ms = int(time.time() * 1000)
        self._actions().deleteOrphanFiles(self._table(table)).olderThan(now_ms).execute()

    # --- compaction and expiry

    def compact(self, table: str) -> bool:
        """Write small files anew as few, where there are many; return whether there were."""
        before = self.newest(table)
        if int(summary_of(before)["total-data-files"]) < _MANY_FILES:
            return False
        rewriting = self._actions().rewriteDataFiles(self._table(table))
        rewriting.option("min-input-files", str(_MANY_FILES)).option(
            "target-file-size-bytes", str(_LARGE_BYTES)
        ).execute()
        return self.newest(table) != before

    def expire(self, table: str, needed: Set[Path]) -> bool:
        """Delete the snapshots that no metadata in `needed` has as its own; return whether the table's metadata has changed.

        A table that nothing needs is deleted.
        """
        if not needed:
            shutil.rmtree(self.path / table)
            return False
        there = {each["snapshot-id"] for each in _read(self.newest(table))["snapshots"]}
        expired = there - {snapshot_of(path) for path in needed}
        if expired:
            expiring = self._table(table).expireSnapshots().expireOlderThan(0)  # none by its age
            for snapshot in expired:
                expiring = expiring.expireSnapshotId(snapshot)
            expiring.commit()
        return bool(expired)

    def forget_metadata(self, table: str, needed: Set[Path]) -> None:
        """Delete the metadata files of a table but the newest, and those needed."""
        for path in self._metadata(table)[:-1] if (self.path / table).exists() else ():
            if path not in needed:
                _delete(path)

    def _table(self, table: str) -> Any:
        util = self._spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # noqa: SLF001  no API in Python
        return util.loadIcebergTable(self._spark._jsparkSession, self.name(table))  # noqa: SLF001

    def _actions(self) -> Any:
        actions = self._spark._jvm.org.apache.iceberg.spark.actions.SparkActions  # type: ignore[union-attr]  # noqa: SLF001  no API in Python
        return actions.get(self._spark._jsparkSession)  # noqa: SLF001


def _number(metadata: Path) -> int:
    found = _IS_METADATA.fullmatch(metadata.name)
    return int(found[1]) if found else 0


def _delete(metadata: Path) -> None:
    metadata.unlink()
    (metadata.parent / f".{metadata.name}.crc").unlink(missing_ok=True)


def _read(metadata: Path) -> Any:
    return json.loads(metadata.read_bytes())


def snapshot_of(metadata: Path) -> int:
    """Return the current snapshot of a table's metadata."""
    return int(_read(metadata)["current-snapshot-id"])


def summary_of(metadata: Path) -> Mapping[str, str]:
    """Return what is counted of the current snapshot."""
    content = _read(metadata)
    return next(
        each["summary"] for each in content["snapshots"] if each["snapshot-id"] == content["current-snapshot-id"]
    )
