"""`eventlib subjects`: the master key, the subjects' keys, the erasures, and what is kept of a person."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, TypeVar

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOnly, LogOptions, argument, run_on_log
from eventlib.cli._common.record_json import record_line
from eventlib.cli._common.typer_ext import group
from eventlib.eventlog import EventLog
from eventlib.operations.erasure import receipts, restore_keys, resume
from eventlib.operations.personal_export import personal_records
from eventlib.personal.copies import back_up
from eventlib.personal.opening import open_store, personal_options
from eventlib.personal.receipt import Receipt
from eventlib.personal.secret_file import create_secret
from eventlib.personal.store import KeyStore

T = TypeVar("T")

subjects = group("Make the master key; list erasures; export what is kept of a person.")

FileArgument = Annotated[Path, argument("FILE", "A file.")]


@subjects.command()
def master(file: FileArgument) -> None:
    """Make a master key in a file that only its owner can read.

    Keep a copy elsewhere: without it no personal field can be read again. Never
    keep it beside the subjects' keys or in a backup with them. A key of pseudonyms
    (EVENTLIB_PERSONAL_PSEUDONYMS) is made in the same way, in a file of its own.

    [dim]Examples:[/dim]
      eventlib subjects master /etc/shop/master.key
    """
    create_secret(file)
    made = f"{file} is a new key: for a master key, set EVENTLIB_PERSONAL_MASTER=file:{file.absolute()}"
    output.say(made)


@subjects.command("list")
def list_(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List the erasures, with their receipts.

    [dim]Examples:[/dim]
      eventlib subjects list
      eventlib subjects list --json | jq -r .subject
    """
    _print_receipts(run_on_log(log_options, lambda log: receipts(log.port)), as_json=as_json)


@subjects.command()
def show(log_options: LogOptions, subject: Annotated[str, argument("SUBJECT", "The person's id.")]) -> None:
    """Export all that is kept of a person: events, states and parked inputs, one JSON object a line.

    It needs the master key. After an erasure the same lines come with [erased]
    in their personal fields.

    [dim]Examples:[/dim]
      eventlib subjects show 12583 > 12583.ndjson
    """

    async def shown(log: EventLog) -> None:
        async for reading in personal_records(log, subject):
            output.write_lines([record_line(reading)])

    run_on_log(replace(log_options, personal=True), shown)


@subjects.command("resume")
def resume_(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """Complete interrupted erasures, and make the log and the keys agree on all.

    Run it after a log was restored: an erasure that the backup did not have yet
    is written to the log again, with its receipt.

    [dim]Examples:[/dim]
      eventlib subjects resume
    """
    _print_receipts(_with_store(log_options, lambda log, store: resume(log.port, store)), as_json=as_json)


@subjects.command()
def backup(log_options: LogOnly, file: FileArgument) -> None:
    """Copy the subjects' keys to a new file; they stay wrapped by the master key.

    [dim]Examples:[/dim]
      eventlib subjects backup /mnt/keys/shop-2026-01-31.keys
    """
    with open_store(log_options.url, personal_options(), create=False) as store:
        back_up(store, file)
    output.say(f"{file} has the subjects' keys. Remove older copies: they hold keys that were destroyed since.")


@subjects.command()
def restore(log_options: LogOptions, file: FileArgument, as_json: JsonOption = False) -> None:
    """Put a copy of the subjects' keys in the place of lost ones, and erase again who was erased since.

    Stop the services first. The erasures come from the topic _erasures, and from
    the present keys if they can be read.

    [dim]Examples:[/dim]
      eventlib subjects restore /mnt/keys/shop-2026-01-31.keys
    """
    erased = _with_store(log_options, lambda log, store: restore_keys(log.port, file, store), create=True)
    if as_json:
        output.print_json([{"erased_again": erased}])
    else:
        output.say(f"The keys are restored; {output.counted(erased, 'subject')} erased again.")


def _with_store(
    options: LogOptions, command: Callable[[EventLog, KeyStore], Awaitable[T]], *, create: bool = False
) -> T:
    async def run(log: EventLog) -> T:
        with open_store(options.url, personal_options(), create=create) as store:
            return await command(log, store)

    return run_on_log(options, run)


def _print_receipts(found: list[Receipt], *, as_json: bool) -> None:
    if as_json:
        output.print_json(map(asdict, found))
        return
    if not found:
        output.say("No erasures.")
    for each in found:
        output.say(f"{each.erased_at}  {each.subject}  by {each.by}: {each.reason}")
