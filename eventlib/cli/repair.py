"""`eventlib repair`: writes partitions' rows again that their records imply, or accepts a loss."""

from contextlib import closing
from dataclasses import asdict
from sqlite3 import Error
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, option, path_of
from eventlib.cli._common.output import counted
from eventlib.cli._common.progress import ProgressBar
from eventlib.cli._common.prompts import signed_reason
from eventlib.errors import WiringError
from eventlib.ground.url import log_file
from eventlib.log.sqlite.connection import connect, refuse_cut_off
from eventlib.log.sqlite.errors import explained
from eventlib.log.sqlite.high_water import accept_loss
from eventlib.log.sqlite.schema import prepare
from eventlib.operations.doctor.deep import finding
from eventlib.operations.doctor.repair import Repaired, repair_file


def repair(
    log_options: LogOptions,
    dry_run: Annotated[bool, flag("--dry-run", "Only print what would be done; services may run.")] = False,
    accept_loss: Annotated[
        bool, flag("--accept-loss", "Continue without records that are missing from the log's end.")
    ] = False,
    reason: Annotated[str, option("--reason", "WHY", "With --accept-loss: why; stored in the log.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write the rows of partitions again that a damaged SQLite log's records imply.

    Nothing is guessed: a record that has changed is listed with its location,
    to be restored from a backup. A copy of the file before the repair stays
    beside it. Stop the services first.

    Exit code 1 when damage is left.

    --accept-loss is for a log that has lost acknowledged records, and therefore
    refuses writes: the loss is recorded, and the log gets a new id, so that no
    store or table of lost records is used.

    [dim]Examples:[/dim]
      eventlib repair --dry-run
      eventlib repair
      eventlib repair --accept-loss --reason "the disk died, no backup since noon"
    """
    if accept_loss:
        print_accepted(log_options.url, signed_reason(reason))
        return
    raise typer.Exit(repair_log(log_options, dry_run=dry_run, as_json=as_json))


def repair_log(log_options: LogOptions, *, dry_run: bool, as_json: bool) -> int:
    """Repair a log, print what was repaired and what is left, and return the exit code: 1 when damage is left."""
    path = log_file(log_options.url)
    if path is None:
        raise WiringError(
            f"{log_options.url} is not a file on this machine: Kafka repairs itself from its replicas; rebuild an archive from its "
            "log (`python -m analytics archive`)"
        )
    if not path.is_file():
        raise WiringError(f"there is no log at {path}: name one with --log")
    with ProgressBar("verifying", quiet=as_json) as bar:
        found = repair_file(path, dry_run=dry_run, progress=bar.add)
    if as_json:
        output.print_json([_as_json(found, dry_run=dry_run)])
    else:
        _print(found, dry_run=dry_run)
    return 1 if found.left or (dry_run and found.done) else 0


def _as_json(found: Repaired, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "repaired": [asdict(finding(each)) for each in found.done],
        "left": [asdict(finding(each)) for each in found.left],
        "unsealed": found.unsealed,
        "kept": None if found.kept is None else str(found.kept),
    }


def _print(found: Repaired, *, dry_run: bool) -> None:
    shown = output.table("", "what is so")
    for verdict, style, damages in (
        ("can be repaired" if dry_run else "repaired", "green", found.done),
        ("left", "red", found.left),
    ):
        for each in damages:
            shown.add_row(Text(verdict, style=style), output.printable(finding(each).what))
    if found.done or found.left:
        output.terminal().print(shown)
    would = "would be " if dry_run else ""
    counts = [f"{len(found.done)} {would}repaired, {len(found.left)} left"]
    if found.unsealed:
        counts.append(f"{output.counted(found.unsealed, 'record')} of an older release without a checksum")
    print(f"{'; '.join(counts)}.")
    if found.kept is not None:
        print(f"The file as it was before is {found.kept}.")


def print_accepted(url: str, reason: str) -> None:
    """Make a log writable again that has lost records from its end, and print the consequences."""
    path = path_of(url, "a log whose end is lost")
    if not path.is_file():
        raise WiringError(f"there is no log at {path}: name another with --log")
    try:
        refuse_cut_off(path)
        with closing(connect(path)) as connection:
            prepare(connection, path)
            loss = accept_loss(path, connection, reason)
    except Error as error:
        raise explained(error, path) from error
    print(
        f"{counted(loss.records, 'record')} that had been acknowledged are given up, which is recorded in {path}. The log has a "
        "new id: local stores, tables and views are rebuilt from it, and processes that have it open end; archive it to "
        "another directory. What these records requested from external systems (charges, parcels) is only in their ledgers."
    )
