"""`eventlib copy`: copies a log to Kafka."""

import asyncio
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, flag, option
from eventlib.errors import WiringError
from eventlib.operations.held_log import held

if TYPE_CHECKING:
    from eventlib.operations.migration import PartitionReport, Report


def copy(
    source: Annotated[str, option("--from", "URL", "The source log: sqlite:///path/to.db.")],
    target: Annotated[str, option("--to", "URL", "The target: kafka://host:port/[?prefix=NAME.].")],
    source_stays: Annotated[bool, flag("--source-stays", "Keep the source writable: for a trial.")] = False,
    from_scratch: Annotated[bool, flag("--from-scratch", "First discard an unfinished copy there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a log to Kafka: its history, its states, and its in-flight sagas.

    Stop the services first; they continue on the copy. Offsets, keys, headers
    and times do not change, and both sides are compared at the end. An
    interrupted copy continues when the command is given again; until it is
    complete, services refuse to use it. Then the source is closed to writes:
    two logs that both continue would diverge.

    [dim]Example:[/dim]
      eventlib copy --from sqlite:///var/shop.db --to kafka://localhost:9092
    """
    if not target.startswith("kafka://"):
        raise WiringError(f"--to {target}: a copy is made to Kafka, kafka://host:port/[?prefix=NAME.]")
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=output.terminal(stderr=True),
        disable=as_json or not sys.stderr.isatty(),
    )
    with bars:
        retire_with = None if source_stays else f"it has moved to {target}"
        report = asyncio.run(_copy(source, target, retire_with, from_scratch, bars))
    if as_json:
        output.print_json([{"from": source, "to": target, **_as_json(report)}])
    else:
        _print(source, target, report)


async def _copy(source: str, target: str, retire_with: str | None, from_scratch: bool, bars: Progress) -> "Report":
    try:
        from eventlib.log.kafka.import_log import ImportLog
        from eventlib.operations.migration import Copying
    except ModuleNotFoundError as error:
        raise WiringError(f"a kafka log needs the package {error.name}: install eventlib-sagas[kafka]") from error
    tasks = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what)
        bars.update(tasks[what], completed=done, total=total)

    async with held(source) as log:
        topics = list((await log.topics()).values())
        incoming = await ImportLog.open(target)
        try:
            if from_scratch:
                await incoming.discard(topics)
            return await Copying(log, incoming, topics, show).run(retire_with)
        finally:
            await incoming.close()


def _print(source: str, target: str, report: "Report") -> None:
    shown = output.table("topic", "partitions", "records", right=["partitions", "records"], whole=["topic"])
    for topic, partitions in _by_topic(report):
        shown.add_row(topic, str(len(partitions)), f"{sum(each.records for each in partitions):,}")
    console = output.terminal()
    if report.partitions:
        console.print(shown)
        total = sum(each.records for each in report.partitions)
        print(f"\n{total:,} records are the same on both sides.")
    else:
        print("The copy was complete already, and is now open for use.")
    stays = "is closed to writes" if report.source_retired else "is unchanged: let no service run on it beside the copy"
    print(f"{source} {stays}.\nContinue with: eventlib run --log '{target}'")


def _as_json(report: "Report") -> dict[str, object]:
    topics = [
        {
            "topic": topic,
            "records": sum(each.records for each in partitions),
            "ends": [each.end for each in partitions],
            "hashes": [each.hash for each in partitions],
        }
        for topic, partitions in _by_topic(report)
    ]
    return {"source_retired": report.source_retired, "topics": topics}


def _by_topic(report: "Report") -> list[tuple[str, "Sequence[PartitionReport]"]]:
    return [(topic, list(found)) for topic, found in groupby(report.partitions, key=lambda each: each.topic)]
