"""`eventlib backup` and `eventlib restore`: a log's copy in a file elsewhere, and the log from that copy."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, option, path_of
from eventlib.cli._common.output import counted
from eventlib.cli._common.progress import ProgressBar
from eventlib.cli._common.prompts import signed_reason
from eventlib.ground.private_files import make_private_directory
from eventlib.operations.backup.manifest import Backup
from eventlib.operations.backup.restore import Restored
from eventlib.operations.backup.restore import restore as restore_backup
from eventlib.operations.backup.witnesses import Behind
from eventlib.operations.backup.write import back_up
from eventlib.operations.erasure import erase_again


def backup(
    log_options: LogOptions,
    to: Annotated[str, option("--to", "FILE|DIR", "A new file, or a directory (an existing one, or DIR/).")],
    full: Annotated[bool, flag("--full", "In a directory: a full backup, not an increment.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Back up a log to a file while services run and write.

    The backup is the log at one point in time. After it is written, each record
    is verified against its checksum, and each partition against its digest; a
    manifest beside it names ends, digests and the file's SHA-256. In a
    directory, the first backup is full, and the next ones are increments: run
    it as often as you like.

    An interrupted backup does not count, and the next one removes it. Exit code
    1 when something in the log is damaged; the backup is made all the same, and
    names the damage. A log on Kafka has replicas: see python -m analytics archive.

    [dim]Examples:[/dim]
      eventlib backup --to /mnt/backups/shop/
      eventlib backup --to shop-2026-01-31.db --json | jq .sha256
    """
    raise typer.Exit(print_backup(log_options.url, to, full=full, as_json=as_json))


def restore(
    source: Annotated[str, option("--from", "FILE|DIR", "A backup, or a directory: its newest.")],
    target: Annotated[str, option("--to", "URL", "The log: sqlite:///path/to.db.")],
    live: Annotated[
        str | None, option("--live", "URL", "A log or archive that may hold newer records: archive:DIR.")
    ] = None,
    force: Annotated[bool, flag("--force", "Also replace a log that holds more, or cannot be read.")] = False,
    reason: Annotated[str, option("--reason", "WHY", "With --force: why; stored in the log.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Replace a log with a backup, and list what is lost.

    Stop the services first. The whole backup is verified before anything
    changes. An existing log that holds more is not replaced without
    --force --reason WHY; it is kept beside the new one, under another name.

    Records after the backup that the existing log, its watermark file, the local
    stores or --live know of are lost: they are listed and recorded in the log,
    which then has a new id, so that no store, table or view of lost records is
    used. If no such record is known, the log keeps its id, and stores and views
    continue from their offsets. Subjects that were erased after the backup are
    erased on the restored log, too, as their keys beside it tell.

    [dim]Examples:[/dim]
      eventlib restore --from /mnt/backups/shop --to sqlite:///var/shop.db
      eventlib restore --from backups --to sqlite:///var/shop.db --live archive:/mnt/archive
    """
    why = signed_reason(reason) if force else None
    done, erased = asyncio.run(_restored(Path(source), path_of(target, "a log"), live, why))
    if as_json:
        output.print_json([{**_as_json(done), **({"erased_again": erased} if erased else {})}])
        return
    _print_restored(done, target)
    if erased:
        print(output.printable(f"Erased after the backup, and again on the restored log: {', '.join(erased)}"))


_MOST_SHOWN = 20


def print_backup(url: str, to: str, *, full: bool, as_json: bool) -> int:
    """Make a backup, print its content, and return the exit code: 1 when something in the log is damaged."""
    place = Path(to)
    if to.endswith("/"):
        make_private_directory(place)
    with ProgressBar("copying", quiet=as_json) as bar:
        backup = back_up(path_of(url, "a backup"), url, place, full=full, progress=bar.show)
    if as_json:
        output.print_json([{**backup.manifest.model_dump(exclude={"partitions"}), "manifest": str(backup.path)}])
    else:
        _print_backup(backup)
    return 1 if backup.manifest.damaged else 0


async def _restored(source: Path, path: Path, live: str | None, reason: str | None) -> tuple[Restored, list[str]]:
    done = await restore_backup(source, path, live, reason)
    return done, [receipt.subject for receipt in await erase_again(f"sqlite:///{path}")]


def _print_backup(backup: Backup) -> None:
    manifest = backup.manifest
    kind = "all" if manifest.kind == "full" else f"since backup {manifest.number - 1}"
    size = f"{counted(manifest.records, 'record')} ({kind}), {manifest.bytes / 1e6:,.1f} MB"
    print(f"Backed up {size}, each record verified: {backup.file}")
    if manifest.damaged:
        print("Damaged in the log already, and so in the backup:")
        for each in manifest.damaged[:_MOST_SHOWN]:
            print(f"  {output.printable(each)}")
        print("→ `eventlib doctor --deep` lists all damage, with the remedies")


def _print_restored(done: Restored, target: str) -> None:
    newest, testimony = done.backups[-1], done.testimony
    print(f"Restored {counted(done.records, 'record')} as of {newest.manifest.made_at}, each verified: {target}")
    if done.replaced is not None:
        print(f"The replaced log is kept: {done.replaced}")
    for topic, behind in groupby(testimony.behind, key=lambda each: each.topic):
        print(f"  lost: {_lost(topic, [*behind])}")
    if done.is_another:
        print(
            f"{counted(testimony.missing, 'record')} that had been acknowledged are lost. It is recorded, and the log has a new "
            "id: local stores, tables and views are rebuilt from it; archive it to another directory"
        )
    elif testimony.witnesses:
        print(f"No later record had been acknowledged, as {' and '.join(testimony.witnesses)} show: it keeps its id.")
    else:
        print(
            "It keeps its id. Nothing was available to tell whether later records had been acknowledged: the gateway's "
            "ledger may know, and --live asks an archive or a copy"
        )


def _lost(topic: str, behind: Sequence[Behind]) -> str:
    """Return what is lost of a topic: how many records, their offsets and keys, and what proves it."""
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
        "asked": testimony.witnesses,
        "log_id": done.log_id,
        "is_another": done.is_another,
        "replaced": None if done.replaced is None else str(done.replaced),
    }
