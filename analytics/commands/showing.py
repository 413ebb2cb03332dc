"""What every command shows of a job: a progress bar while it runs, and then the offsets that it read."""

import sys
from collections.abc import Mapping
from itertools import groupby

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eventlib import command_line
from eventlib.log.base import TopicPartition


def bars(*, shown: bool) -> Progress:
    """Return progress bars on stderr; none in a pipe, or unless `shown`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=command_line.terminal(stderr=True),
        disable=not shown or not sys.stderr.isatty(),
    )


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
