"""The progress bar of every command."""

from time import monotonic
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eventlib.cli._common.output import terminal

_REFRESHED_EVERY_S = 0.1


class ProgressBar:
    """How much is done, on a terminal's stderr; in a pipe, or if `quiet`, nothing. It makes no thread, so that one may fork."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        console = terminal(stderr=True)
        self._done, self._shown_at = 0, 0.0
        self._bars = Progress(
            *(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn()),
            console=console,
            transient=True,
            auto_refresh=False,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bars.add_task(what, total=None, visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def add(self, more: int, of: int | None = None) -> None:
        """Show that so many more are done, of how many if that is news."""
        self.show(self._done + more, of)

    def show(self, done: int, of: int | None = None, what: str | None = None) -> None:
        """Show how many are done, of how many if that is known, and what is being done if that changes."""
        self._done, now = done, monotonic()
        is_due = now - self._shown_at >= _REFRESHED_EVERY_S
        self._shown_at = now if is_due else self._shown_at
        self._bars.update(self._task, completed=done, total=of or None, description=what, visible=True, refresh=is_due)
