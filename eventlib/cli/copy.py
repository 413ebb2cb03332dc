"""`eventlib copy`: copies a log to Kafka."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common import output
from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.options import JsonOption, flag, option
from eventlib.cli._common.progress import ProgressBar
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
    with ProgressBar("copying", quiet=as_json) as bar:
        retire_with = None if source_stays else f"it has moved to {target}"
        report = asyncio.run(_copy(source, target, retire_with, from_scratch, bar))
    if as_json:
        output.print_json([{"from": source, "to": target, **_as_json(report)}])
    else:
        _print(source, target, report)


async def _copy(source: str, target: str, retire_with: str | None, from_scratch: bool, bar: ProgressBar) -> "Report":
    with installed_by("kafka"):
        from eventlib.log.kafka.import_log import ImportLog
        from eventlib.operations.migration import Copying

    def show(what: str, done: int, total: int) -> None:
        bar.show(done, total, what)

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
    if report.partitions:
        rows = [(topic, len(found), sum(each.records for each in found)) for topic, found in _by_topic(report)]
        output.print_table(["topic", "partitions", "records"], rows)
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
