"""The tables' directory: versions, one of which is current, with all its tables at once.

`DIR/orders` is a link to `DIR/current/orders`, and `DIR/current` to the current version. A version never changes; files
that it shares with the one before are hard links.
"""

import os
import shutil
from collections.abc import Collection, Mapping
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

_PLAIN = {f"parquet.enable.dictionary#{column}": "false" for column in ("id", "causation_id", "correlation_id")}
"""For columns of which Parquet would build a dictionary in vain."""

_MANIFEST = "manifest.json"
_SCRATCH = "scratch"
_CURRENT = "current"


class Manifest(BaseModel):
    """A version's origin: its log, table definitions and end offsets, and as of when if not up to the log's end.

    `dropped` are the records that the log no longer had, so that the tables are incomplete; `select` the tables that were
    asked for, if not all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    number: int
    definition: int | str
    log_id: str
    log_url: str
    as_of_ms: int | None = None
    topics: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, int]
    dropped: tuple[Lost, ...] = ()
    select: tuple[str, ...] = ()

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
        self._written = dict[str, bool]()
        self._grown = set[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Delete an unfinished version."""
        if kind is not None:
            self._delete()

    def _delete(self) -> None:
        for made in (self.path, self.place / _SCRATCH):
            shutil.rmtree(made, ignore_errors=True)

    def stage(self, name: str, rows: DataFrame, by: str | None = None) -> DataFrame:
        """Write rows to be read again before the version is current, and return them from there.

        `by` is a column of few values: rows of one value are read without the others.
        """
        path = str(self.scratch / name)
        writer = rows.write.options(**_PLAIN)
        (writer if by is None else writer.partitionBy(by)).parquet(path)
        return rows.sparkSession.read.schema(rows.schema).parquet(path).select(*rows.columns)

    def write(self, table: str, rows: DataFrame, before: Path | None = None, *, hidden: bool = False) -> DataFrame:
        """Write a table, after the rows that it had `before`; return the rows that were written.

        A `hidden` table is kept for the next version, and is not for readers.
        """
        return self.take(table, self.stage(table, rows), table, before, hidden=hidden)

    def take(
        self, table: str, rows: DataFrame, staged: str, before: Path | None = None, *, hidden: bool = False
    ) -> DataFrame:
        """Make a table of staged rows, without writing them again; else as `write`."""
        target = self.path / table
        if before is None:
            self._written[table] = hidden
            target.mkdir()
        else:
            self.keep(table, before, hidden=hidden)
            self._grown.add(table)
        for i, file in enumerate(sorted((self.scratch / staged).glob("*.parquet"))):
            file.rename(target / f"{self.number:010}-{i:05}.parquet")
        return rows.sparkSession.read.schema(rows.schema).parquet(
            *(str(path) for path in sorted(target.glob(f"{self.number:010}-*.parquet")))
        )

    def keep(self, table: str, before: Path, *, hidden: bool = False) -> None:
        """Take a table as it was `before`."""
        self._written[table] = hidden
        target = self.path / table
        target.mkdir()
        for file in sorted(before.glob("*.parquet")):
            os.link(file, target / file.name)

    def read(self, table: str, spark: SparkSession) -> DataFrame:
        """Return all rows of a table that was written."""
        return spark.read.parquet(str(self.path / table))

    def rows(self) -> dict[str, int]:
        """Return how many rows each table for readers has."""
        files = {table: (self.path / table).glob("*.parquet") for table, hidden in self._written.items() if not hidden}
        return {table: sum(pq.read_metadata(file).num_rows for file in found) for table, found in files.items()}

    def commit(self, manifest: Manifest, keep: int) -> None:
        """Make the version current, and delete all but the `keep` newest ones.

        Guarantee: all of it is on disk before it becomes current.
        """
        for table in sorted(self._grown):
            merge_small(self.path / table, f"{self.number:010}")
        (self.path / _MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        for path in self.path.rglob("*"):
            settle(path)
        settle(self.path)
        settle(self.path.parent)
        _link(self.place / _CURRENT, Path("versions") / self.path.name)
        self._link_tables(manifest.rows)
        settle(self.place)
        shutil.rmtree(self.place / _SCRATCH, ignore_errors=True)
        for old in sorted((self.place / "versions").iterdir())[:-keep]:
            shutil.rmtree(old, ignore_errors=True)

    def _link_tables(self, published: Collection[str]) -> None:
        """Link the tables for readers, and remove links to tables that there are no more."""
        for table in published:
            if not (self.place / table).is_symlink():
                _link(self.place / table, Path("current") / table)
        for link in self.place.iterdir():
            if link.is_symlink() and link.readlink().parent.name == _CURRENT and link.name not in published:
                link.unlink()


def _link(path: Path, target: Path) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def current(place: Path) -> Path | None:
    """Return the directory of the current version, None when there is none."""
    link = place / _CURRENT
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
    return {table: spark.read.parquet(str(version / table)) for table in read_manifest(version).rows}
