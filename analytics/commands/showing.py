"""What every command shows of a job: its steps while it runs, and then the offsets that it read."""

import sys
from collections.abc import Mapping
from itertools import groupby
from threading import Event, Thread
from time import monotonic
from typing import Self

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eventlib import command_line
from eventlib.log.base import TopicPartition

_LINE_EACH_S = 2
_SILENT_S = 10


class JobProgress:
    """Shows the steps of a job on stderr from its beginning, unless it is not `shown`: on a terminal with a bar.

    In a pipe a step is a line, at most one every 2 s, and a step that takes longer than 10 s is repeated with its time.
    """

    def __init__(self, first: str, *, shown: bool) -> None:
        self._began, self._printed_at = monotonic(), float("-inf")
        self._step, self._ended = first, Event()
        self._has_bar, self._has_lines = shown and sys.stderr.isatty(), shown and not sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=command_line.terminal(stderr=True),
            disable=not self._has_bar,
        )
        self._task = self._bar.add_task(first, total=None)
        self(first)

    def __call__(self, step: str, done: int = 0, total: int = 0) -> None:
        """Show that a step begins, after so many of all."""
        self._bar.update(self._task, description=step, completed=done, total=total or None)
        self._step = f"{step} ({done:,} of {total:,})" if total else step
        if monotonic() - self._printed_at >= _LINE_EACH_S:
            self._print_line()

    def __enter__(self) -> Self:
        """Draw the bar, or watch for long steps."""
        self._bar.start()
        if self._has_lines:
            Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal to the result."""
        self._ended.set()
        self._bar.stop()

    def _repeat(self) -> None:
        while not self._ended.wait(1):
            if monotonic() - self._printed_at >= _SILENT_S:
                self._print_line()

    def _print_line(self) -> None:
        if self._has_lines and not self._ended.is_set():
            self._printed_at = monotonic()
            print(f"{self._printed_at - self._began:4.0f} s  {self._step}", file=sys.stderr, flush=True)


def ranges_table(read: Mapping[TopicPartition, range]) -> RenderableType:
    """Return a table of the offsets that were read, by topic."""
    shown = command_line.table("topic", "offsets", "read by partition", right=["offsets"], whole=["topic"])
    for topic, places in groupby(sorted(read), key=lambda place: place[0]):
        spans = [(partition, read[topic, partition]) for _, partition in places]
        by_partition = "  ".join(f"{partition}:{span.start}-{span.stop - 1}" for partition, span in spans if span)
        shown.add_row(topic, f"{sum(len(span) for _, span in spans):,}", by_partition)
    return shown


def ranges_json(read: Mapping[TopicPartition, range]) -> dict[str, dict[str, list[int]]]:
    """Return the offsets that were read, by topic and partition: the first, and the first that was not."""
    found = dict[str, dict[str, list[int]]]()
    for (topic, partition), span in sorted(read.items()):
        found.setdefault(topic, {})[str(partition)] = [span.start, span.stop]
    return found
