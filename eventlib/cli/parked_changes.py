"""`eventlib parked retry`, `edit` and `discard`: sends a command about a parked key or effect, and prints its outcome."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic_core import from_json
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.parked_keys import DecidersOption, ReasonMatches, ServicesOption, Which, of_key
from eventlib.cli._common.prompts import actor
from eventlib.cli.parked_outcomes import SOON_S, Patience, Retried, follow, print_outcomes
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.event import Position
from eventlib.operations.command_status import CommandQuery, pending_retries
from eventlib.operations.parked_commands import event_with, not_paused, request_discard, request_edit, request_retries
from eventlib.queries.parked import Parking, parkings

DeciderArgument = Annotated[str, typer.Argument(metavar="DECIDER", help="The decider's name, from the list.")]


KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key, from the list; or an effect's id.")]


ByOption = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="A name for people, stored on the log behind that of the machine's user or token.",
        show_default=False,
    ),
]


ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; stored on the log.", show_default=False)
]


def retry(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[
        str | None, typer.Argument(metavar="DECIDER", help="The decider's name, from the list.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, from the list.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Everything that is parked and matches the options below.")
    ] = False,
    of_service: ServicesOption = None,
    of_decider: DecidersOption = None,
    reason_matches: ReasonMatches = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            help="How long to wait without progress. [dim]Default: 1, with --all 10[/dim]",
            show_default=False,
        ),
    ] = None,
    reason: ReasonOption = "",
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Ask the running services to handle parked inputs again, in order.

    What fails again is parked again: fix the cause first, and start the
    services with the fixed code. Each key is handled once, even if several
    people ask for it; given again after an interruption, --all continues.

    Exit code 1 when something is parked again.

    [dim]Examples:[/dim]
      eventlib parked retry order 536365
      eventlib parked retry --all
      eventlib parked retry --all --service payment --reason-matches 'KeyError.*tax'
    """
    which = Which(of_service or [], of_decider or [], reason_matches)
    log_options = LogOptions.of(context, app, log)
    if everything:
        if decider is not None:
            raise typer.BadParameter("it excludes DECIDER and KEY", param_hint="--all")
        code = retry_all(log_options, which, (actor(by), reason.strip()), 10 if wait is None else wait, as_json=as_json)
    elif of_service or of_decider or reason_matches is not None:
        raise typer.BadParameter("they need --all", param_hint="--service / --decider / --reason-matches")
    elif decider is None or key is None:
        raise typer.BadParameter("name both, or give --all", param_hint="DECIDER KEY")
    else:
        code = retry_one(
            log_options, (decider, key), (actor(by), reason.strip()), 1 if wait is None else wait, as_json=as_json
        )
    raise typer.Exit(code)


def retry_one(
    log_options: LogOptions, about: tuple[str, str], why: tuple[str, str], wait_s: float, *, as_json: bool
) -> int:
    """Ask for a (decider, key) to be handled again, and print the outcome; return the exit code; `why` is (who, reason)."""

    async def tried(log: EventLog) -> Retried:
        name = log.choreography.decider(about[0]).name
        found = of_key([each for each in await parkings(log) if each.decider == name], about[1])
        return await _retried(log, found, why, Patience(wait_s))

    return print_outcomes(run_on_log(log_options, tried), as_json=as_json)


def retry_all(log_options: LogOptions, which: Which, why: tuple[str, str], wait_s: float, *, as_json: bool) -> int:
    """Ask for every selected key and effect to be handled again, and follow that; return the exit code.

    Requests that are already pending are followed, and not made again.
    """
    with _progress() as progress:
        bar = progress.add_task("retried", total=None)

        def on_progress(done: int, of: int) -> None:
            progress.update(bar, completed=done, total=of, visible=of > 0)

        async def tried(log: EventLog) -> Retried:
            found = await not_paused(log, await parkings(log, wanted=which.of(log)))
            return await _retried(log, found, why, Patience(wait_s, on_progress))

        done = run_on_log(log_options, tried)
    return print_outcomes(done, as_json=as_json)


def edit(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: DeciderArgument,
    key: KeyArgument,
    fields: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A field's new value; may be repeated.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="JSON", help="All of the event's fields instead; - reads stdin.", show_default=False
        ),
    ] = None,
    reason: ReasonOption = "",
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Replace the data of a parked key's first input, and handle it.

    The inputs that wait behind it follow, in order. The input stays unchanged
    on its topic; the edit is stored on the log with your name, and replays,
    histories and reruns apply it. Data that does not fit the event's class is
    refused before anything is written.

    [dim]Examples:[/dim]
      eventlib parked edit order 536365 --set country=France --reason "typed FRANCE"
      eventlib parked edit order 536365 --data - < order.json
    """
    if data is None and not fields:
        raise typer.BadParameter("name what to change", param_hint="--set / --data")
    change, why = Change(data, fields or []), (actor(by), reason.strip())
    raise typer.Exit(
        edit_input(LogOptions.of(context, app, log, personal=True), (decider, key), change, why, as_json=as_json)
    )


@dataclass(frozen=True, slots=True)
class Change:
    """New data for an input, as typed: all of it as JSON, or fields (NAME=VALUE)."""

    data: str | None
    fields: Sequence[str]

    def parsed(self) -> tuple[object, Mapping[str, object]]:
        """Return the data, or None, and the fields. Raises: ContractError."""
        data = None if self.data is None else _json("--data", sys.stdin.read() if self.data == "-" else self.data)
        return data, dict(map(_field, self.fields))


def edit_input(
    log_options: LogOptions, name: tuple[str, str], change: Change, why: tuple[str, str], *, as_json: bool
) -> int:
    """Replace the data of the first input of a parked (decider, key); `why` is (who, reason)."""
    data, fields = change.parsed()

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_edit(log, parking, await event_with(log, parking, data, fields), *why)

    return print_outcomes(run_on_log(log_options, lambda log: _amended(log, name, asked)), as_json=as_json)


def discard(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: DeciderArgument,
    key: KeyArgument,
    reason: ReasonOption,
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Discard a parked key's first input, or a parked effect, permanently.

    The inputs that wait behind it are then handled, in order. What the input
    would have caused does not happen: its saga continues by its deadlines, or
    becomes overdue.

    [dim]Examples:[/dim]
      eventlib parked discard order 536365 --reason "a test order"
    """
    if not reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    why = actor(by), reason.strip()
    raise typer.Exit(discard_input(LogOptions.of(context, app, log), (decider, key), why, as_json=as_json))


def discard_input(log_options: LogOptions, name: tuple[str, str], why: tuple[str, str], *, as_json: bool) -> int:
    """Discard the first input of a parked (decider, key), or a parked effect by its id."""

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_discard(log, parking, *why)

    return print_outcomes(run_on_log(log_options, lambda log: _amended(log, name, asked)), as_json=as_json)


async def _amended(
    log: EventLog, name: tuple[str, str], ask: Callable[[EventLog, Parking], Awaitable[Position]]
) -> Retried:
    decider = log.choreography.decider(name[0]).name
    found = of_key([each for each in await parkings(log) if each.decider == decider], name[1])
    if len(found) > 1:
        ids = ", ".join(each.id or each.key for each in found)
        raise ContractError(f"more than one thing is parked under {name[1]!r}: name one of {ids}")
    position = await ask(log, found[0])
    return await follow(log, [CommandQuery(found[0], position.offset)], Patience(SOON_S))


async def _retried(log: EventLog, found: Sequence[Parking], why: tuple[str, str], patience: Patience) -> Retried:
    already = await pending_retries(log, found)
    new = [each for each in found if each.name not in already]
    offsets = {each.name: p.offset for each, p in zip(new, await request_retries(log, new, *why), strict=True)}
    return await follow(log, [CommandQuery(each, {**already, **offsets}[each.name]) for each in found], patience)


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


def _json(option: str, text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise ContractError(f"{option} is not JSON: {error}") from error
