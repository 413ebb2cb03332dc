"""`python -m analytics rebuild`."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from analytics.audit.application import Application
from analytics.commands.showing import JobProgress, ranges_json, ranges_table
from analytics.commands.starting import session_for
from analytics.rebuilding import How, Rebuilt, rebuild
from analytics.rebuilding.catalogue import catalogue_of
from analytics.rebuilding.rebuild import AsOf
from analytics.stores import Manifest, Place, opened_at, refuse_unfit
from eventlib import command_line
from eventlib.errors import ContractError, WiringError
from eventlib.log.base import TopicPartition
from eventlib.values import time_of


def rebuild_command(
    url: str, application: Application, out: Place, *, as_of: str | None, how: How, as_json: bool
) -> bool:
    """Rebuild the tables, print what was read and written, and return whether they are incomplete."""
    catalogue_of(application, how.select)  # what is declared wrongly is told before Spark starts
    refuse_unfit(out, how.table_format)
    when = None if as_of is None else as_of_text(as_of)
    with JobProgress("starting Spark", shown=not as_json) as steps:
        spark = session_for("rebuild", url, out, table_format=how.table_format)
        done = rebuild(spark, url, out, as_of=when, how=how, application=application, progress=steps)
    if as_json:
        command_line.print_json([{"log": url, "out": str(out), **rebuilt_json(done)}])
    else:
        _print(url, out, done)
        warn_of_dropped(done.manifest)
    return bool(done.manifest.dropped)


def warn_of_dropped(manifest: Manifest) -> None:
    """Print a warning if tables are incomplete."""
    for each in manifest.dropped:
        command_line.warn(
            f"the tables are incomplete: {each.topic}/{each.partition} had been dropped from {each.first} to {each.end - 1}; "
            "rebuild --full from an archive that has it"
        )


def as_of_text(text: str) -> AsOf:
    """Read a time, or a file with offsets: `{topic: {partition: end}}`. Raises: WiringError."""
    path = Path(text)
    if not path.is_file():
        try:
            found: datetime = time_of(text)
        except ContractError as error:
            raise WiringError(f"--as-of: {error}; or name a file with offsets") from error
        return found
    return offsets_in(path, "--as-of")


def offsets_in(path: Path, option: str) -> Mapping[TopicPartition, int]:
    """Read a file with offsets that an option names. Raises: WiringError."""
    try:
        return _offsets(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise WiringError(f'{option}: {path} has no offsets, such as {{"orders": {{"0": 120}}}}: {error}') from error


def _offsets(content: Any) -> Mapping[TopicPartition, int]:
    return {
        (str(topic), int(partition)): int(end)
        for topic, partitions in content.items()
        for partition, end in partitions.items()
    }


def rebuilt_json(done: Rebuilt) -> dict[str, object]:
    """Return a rebuild's result, for scripts."""
    return {
        "version": done.manifest.number,
        "full": done.full,
        "records": done.records,
        "undecodable": done.undecodable,
        "broken": [each._asdict() for each in done.broken],
        "left_out": list(done.left_out),
        "dropped": [each.model_dump() for each in done.manifest.dropped],
        "rows": dict(done.manifest.rows),
        "read": ranges_json(done.read),
        "ends": {topic: dict(enumerate(ends)) for topic, ends in done.manifest.topics.items()},
        "seconds": round(done.seconds, 3),
    }


def _print(url: str, out: Place, done: Rebuilt) -> None:
    if not done.read:
        print(f"Nothing new on {url}: the tables in {out} are unchanged.")
        return
    command_line.terminal().print(ranges_table(done.read))
    shown = command_line.table("table", "rows", "where", right=["rows"], whole=["table"])
    for table, rows in done.manifest.rows.items():
        shown.add_row(table, f"{rows:,}", opened_at(out, table, done.manifest))
    command_line.terminal().print(shown)
    print()
    how = "from the beginning" if done.full else "from the existing tables"
    print(
        f"Rebuilt of {command_line.counted(done.records, 'record')} {how} in {done.seconds:.1f} s, version {done.manifest.number}."
    )
    if done.undecodable:
        command_line.warn(
            f"{command_line.counted(done.undecodable, 'record')} cannot be decoded and is in no table: see `eventlib parked`"
        )
    if done.left_out:
        command_line.warn(
            f"{', '.join(done.left_out)}: in no table, since only Avro and external events that do not contain themselves "
            "have columns"
        )
    for each in done.broken:
        older = ", written by an older version of the contract" if each.is_older else ""
        counted = command_line.counted(each.rows, "row")
        command_line.warn(f"{counted} of {each.table} break {each.rule}{older}: see the table quarantine")
