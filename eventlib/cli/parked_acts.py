"""Carries out commands about what is parked: as a dry run, or followed until their outcome is known."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic_core import from_json
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, run_on_log
from eventlib.cli._common.parked_keys import Which, of_key
from eventlib.cli._common.previews import print_previews
from eventlib.cli.parked_outcomes import SOON_S, Patience, Retried, follow, print_outcomes
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.event import Position
from eventlib.operations.as_json import previews_json
from eventlib.operations.command_status import CommandQuery, send_retries
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.parked_commands import apart_from_paused, event_with, request_discard, request_edit
from eventlib.operations.parked_preview import (
    Preview,
    preview_discards,
    preview_edit,
    preview_retries,
    token_of_previews,
)
from eventlib.queries.parked import Parking, named, parkings

_NAMED = 10
"""How many of those that are left out are named."""


@dataclass(frozen=True, slots=True)
class How:
    """How a command is carried out: who wants it and why, whether it is a dry run, or was one before, and what is printed."""

    why: tuple[str, str]
    dry_run: bool
    as_previewed: str
    as_json: bool


@dataclass(frozen=True, slots=True)
class ParkedAct:
    """What a command is about, what it would come to, and how it is requested and followed."""

    find: Callable[[EventLog], Awaitable[Sequence[Parking]]]
    preview: Callable[[EventLog, Sequence[Parking]], Awaitable[Sequence[Preview]]]
    request: Callable[[EventLog, Sequence[Parking]], Awaitable[Retried]]


def carry_out(log_options: LogOptions, act: ParkedAct, how: How) -> int:
    """Carry out a command, and print its outcome, or what it would be; return the exit code."""

    async def carried(log: EventLog) -> Callable[[], int]:
        found = await act.find(log)
        if how.dry_run:
            seen = await act.preview(log, found)
            return partial(print_previews, previews_json(log, seen), seen, as_json=how.as_json)
        if how.as_previewed:
            refuse_moved(how.as_previewed, token_of_previews(await act.preview(log, found)))
        return partial(print_outcomes, await act.request(log, found), as_json=how.as_json)

    return run_on_log(log_options, carried)()


def retry_one(log_options: LogOptions, about: tuple[str, str], how: How, wait_s: float) -> int:
    """Ask for a (decider, key) to be handled again."""
    request = partial(_retried, why=how.why, patience=Patience(wait_s))
    return carry_out(log_options, ParkedAct(partial(_named, name=about), preview_retries, request), how)


def retry_all(log_options: LogOptions, which: Which, how: How, wait_s: float) -> int:
    """Ask for every selected key and effect to be handled again, and follow that.

    Requests that are already pending are followed, and not made again.
    """

    async def selected(log: EventLog) -> Sequence[Parking]:
        found, left_out = await apart_from_paused(log, await parkings(log, wanted=which.of(log)))
        for each in left_out[:_NAMED]:
            output.warn(output.printable(f"left out: {each.parking.decider} {each.parking.key}: {each.why}"))
        if len(left_out) > _NAMED:
            output.warn(f"left out: {len(left_out) - _NAMED:,} more that are paused")
        return found

    async def requested(log: EventLog, found: Sequence[Parking]) -> Retried:
        with _progress() as progress:
            bar = progress.add_task("retried", total=None)

            def on_progress(done: int, of: int) -> None:
                progress.update(bar, completed=done, total=of, visible=of > 0)

            return await _retried(log, found, how.why, Patience(wait_s, on_progress))

    return carry_out(log_options, ParkedAct(selected, preview_retries, requested), how)


def edit_input(
    log_options: LogOptions, name: tuple[str, str], text: str | None, named_values: Sequence[str], how: How
) -> int:
    """Replace the data of the first input of a parked (decider, key): all of it by JSON, or fields by NAME=VALUE."""
    data = None if text is None else _json(sys.stdin.read() if text == "-" else text)
    fields = dict(map(_field, named_values))

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_edit(log, parking, await event_with(log, parking, data, fields), *how.why)

    async def previewed(log: EventLog, found: Sequence[Parking]) -> Sequence[Preview]:
        return [await preview_edit(log, found[0], await event_with(log, found[0], data, fields))]

    return _amend(log_options, name, asked, previewed, how)


def discard_input(log_options: LogOptions, name: tuple[str, str], how: How) -> int:
    """Discard the first input of a parked (decider, key), or a parked effect by its id."""

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_discard(log, parking, *how.why)

    return _amend(log_options, name, asked, preview_discards, how)


def _amend(
    log_options: LogOptions,
    name: tuple[str, str],
    ask: Callable[[EventLog, Parking], Awaitable[Position]],
    preview: Callable[[EventLog, Sequence[Parking]], Awaitable[Sequence[Preview]]],
    how: How,
) -> int:
    async def the_one(log: EventLog) -> Sequence[Parking]:
        found = named(await _named(log, name), name[1])
        if len(found) > 1:
            ids = ", ".join(each.id or each.key for each in found)
            raise ContractError(f"more than one thing is parked under {name[1]!r}: name one of {ids}")
        return found

    async def requested(log: EventLog, found: Sequence[Parking]) -> Retried:
        position = await ask(log, found[0])
        return await follow(log, [CommandQuery(found[0], position.offset)], Patience(SOON_S))

    return carry_out(log_options, ParkedAct(the_one, preview, requested), how)


async def _named(log: EventLog, name: tuple[str, str]) -> Sequence[Parking]:
    decider = log.choreography.decider(name[0]).name
    return of_key([each for each in await parkings(log) if each.decider == decider], name[1])


async def _retried(log: EventLog, found: Sequence[Parking], why: tuple[str, str], patience: Patience) -> Retried:
    requests, _ = await send_retries(log, found, *why)
    return await follow(log, requests, patience)


def _progress() -> Progress:
    shown = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    console = output.terminal(stderr=True)
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)


def _field(text: str) -> tuple[str, object]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ContractError(f"--set {text!r}: write NAME=VALUE, the value as JSON or as plain text")
    try:
        return name, from_json(value)
    except ValueError:
        return name, value


def _json(text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise ContractError(f"--data is not JSON: {error}") from error
