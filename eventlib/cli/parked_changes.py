"""`eventlib parked retry`, `edit` and `discard`: sends a command about a parked key or effect, and prints its outcome."""

from typing import Annotated

import typer

from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, OfServicesOption
from eventlib.cli._common.parked_keys import DecidersOption, ReasonMatches, Which
from eventlib.cli._common.previews import AsPreviewedOption, DryRunOption
from eventlib.cli._common.prompts import actor
from eventlib.cli.parked_acts import How, discard_input, edit_input, retry_all, retry_one

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
    of_service: OfServicesOption = None,
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
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Ask the running services to handle parked inputs again, in order.

    What fails again is parked again: fix the cause first, and start the
    services with the fixed code. Each key is handled once, even if several
    people ask for it; given again after an interruption, --all continues.

    Exit code 1 when something is parked again; of a dry run, when it would be.

    [dim]Examples:[/dim]
      eventlib parked retry order 536365
      eventlib parked retry --all --dry-run
      eventlib parked retry --all --service payment --reason-matches 'KeyError.*tax'
    """
    which = Which(of_service or [], of_decider or [], reason_matches)
    how = _how(by, reason, dry_run, as_previewed, as_json)
    log_options = _log_options(context, app, log, how)
    if everything:
        if decider is not None:
            raise typer.BadParameter("it excludes DECIDER and KEY", param_hint="--all")
        code = retry_all(log_options, which, how, 10 if wait is None else wait)
    elif of_service or of_decider or reason_matches is not None:
        raise typer.BadParameter("they need --all", param_hint="--service / --decider / --reason-matches")
    elif decider is None or key is None:
        raise typer.BadParameter("name both, or give --all", param_hint="DECIDER KEY")
    else:
        code = retry_one(log_options, (decider, key), how, 1 if wait is None else wait)
    raise typer.Exit(code)


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
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
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
      eventlib parked edit order 536365 --set country=France --dry-run
      eventlib parked edit order 536365 --set country=France --reason "typed FRANCE"
      eventlib parked edit order 536365 --data - < order.json
    """
    if data is None and not fields:
        raise typer.BadParameter("name what to change", param_hint="--set / --data")
    how = _how(by, reason, dry_run, as_previewed, as_json)
    log_options = LogOptions.of(context, app, log, personal=True)
    raise typer.Exit(edit_input(log_options, (decider, key), data, fields or [], how))


def discard(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: DeciderArgument,
    key: KeyArgument,
    reason: ReasonOption = "",
    by: ByOption = None,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
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
    how = _how(by, reason, dry_run, as_previewed, as_json)
    if not dry_run and not reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    raise typer.Exit(discard_input(_log_options(context, app, log, how), (decider, key), how))


def _log_options(context: typer.Context, app: str | None, log: str | None, how: How) -> LogOptions:
    is_tried = how.dry_run or how.as_previewed
    return LogOptions.deciding(context, app, log) if is_tried else LogOptions.of(context, app, log)


def _how(by: str | None, reason: str, dry_run: bool, as_previewed: str, as_json: bool) -> How:
    if dry_run and as_previewed:
        raise typer.BadParameter("a dry run excludes it", param_hint="--as-previewed")
    why = ("", "") if dry_run else (actor(by), reason.strip())
    return How(why, dry_run, as_previewed, as_json)
