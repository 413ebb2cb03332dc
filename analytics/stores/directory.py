"""The tables' directory: versions, one of which is current, with all its tables at once.

`DIR/orders` is a link to `DIR/current/orders`, and `DIR/current` to the current version. A version never changes; files
that it shares with the one before are hard links.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from analytics.projection import Projection
from analytics.stores.manifest import CURRENT, MANIFEST, VERSIONS, Manifest, current
from analytics.stores.merging import merge_small
from analytics.stores.published import Published, entry_of
from analytics.stores.version import Staged, Told, Version
from eventlib.errors import WiringError
from eventlib.ground.durable import settle

_SCRATCH = "scratch"


class DirectoryVersion(Version[Published]):
    """A version in a directory; its tables are directories of Parquet files."""

    takes_files = True
    """Whether a file of Parquet is all that a table needs."""

    def __init__(self, spark: SparkSession, place: Path, number: int, before: Path | None = None) -> None:
        self.spark = spark
        self.place = place.absolute()
        self.number = number
        self.path = self.place / VERSIONS / f"{number:010}"
        self._delete()  # left by a killed run
        self.before = None if before is None else Published(spark, before)
        there = current(self.place)
        self.current = None if there is None else Published(spark, there)
        # Not where a killed run's Spark, which ends a moment later, may still be writing.
        self.scratch = self.place / _SCRATCH / token_hex(4)
        self.path.mkdir(parents=True)
        self._written = dict[str, bool]()
        self._grown = set[str]()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Delete an unfinished version."""
        if kind is not None:
            self._delete()

    def _delete(self) -> None:
        for made in (self.path, self.place / _SCRATCH):
            shutil.rmtree(made, ignore_errors=True)

    # --- what a rebuild writes

    @property
    def shared(self) -> Path:
        """Return the directory below which rows are staged."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        return self.scratch

    def project(
        self, table: str, made: Projection, of: Staged, *, grows: bool = False, hidden: bool = False, after: str = ""
    ) -> Callable[[], DataFrame]:
        """Write a table that is columns of staged rows, without a query where the format allows; return its new rows.

        With `after` it begins with the rows of that table, which was written by `project` as well.
        """
        if not (self.takes_files or hidden):
            return super().project(table, made, of, grows=grows, after=after)
        made.write(self.spark, of.files, self.scratch / table)
        self._move_files(table, table, grows=grows, hidden=hidden)
        for file in self.files(after) if after else ():
            os.link(file, self.path / table / f"{after}-{file.name}")
        return partial(self._new_rows, table, made.schema)

    def staged(self, name: str, kind: str = "") -> list[Path]:
        """Return the files of staged rows; of those of one value, if they were staged `by` a column."""
        if not kind:
            return sorted((self.scratch / name).glob("*.parquet"))
        found = (path for path in (self.scratch / name).glob("*=*") if unquote(path.name.partition("=")[2]) == kind)
        return sorted(file for path in found for file in path.glob("*.parquet"))

    def files(self, hidden: str) -> list[Path]:
        """Return the files of a hidden table that was written."""
        return sorted((self.path / hidden).glob("*.parquet"))

    def settle(self, table: str) -> None:
        """Write a table's new files to the disk."""
        for file in (self.path / table).glob(f"{self.number:010}-*.parquet"):
            settle(file)

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written."""
        return Published(self.spark, self.path).read(table)

    def earlier_files(self, table: str) -> list[Path] | None:
        """Return the files of Parquet with all rows that a table has in the version before; None if Arrow cannot read it so."""
        return sorted((self._before.path / table).glob("*.parquet")) if self.takes_files else None

    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before, which there has to be."""
        self._written[table] = hidden
        target = self.path / table
        target.mkdir()
        for file in sorted((self._before.path / table).glob("*.parquet")):
            os.link(file, target / file.name)

    @property
    def _before(self) -> Published:
        if self.before is None:
            raise ValueError("there is no version before this one")
        return self.before

    def _scratch(self, name: str) -> str:
        return str(self.scratch / name)

    def _take_files(self, table: str, rows: DataFrame, staged: str, *, grows: bool, hidden: bool) -> DataFrame:
        self._move_files(table, staged, grows=grows, hidden=hidden)
        return self._new_rows(table, rows.schema)

    def _move_files(self, table: str, staged: str, *, grows: bool, hidden: bool) -> None:
        target = self.path / table
        if grows and self.before is not None:
            self.keep(table, hidden=hidden)
            self._grown.add(table)
        else:
            self._written[table] = hidden
            target.mkdir()
        for i, file in enumerate(self.staged(staged)):
            file.rename(target / f"{self.number:010}-{i:05}.parquet")

    def _new_rows(self, table: str, schema: StructType) -> DataFrame:
        files = (self.path / table).glob(f"{self.number:010}-*.parquet")
        return self.spark.read.schema(schema).parquet(*(str(path) for path in sorted(files)))

    # --- what makes it current

    def rows(self) -> dict[str, int]:
        """Return how many rows each table for readers has."""
        return {table: self._count(table) for table, hidden in self._written.items() if not hidden}

    def commit(self, manifest: Manifest, keep: int, told: Told = lambda _: None) -> Manifest:
        """Make the version current, and delete all but the `keep` newest ones; return its manifest, with `snapshots`.

        Guarantee: all of it is on disk before it becomes current; killed at any moment, this leaves the version before or
        this one, and what is left over is deleted by the next.
        """
        told("merging small files")
        for table in sorted(self._grown):
            self._compact_table(table)
        manifest = manifest.model_copy(update={"snapshots": self.snapshots()})
        (self.path / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        told("waiting for the disk")
        for path in (*self._made(), self.path, self.path.parent):
            settle(path)
        told("publishing")
        link(self.place / CURRENT, Path(VERSIONS) / self.path.name)
        self._link_tables([entry_of(table, manifest.table_format) for table in manifest.rows])
        settle(self.place)
        told("deleting old versions")
        shutil.rmtree(self.place / _SCRATCH, ignore_errors=True)
        for old in sorted((self.place / VERSIONS).iterdir())[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
        self._expire()
        return manifest

    def _count(self, table: str) -> int:
        return sum(pq.read_metadata(file).num_rows for file in (self.path / table).glob("*.parquet"))

    def _compact_table(self, table: str) -> None:
        merge_small(self.path / table, f"{self.number:010}")

    def _made(self) -> Iterable[Path]:
        """Yield all files and directories that were made."""
        return (path for path in self.path.rglob("*") if not path.is_symlink())

    def _expire(self) -> None:
        """Delete what no version needs any more."""

    def _link_tables(self, published: Collection[str]) -> None:
        """Link the tables for readers, and remove links to tables that there are no more."""
        for entry in published:
            if not (self.place / entry).is_symlink():
                link(self.place / entry, Path(CURRENT) / entry)
        for there in self.place.iterdir():
            if there.is_symlink() and there.readlink().parent.name == CURRENT and there.name not in published:
                there.unlink()


def link(path: Path, target: Path) -> None:
    """Make a link, or replace one, at one moment."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(path)


@contextmanager
def refusing(table: str, table_format: str) -> Iterator[None]:
    """Say which table Spark cannot write in a format, and why. Raises: WiringError."""
    try:
        yield
    except AnalysisException as error:
        why = str(error).partition("\n")[0]
        raise WiringError(f"table {table} cannot be written as {table_format}: {why}") from error
