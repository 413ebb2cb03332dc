"""`eventlib backup` and `eventlib restore`: a log in a file, kept elsewhere and put back."""

import asyncio
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eventlib.cli import output
from eventlib.cli.output import counted
from eventlib.errors import WiringError
from eventlib.log.url import log_file
from eventlib.operations.backup.manifest import Backup
from eventlib.operations.backup.restore import Restored, restore
from eventlib.operations.backup.witnesses import Behind
from eventlib.operations.backup.write import back_up

_MOST_SHOWN = 20


def print_backup(url: str, to: str, *, full: bool, as_json: bool) -> int:
    """Make a backup, print what it has, and return the exit code: 1 when something in the log is damaged."""
    place = Path(to)
    if to.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
    bars = Progress(
        TextColumn("copying"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=as_json or not sys.stderr.isatty(),
        transient=True,
    )
    with bars:
        task = bars.add_task("copying")
        log = path_of(url, "a backup")
        backup = back_up(log, url, place, full=full, progress=lambda at, of: bars.update(task, completed=at, total=of))
    if as_json:
        output.print_json([{**backup.manifest.model_dump(exclude={"partitions"}), "manifest": str(backup.path)}])
    else:
        _print_backup(backup)
    return 1 if backup.manifest.damaged else 0


def print_restored(source: str, target: str, live: str | None, reason: str | None, *, as_json: bool) -> None:
    """Put a backup back, and print what is known to be lost."""
    path = path_of(target, "a log")
    done = asyncio.run(restore(Path(source), path, live, reason))
    if as_json:
        output.print_json([_as_json(done)])
    else:
        _print_restored(done, target)


def path_of(url: str, what: str) -> Path:
    """Return the file of an SQLite log's URL. Raises: WiringError for any other log, with what to use instead."""
    if url.startswith("kafka:"):
        raise WiringError(
            f"{url}: {what} here is a file, and a cluster's copies are its replicas. Keep its records with `python -m "
            "analytics archive`, mirror the cluster with MirrorMaker, or take an SQLite log to Kafka with `eventlib copy`"
        )
    file = log_file(url)
    if file is None:
        raise WiringError(f"{url}: {what} here is a file, sqlite:///path/to.db")
    return file.absolute()


def _print_backup(backup: Backup) -> None:
    manifest = backup.manifest
    kind = "all" if manifest.kind == "full" else f"since backup {manifest.number - 1}"
    size = f"{counted(manifest.records, 'record')} ({kind}), {manifest.bytes / 1e6:,.1f} MB"
    print(f"Backed up {size}, each record verified: {backup.file}")
    if manifest.damaged:
        print("Damaged in the log already, and so in the backup:")
        for each in manifest.damaged[:_MOST_SHOWN]:
            print(f"  {output.printable(each)}")
        print("→ `eventlib doctor --deep` names all that is, `eventlib repair` does what can be proved")


def _print_restored(done: Restored, target: str) -> None:
    newest, testimony = done.backups[-1], done.testimony
    print(f"Restored {counted(done.records, 'record')} as of {newest.manifest.made_at}, each verified: {target}")
    if done.replaced is not None:
        print(f"What was there is kept: {done.replaced}")
    for topic, behind in groupby(testimony.behind, key=lambda each: each.topic):
        print(f"  lost: {_lost(topic, [*behind])}")
    if done.is_another:
        print(
            f"{counted(testimony.missing, 'record')} that had been acknowledged are lost. It is recorded, and the log has a new "
            "id: local stores, tables and views are made anew from it; archive it to another directory"
        )
    elif testimony.asked:
        print(f"Nothing more had been acknowledged, as {' and '.join(testimony.asked)} show: it keeps its id.")
    else:
        print(
            "It keeps its id. Whether more had been acknowledged after this backup, nothing was there to tell: the gateway's "
            "ledger may, and an archive or copy does with --live"
        )


def _lost(topic: str, behind: Sequence[Behind]) -> str:
    """Return what is lost of a topic: how many records, where, who shows it, and of which keys."""
    where = ", ".join(f"/{each.partition} from {each.first} to {each.end - 1}" for each in behind)
    keys = sorted({key for each in behind for key in each.keys})
    more = f" and {len(keys) - _MOST_SHOWN:,} more (--json has them)" if len(keys) > _MOST_SHOWN else ""
    named = f"; keys {', '.join(map(output.printable, keys[:_MOST_SHOWN]))}{more}" if keys else ""
    witnesses = " and ".join(sorted({each.witness for each in behind}))
    return f"{topic}: {counted(sum(each.end - each.first for each in behind), 'record')} ({where}), as {witnesses} shows{named}"


def _as_json(done: Restored) -> dict[str, object]:
    testimony = done.testimony
    lost = [
        {
            "topic": b.topic,
            "partition": b.partition,
            "first": b.first,
            "end": b.end,
            "witness": b.witness,
            "keys": b.keys,
        }
        for b in testimony.behind
    ]
    return {
        "backup": str(done.backups[-1].path),
        "as_of": done.backups[-1].manifest.made_at,
        "records": done.records,
        "lost_records": testimony.missing,
        "lost": lost,
        "asked": testimony.asked,
        "log_id": done.log_id,
        "is_another": done.is_another,
        "replaced": None if done.replaced is None else str(done.replaced),
    }
