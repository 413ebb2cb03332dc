"""The tables' directory: versions, one of which is current, with all its tables at once.

`DIR/orders` is a link to `DIR/current/orders`, and `DIR/current` to the current version. A version never changes; files
that it shares with the one before are hard links.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Self

import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame, SparkSession

from analytics.rebuilding.merging import merge_small
from eventlib.durable import settle
from eventlib.errors import LogCorrupt, LogUnavailable
from eventlib.log.archive.files import Lost, parsed_manifest
from eventlib.log.base import TopicPartition

FORMAT = 1

GROWING = ("order_lines", "stock_movements", "saga_steps")
"""Tables to which rows are only appended."""

WHOLE = ("orders", "payments", "dispatches", "saga_outcomes", "stock_levels")
"""Tables that each version rewrites."""

TABLES = (*WHOLE, *GROWING)
KEPT = "kept"
"""Each order's aggregates, from which the next version continues: not a table for readers."""

_PLAIN = {f"parquet.enable.dictionary#{column}": "false" for column in ("id", "causation_id", "correlation_id")}
"""For columns of which Parquet would build a dictionary in vain."""

_MANIFEST = "manifest.json"
_SCRATCH = "scratch"


class Manifest(BaseModel):
    """A version's origin: its log, table definitions and end offsets, and as of when if not up to the log's end.

    `dropped` are the records that the log no longer had, so that the tables are incomplete.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    number: int
    definition: int
    log_id: str
    log_url: str
    as_of_ms: int | None = None
    topics: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, int]
    dropped: tuple[Lost, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The tables' end in each partition."""
        return {(name, i): end for name, ends in self.topics.items() for i, end in enumerate(ends)}


class Version:
    """A version under construction, beside the current one."""

    def __init__(self, place: Path, number: int) -> None:
        self.place = place.absolute()
        self.number = number
        self.path = self.place / "versions" / f"{number:010}"
        self._delete()  # left by a killed run
        # Not where a killed run's Spark, which ends a moment later, may still be writing.
        self.scratch = self.place / _SCRATCH / token_hex(4)
        self.path.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Delete an unfinished version."""
        if kind is not None:
            self._delete()

    def _delete(self) -> None:
        for made in (self.path, self.place / _SCRATCH):
            shutil.rmtree(made, ignore_errors=True)

    def stage(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to be read again before the version is current, and return them from there."""
        path = str(self.scratch / name)
        rows.write.options(**_PLAIN).parquet(path)
        return rows.sparkSession.read.schema(rows.schema).parquet(path)

    def write(self, table: str, rows: DataFrame, before: Path | None = None) -> DataFrame:
        """Write a table, after the rows that it had `before`; return the rows that were written."""
        self.stage(table, rows)
        target = self.path / table
        target.mkdir()
        for file in sorted(before.glob("*.parquet")) if before else ():
            os.link(file, target / file.name)
        for i, file in enumerate(sorted((self.scratch / table).glob("*.parquet"))):
            file.rename(target / f"{self.number:010}-{i:05}.parquet")
        return rows.sparkSession.read.schema(rows.schema).parquet(
            *(str(path) for path in sorted(target.glob(f"{self.number:010}-*.parquet")))
        )

    def rows(self) -> dict[str, int]:
        """Return how many rows each table has."""
        files = {table: (self.path / table).glob("*.parquet") for table in TABLES}
        return {table: sum(pq.read_metadata(file).num_rows for file in found) for table, found in files.items()}

    def commit(self, manifest: Manifest, keep: int) -> None:
        """Make the version current, and delete all but the `keep` newest ones.

        Guarantee: all of it is on disk before it becomes current.
        """
        for table in GROWING:
            merge_small(self.path / table, f"{self.number:010}")
        (self.path / _MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        for path in self.path.rglob("*"):
            settle(path)
        settle(self.path)
        settle(self.path.parent)
        _link(self.place / "current", Path("versions") / self.path.name)
        for table in TABLES:
            if not (self.place / table).is_symlink():
                _link(self.place / table, Path("current") / table)
        settle(self.place)
        shutil.rmtree(self.place / _SCRATCH, ignore_errors=True)
        for old in sorted((self.place / "versions").iterdir())[:-keep]:
            shutil.rmtree(old, ignore_errors=True)


def _link(path: Path, target: Path) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def current(place: Path) -> Path | None:
    """Return the directory of the current version, None when there is none."""
    link = place / "current"
    return link.resolve() if link.is_symlink() else None


def read_manifest(version: Path) -> Manifest:
    """Return a version's manifest. Raises: LogCorrupt, LogVersionMismatch."""
    path = version / _MANIFEST
    remedy = "; rebuild with --full"
    try:
        return parsed_manifest(Manifest, path, f"the tables in {version} were", remedy)
    except OSError as error:
        raise LogCorrupt(f"the manifest {path} is damaged: {error}{remedy}") from error


def tables(spark: SparkSession, place: Path) -> dict[str, DataFrame]:
    """Return the tables of the current version, by name. Raises: LogUnavailable when there are none."""
    version = current(place)
    if version is None:
        raise LogUnavailable(
            f"there are no tables in {place}: `python -m analytics rebuild --log URL --out {place}` creates them"
        )
    return {table: spark.read.parquet(str(version / table)) for table in TABLES}
