"""Writes the history tables of one version: rows that have settled grow, open ones are written anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from analytics.history.fold import Cut, Fold, Positions
from analytics.history.tables import FoldTable
from analytics.stores import AnyVersion, Staged

_CARRIED = "history_carried"
"""Every open row, with what the next version's fold goes on from: not a table for readers."""


@dataclass
class HistoryBuild:
    """Folds a log up to a cut, from the version before if there is one, and writes the tables that are asked for."""

    spark: SparkSession
    url: str
    fold: Fold
    version: AnyVersion
    cut: Cut
    _positions: Positions = field(default_factory=dict)
    _made: tuple[Staged, Staged] | None = None

    def write(self, table: FoldTable) -> None:
        """Write a table."""
        staged, carried = self._folded()
        settled = ""
        if table.changes == "settles":
            settled = f"{table.name}_settled"
            self.version.project(settled, table.settled, staged, grows=bool(self._positions), hidden=True)
        self.version.project(table.name, table.open, carried, after=settled)

    def _folded(self) -> tuple[Staged, Staged]:
        """Return the new rows of all tables, and the open ones: made once."""
        if self._made is None:
            before = self.version.earlier(_CARRIED)
            self._positions = self.fold.positions(before)
            rows = self.fold.rows(self.spark, self.url, self.cut, self._positions, before)
            staged = self.version.stage("history", rows)
            carried = self.fold.carried(staged, before, self._positions, self.cut)
            written = self.version.write(_CARRIED, self._in_few_files(carried), hidden=True)
            self._made = (
                Staged(staged, self.version.staged("history")),
                Staged(written, self.version.files(_CARRIED)),
            )
        return self._made

    def _in_few_files(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1))


def by_name(fold: Fold) -> Mapping[str, FoldTable]:
    """Return the tables of a fold, by name."""
    return {table.name: table for table in fold.tables}
