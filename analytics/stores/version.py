"""A version of the tables under construction, wherever it is: the only way in which a rebuild writes tables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession

from analytics.projection import Projection
from analytics.stores.manifest import Manifest

NO_DICTIONARY = ("id", "causation_id", "correlation_id")
"""Columns of which Parquet would build a dictionary in vain."""

PLAIN = {f"parquet.enable.dictionary#{column}": "false" for column in NO_DICTIONARY}


class Staged(NamedTuple):
    """Staged rows, and their files."""

    rows: DataFrame
    files: Sequence[Path]


Told = Callable[[str], None]
"""Called with each step of a commit before it is taken."""


class VersionBefore(Protocol):
    """A version that is there: its tables never change."""

    @property
    def manifest(self) -> Manifest:
        """Its manifest. Raises: LogCorrupt, LogVersionMismatch."""

    def has(self, table: str) -> bool:
        """Return whether it has a table, one for readers or a hidden one."""

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table."""


Before = TypeVar("Before", bound=VersionBefore)


class Version(ABC, Generic[Before]):
    """A version under construction, beside the current one; its number is `number`.

    `before` is the version that it goes on from, if there is one. Tables are files of Parquet; formats that have others
    override what differs. A hidden table is kept for the next version, is not for readers, and is Parquet in every format.
    A table that `grows` has the rows of the version before as well.
    """

    spark: SparkSession
    number: int
    before: Before | None

    @property
    def shared(self) -> Path | None:
        """Return the directory below which rows are staged, where every worker sees it."""
        return None

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """End it, published or not."""

    # --- what a rebuild writes

    def stage(self, name: str, rows: DataFrame, by: str | None = None) -> DataFrame:
        """Write rows to be read again before the version is current, and return them from there.

        `by` is a column of few values: rows of one value are read without the others.
        """
        path = self._scratch(name)
        writer = rows.write.options(**PLAIN)
        (writer if by is None else writer.partitionBy(by)).parquet(path)
        return rows.sparkSession.read.schema(rows.schema).parquet(path).select(*rows.columns)

    def write(self, table: str, rows: DataFrame, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write a table; return the rows that were written."""
        return self._take_files(table, self.stage(table, rows), table, grows=grows, hidden=hidden)

    def take(self, table: str, rows: DataFrame, staged: str, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Make a table of staged rows, without writing them again where the format allows; else as `write`."""
        return self._take_files(table, rows, staged, grows=grows, hidden=hidden)

    def project(
        self,
        table: str,
        made: Projection,
        of: Staged,
        *,
        grows: bool = False,
        hidden: bool = False,
        after: str = "",
    ) -> Callable[[], DataFrame]:
        """Write a table that is columns of staged rows, without a query where the format allows; return its new rows.

        With `after` it begins with the rows of that table, which was written by `project` as well.
        """
        rows = made(of.rows)
        written = self.write(table, self.read(after).unionAll(rows) if after else rows, grows=grows, hidden=hidden)
        return lambda: written

    def staged(self, name: str, kind: str = "") -> Sequence[Path]:  # noqa: ARG002  a directory has them
        """Return the files of staged rows that Arrow may read here; of those of one value, if staged `by` a column."""
        return ()

    def files(self, hidden: str) -> Sequence[Path]:  # noqa: ARG002  a directory has them
        """Return the files of a hidden table that was written, where Arrow may read them here."""
        return ()

    def settle(self, table: str) -> None:
        """Begin to make a table durable, which the commit has to wait for."""

    @abstractmethod
    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written."""

    def earlier(self, table: str) -> DataFrame | None:
        """Return all rows that a table has in the version before; None without one."""
        return self.before.read(table) if self.before is not None and self.before.has(table) else None

    def earlier_files(self, table: str) -> Sequence[Path] | None:  # noqa: ARG002  a directory has them
        """Return the files of Parquet with all rows that a table has in the version before; None if Arrow cannot read it so."""
        return None

    @abstractmethod
    def keep(self, table: str, *, hidden: bool = False) -> None:
        """Take a table as it is in the version before, which there has to be."""

    @abstractmethod
    def _scratch(self, name: str) -> str:
        """Return where Spark stages rows of a name."""

    @abstractmethod
    def _take_files(self, table: str, rows: DataFrame, staged: str, *, grows: bool, hidden: bool) -> DataFrame:
        """Make staged files a table's; return its new rows, which are like `rows`."""

    # --- what makes it current

    @abstractmethod
    def rows(self) -> dict[str, int]:
        """Return how many rows each table for readers has."""

    def snapshots(self) -> Mapping[str, int]:
        """Return the number that each table's format has for its state."""
        return {}

    @abstractmethod
    def commit(self, manifest: Manifest, keep: int, told: Told = lambda _: None) -> Manifest:
        """Make the version current, and delete all but the `keep` newest ones; return its manifest, with `snapshots`.

        Guarantee: all of it is durable before it becomes current; killed at any moment, this leaves the version before or
        this one, and what is left over is deleted by the next. Raises: LogUnavailable when another run has published meanwhile.
        """
