"""Shows an import: a progress bar on a terminal, plain lines elsewhere; and the summary."""

import time
from types import TracebackType
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


class TerminalProgress:
    """A bar that fills as orders end, with how many are placed, the rate and the time that is left."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("ended"),
            _Placed(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=_SPEED_OVER_S,
        )
        self._task = self._bar.add_task("reading", total=None, placed=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the bar."""
        self._bar.stop()

    def surveyed(self, read: int) -> None:
        """See `Progress.surveyed`."""
        self._bar.update(self._task, description=f"reading the file: {read:,} orders")

    def doing(self, what: str) -> None:
        """See `Progress.doing`."""
        self._bar.update(self._task, description=what)

    def counted(self, placed: int, ended: int, total: int) -> None:
        """See `Progress.counted`."""
        self._bar.update(self._task, description="orders", completed=ended, total=total, placed=placed)


class PlainProgress:
    """The same as plain lines, every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_at = time.monotonic()
        self._started: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing."""

    def surveyed(self, read: int) -> None:
        """See `Progress.surveyed`."""
        if self._is_time():
            self._say(f"reading the file: {read:,} orders")

    def doing(self, what: str) -> None:
        """See `Progress.doing`."""
        self._say(what)

    def counted(self, placed: int, ended: int, total: int) -> None:
        """See `Progress.counted`."""
        now = time.monotonic()
        self._started = self._started or (now, ended)
        if self._is_time():
            started_at, before = self._started
            rate = (ended - before) / max(now - started_at, 0.001)
            left = f", about {(total - ended) / rate:.0f} s left" if rate else ""
            self._say(f"{placed:,} of {total:,} orders placed, {ended:,} ended, {rate:,.0f}/s{left}")

    def _is_time(self) -> bool:
        return time.monotonic() - self._last_at >= _PLAIN_EVERY_S

    def _say(self, line: str) -> None:
        self._last_at = time.monotonic()
        self._console.print(line, markup=False, highlight=False)


def progress_on(console: Console) -> TerminalProgress | PlainProgress:
    """Return the best progress display for a console."""
    return TerminalProgress(console) if console.is_terminal else PlainProgress(console)


class _Placed(ProgressColumn):
    """How many orders are on the log."""

    def render(self, task: Task) -> Text:
        return Text(f"· {task.fields['placed']:,} placed", style="cyan")


class _Rate(ProgressColumn):
    """How many orders end each second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"· {task.speed:,.0f}/s", style="green")
