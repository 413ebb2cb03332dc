"""Logs that grow while something follows them."""

import sqlite3
import sys
from pathlib import Path

from analytics.asking import spans
from eventlib.log.base import TopicPartition
from eventlib.log.sqlite.state import OFFSET_BITS
from tests import forked
from tests.analytics.damages import copied, seal_partitions
from tests.analytics.sources import ROOT


class GrowingLog:
    """A copy of a log in a file that shows no more than what was recorded by some time."""

    def __init__(self, source: str, directory: Path) -> None:
        self._path = copied(source, directory)
        self.url = f"sqlite:///{self._path}"
        with sqlite3.connect(self._path) as copy:
            self._ends = dict(copy.execute("SELECT number, next_offset FROM partitions").fetchall())

    def show(self, share: float) -> None:
        """Show a share of its records, the oldest ones."""
        with sqlite3.connect(self._path) as db:
            (count,) = db.execute("SELECT count(*) FROM records").fetchone()
            sql = "SELECT recorded_at FROM records ORDER BY recorded_at LIMIT 1 OFFSET ?"
            (at,) = db.execute(sql, (int(count * share) - 1,)).fetchone()
            later = "SELECT min(position) FROM records WHERE position >= ? AND position < ? AND recorded_at > ?"
            for number, end in self._ends.items():
                base = number << OFFSET_BITS
                (first,) = db.execute(later, (base, base + end, at)).fetchone()
                shown = end if first is None else first - base
                db.execute("UPDATE partitions SET next_offset = ? WHERE number = ?", (shown, number))
            seal_partitions(db)


def traded(url: str, seed: int, orders: int = 10) -> None:
    """Let a log grow by some orders that the services handle."""
    command = [sys.executable, "-m", "services", "demo", "--orders", str(orders), "--seed", str(seed), "--log", url]
    forked.run([*command, "--json"], cwd=ROOT, check=True, capture_output=True, timeout=300)


def ends_of(url: str) -> dict[TopicPartition, int]:
    """Return up to where a log's partitions go now."""
    return {place: span.stop for place, span in spans(url).items()}
