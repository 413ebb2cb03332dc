"""Shows how far an import is: a line that changes on a terminal, a plain one every few seconds elsewhere."""

import time
from typing import Self

from rich.console import Console

from services.importing.report import Report

_PLAIN_EVERY_S = 5.0


class ImportProgress:
    """How many orders are read, placed and ended, at which rate, and the time that is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("reading")
        self._last_at = time.monotonic()
        self._started: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self._status.stop()

    def show(self, line: str, *, at_once: bool = True) -> None:
        """Show what is being done; elsewhere than on a terminal only seldom, unless `at_once`."""
        now = time.monotonic()
        if self._console.is_terminal:
            self._status.update(line)
        elif at_once or now - self._last_at >= _PLAIN_EVERY_S:
            self._last_at = now
            self._console.print(line, markup=False, highlight=False)

    def counted(self, report: Report) -> None:
        """Show how many orders that can be placed are on the log, and how many have ended."""
        now, ended, total = time.monotonic(), report.ended, report.placeable
        self._started = self._started or (now, ended)
        rate = (ended - self._started[1]) / max(now - self._started[0], 0.001)
        left = f", about {(total - ended) / rate:.0f} s left" if rate else ""
        self.show(f"{report.on_log:,} of {total:,} orders placed, {ended:,} ended, {rate:,.0f}/s{left}", at_once=False)
