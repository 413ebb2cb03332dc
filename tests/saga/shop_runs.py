"""Starts the shop's commands as a person does, and kills them as an accident does."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.commands import said

ROOT = Path(__file__).parents[2]
REAL_ORDERS = ROOT.parent / "shared" / "data" / "orders-open.ndjson.gz"
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))
LONGEST_S = 120
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
        return subprocess.Popen(
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

    def killed_import(self, file: Path, after_s: float, *options: str) -> bool:
        """Import a file, but kill it after so many seconds; False when it was over before."""
        process = self.start_import(file, *options)
        try:
            process.communicate(timeout=after_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            return True
        assert process.returncode == 0
        return False

    def tail(self) -> Iterator[str]:
        """Yield what `eventlib tail --json` prints."""
        yield from said("tail", "--json", "--log", self.url).splitlines(keepends=True)

    def replay(self, longest_s: float = LONGEST_S) -> dict[str, Any]:
        """Return what `eventlib replay --json` prints, whatever it finds."""
        command = [EVENTLIB, "replay", "--json", "--log", self.url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=longest_s)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (1 if found["differences"] or found["unknown"] else 0), done.stderr
        return found

    def parked(self) -> list[Any]:
        """Return what `eventlib parked list --json` prints."""
        return [json.loads(line) for line in said("parked", "list", "--json", "--log", self.url).splitlines()]


def _is_in_shape(line: str) -> bool:
    """Leave out what is malformed: the laws read a file as orders."""
    try:
        order = json.loads(line)
        return all(type(each["quantity"]) is int for each in order["lines"]) and bool(
            order["lines"] and order["country"] and order.keys() <= FIELDS
        )
    except (ValueError, KeyError):
        return False
