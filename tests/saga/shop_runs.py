"""Starts the shop's commands as a person does, and kills them as an accident does."""

import gzip
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests import forked
from tests.commands import said

ROOT = Path(__file__).parents[2]
REAL_ORDERS = ROOT.parent / "shared" / "data" / "orders-open.ndjson.gz"
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))
LONGEST_S = 120
_LOOK_S = 0.005
FIELDS = {"order_id", "placed_at", "customer_id", "country", "cancels", "lines"}


def order_file(directory: Path, orders: int) -> Path:
    """Return a file with the first orders of the real ones where they are at hand, else with orders made up alike."""
    path = directory / "orders.ndjson"
    if REAL_ORDERS.exists():
        with gzip.open(REAL_ORDERS, "rt", encoding="utf-8") as lines:
            chosen = [line for line, _ in zip(lines, range(orders), strict=False)]
    else:
        from services.demo import order_lines

        chosen = [line + "\n" for line in order_lines(orders, seed=1) if _is_in_shape(line)]
    path.write_text("".join(chosen), encoding="utf-8")
    return path


class ShopLog:
    """A log in a directory of its own, and the commands on it."""

    def __init__(self, directory: Path, url: str | None = None) -> None:
        self.directory = directory
        self.url = url or f"sqlite:///{directory / 'shop.db'}"
        self.ledger = directory / "shop.db.outside.db"
        self.rejects = directory / "rejects.ndjson"

    def start_import(self, file: Path, *options: str) -> "subprocess.Popen[str]":
        """Start an import, and do not wait for it."""
        arguments = ["-m", "services", "import", str(file), "--log", self.url, "--rejects", str(self.rejects), *options]
        return forked.Popen(
            [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run_import(self, file: Path, *options: str, longest_s: float = LONGEST_S) -> dict[str, Any]:
        """Import a file and return the summary; one that takes longer hangs, and is ended."""
        process = self.start_import(file, "--json", *options)
        try:
            out, err = process.communicate(timeout=longest_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"the import hangs; it said: {process.communicate()[1]}") from None
        assert process.returncode == 0, err
        summary: dict[str, Any] = json.loads(out)
        return summary

    def killed_import(self, file: Path, records: int, *options: str) -> None:
        """Import a file, but kill the import once so many records have come to the log, which is one file."""
        before = self._records()
        process = self.start_import(file, *options)
        while self._records() - before < records:
            assert process.poll() is None, "it was over before"
            time.sleep(_LOOK_S)
        process.kill()
        process.communicate()

    def _records(self) -> int:
        """Return how many records the log has had; none before it is made."""
        path = Path(self.url.removeprefix("sqlite:///"))
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                return int(connection.execute("SELECT ifnull(sum(next_offset), 0) FROM partitions").fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    def tail(self) -> Iterator[str]:
        """Yield what `eventlib tail --json` prints."""
        yield from said("tail", "--json", "--log", self.url).splitlines(keepends=True)

    def replay(self, longest_s: float = LONGEST_S) -> dict[str, Any]:
        """Return what `eventlib replay --json` prints, whatever it finds."""
        command = [EVENTLIB, "replay", "--json", "--log", self.url]
        done = forked.run(command, cwd=ROOT, capture_output=True, timeout=longest_s)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (1 if found["differences"] or found["unknown"] else 0), done.stderr
        return found

    def parked(self) -> list[Any]:
        """Return what `eventlib parked list --json` prints."""
        return [json.loads(line) for line in said("parked", "list", "--json", "--log", self.url).splitlines()]


def _is_in_shape(line: str) -> bool:
    """Leave out what is malformed: the invariants read a file as orders."""
    try:
        order = json.loads(line)
        return all(type(each["quantity"]) is int for each in order["lines"]) and bool(
            order["lines"] and order["country"] and order.keys() <= FIELDS
        )
    except (ValueError, KeyError):
        return False
