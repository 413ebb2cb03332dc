"""Shows how far an import is: a progress bar on a terminal, a plain line every few seconds elsewhere."""

import time
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_PLAIN_EVERY_S = 5.0
_SPEED_OVER_S = 10.0


class ImportProgress:
    """How many orders are read, placed and ended, at which rate, and the time that is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_at = time.monotonic()
        self._started: tuple[float, int] | None = None
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("ended"),
            TextColumn("[cyan]· {task.fields[placed]:,} placed"),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=_SPEED_OVER_S,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=None, placed=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._bar.stop()

    def surveyed(self, read: int) -> None:
        """Show how many orders of the file are read."""
        text = f"reading the file: {read:,} orders"
        self._bar.update(self._task, description=text)
        self._print(text)

    def doing(self, what: str) -> None:
        """Show that a step without a count begins."""
        self._bar.update(self._task, description=what)
        self._print(what, at_once=True)

    def counted(self, placed: int, ended: int, total: int) -> None:
        """Show how many orders that can be placed are on the log, and how many have ended."""
        self._bar.update(self._task, description="orders", completed=ended, total=total, placed=placed)
        now = time.monotonic()
        self._started = self._started or (now, ended)
        rate = (ended - self._started[1]) / max(now - self._started[0], 0.001)
        left = f", about {(total - ended) / rate:.0f} s left" if rate else ""
        self._print(f"{placed:,} of {total:,} orders placed, {ended:,} ended, {rate:,.0f}/s{left}")

    def _print(self, line: str, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self._console.is_terminal and (at_once or now - self._last_at >= _PLAIN_EVERY_S):
            self._last_at = now
            self._console.print(line, markup=False, highlight=False)


class _Rate(ProgressColumn):
    """How many orders end each second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"· {task.speed:,.0f}/s", style="green")
