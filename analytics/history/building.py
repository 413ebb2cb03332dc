"""Writes the history tables of one version: rows that have settled grow, open ones are written anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from analytics.history.fold import Cut, Fold, Positions
from analytics.history.tables import FoldTable

_CARRIED = "history_carried"
"""Every open row, with what the next version's fold goes on from: not a table for readers."""


class Writer(Protocol):
    """What a version of the tables is written with."""

    def stage(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to be read again, and return them from there."""

    def write(self, table: str, rows: DataFrame, *, grows: bool = False, hidden: bool = False) -> DataFrame:
        """Write a table, after the rows of the version before if it `grows`; return the rows that were written."""

    def read(self, table: str) -> DataFrame:
        """Return all rows of a table that was written."""

    def earlier(self, table: str) -> DataFrame | None:
        """Return all rows that a table has in the version before; None without one."""


@dataclass
class HistoryBuild:
    """Folds a log up to a cut, from the version before if there is one, and writes the tables that are asked for."""

    spark: SparkSession
    url: str
    fold: Fold
    version: Writer
    cut: Cut
    _positions: Positions = field(default_factory=dict)
    _made: tuple[DataFrame, DataFrame] | None = None

    def write(self, table: FoldTable) -> DataFrame:
        """Write a table, and return all its rows."""
        staged, carried = self._folded()
        open_rows = table.open(carried)
        if table.changes == "settles":
            hidden = f"{table.name}_settled"
            settled = self._in_few_files(table.settled(staged))
            self.version.write(hidden, settled, grows=bool(self._positions), hidden=True)
            open_rows = self.version.read(hidden).unionAll(open_rows)
        return self.version.write(table.name, self._in_few_files(open_rows))

    def _folded(self) -> tuple[DataFrame, DataFrame]:
        """Return the new rows of all tables, and the open ones: made once."""
        if self._made is None:
            before = self.version.earlier(_CARRIED)
            self._positions = self.fold.positions(before)
            rows = self.fold.rows(self.spark, self.url, self.cut, self._positions, before)
            staged = self.version.stage("history", rows)
            carried = self.fold.carried(staged, before, self._positions, self.cut)
            self._made = staged, self.version.write(_CARRIED, self._in_few_files(carried), hidden=True)
        return self._made

    def _in_few_files(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1))


def by_name(fold: Fold) -> Mapping[str, FoldTable]:
    """Return the tables of a fold, by name."""
    return {table.name: table for table in fold.tables}
