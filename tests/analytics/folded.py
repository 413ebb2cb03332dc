"""The history tables of a log, made in steps as the engine makes them: settled rows grow, open ones are replaced."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from analytics.asking import ask, spans_of
from analytics.audit.application import Application
from analytics.history import Cut, Fold
from eventlib import EventLog, open_log
from eventlib.log.base import TopicPartition
from tests.analytics.sources import ROOT

T = TypeVar("T")
Row = Mapping[str, Any]


@dataclass
class Folded:
    """The tables of one application's log, in a directory, after any number of steps."""

    spark: SparkSession
    url: str
    app: str
    place: Path
    _settled: dict[str, list[Row]] = field(default_factory=dict)
    _open: dict[str, list[Row]] = field(default_factory=dict)
    _by_key: dict[str, dict[str, list[Row]]] = field(default_factory=dict)
    _step: int = 0

    @property
    def fold(self) -> Fold:
        """The fold."""
        return Fold(Application(self.app, str(ROOT)))

    def ends(self) -> dict[TopicPartition, int]:
        """Return the log's ends in every partition that is read."""
        topics = self.fold.topics
        return {place: span.stop for place, span in ask(self.url, lambda log: spans_of(log, topics)).items()}

    def go_on(self, ends: Mapping[TopicPartition, int] | None = None) -> "Folded":
        """Fold up to some ends, the log's by default, and go on from the step before."""
        fold, cut = self.fold, Cut(self.ends() if ends is None else ends)
        before = self._carried(self._step) if self._step else None
        positions = fold.positions(before)
        self._step += 1
        rows = fold.rows(self.spark, self.url, cut, positions, before)
        rows.write.parquet(str(self.place / f"staged-{self._step}"))
        staged = self.spark.read.schema(rows.schema).parquet(str(self.place / f"staged-{self._step}"))
        fold.carried(staged, before, positions, cut).write.parquet(str(self.place / f"carried-{self._step}"))
        carried = self.carried()
        self._by_key.clear()
        for table in fold.tables:
            if table.changes == "settles":
                self._settled.setdefault(table.name, []).extend(_rows(table.settled(staged)))
            self._open[table.name] = _rows(table.open(carried))
        return self

    def table(self, name: str) -> list[Row]:
        """Return a table's rows."""
        return [*self._settled.get(name, []), *self._open.get(name, [])]

    def of_key(self, name: str, key: str) -> list[Row]:
        """Return the rows of a key in a table."""
        if name not in self._by_key:
            self._by_key[name] = defaultdict(list)
            for row in self.table(name):
                self._by_key[name][row["key"]].append(row)
        return self._by_key[name][key]

    def tables(self) -> dict[str, list[Row]]:
        """Return all tables, each sorted by the text of its rows."""
        return {table.name: sorted(self.table(table.name), key=repr) for table in self.fold.tables}

    def on_log(self, question: Callable[[EventLog], Awaitable[T]]) -> T:
        """Ask the library itself about the log."""

        async def asked() -> T:
            async with open_log(self.url, self.fold.application.choreography, read_only=True) as log:
                return await question(log)

        return asyncio.run(asked())

    def carried(self) -> DataFrame:
        """Return what the next step goes on from."""
        return self._carried(self._step)

    def _carried(self, step: int) -> DataFrame:
        return self.spark.read.schema(self.fold.schema).parquet(str(self.place / f"carried-{step}"))


def _rows(found: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in found.collect()]
