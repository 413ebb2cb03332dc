"""The commands of `eventlib parked`: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions
from eventlib.cli.typed import Command, Group

parked = typer.Typer(
    cls=Group, no_args_is_help=True, help="See what could not be handled; try it again, edit it, or give it up."
)

ServicesOption = Annotated[
    list[str] | None,
    typer.Option("--service", "-s", metavar="NAME", help="Only of this service; may be repeated.", show_default=False),
]
DecidersOption = Annotated[
    list[str] | None,
    typer.Option("--decider", metavar="NAME", help="Only of this decider; may be repeated.", show_default=False),
]
ReasonMatches = Annotated[
    str | None,
    typer.Option(
        "--reason-matches", metavar="REGEX", help="Only where this is found in the reason.", show_default=False
    ),
]
DeciderArgument = Annotated[str, typer.Argument(metavar="DECIDER", help="The decider's name, from the list.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key, from the list; or an effect's id.")]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who does it. [dim]Default: you[/dim]", show_default=False)
]


@parked.command("list", cls=Command)
def list_(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: ServicesOption = None,
    decider: DecidersOption = None,
    reason_matches: ReasonMatches = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """List what is parked: since when, how much waits, by which code, and why.

    A parked key or effect waits for a person; other keys go on.

    [dim]Examples:[/dim]
      eventlib parked list
      eventlib parked list --service payment --reason-matches KeyError
      eventlib parked list --json | jq -r .reason | sort | uniq -c
    """
    from eventlib.cli.parked import Which, print_list

    print_list(LogOptions.of(context, app, log), Which(service or [], decider or [], reason_matches), as_json=as_json)


@parked.command(cls=Command)
def show(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key from the list, or an effect's id.")],
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show what waits behind a parked key, in order, and where the code raised.

    Each input with where it came from, and what is in it. What cannot be decoded is shown as its bytes, in hexadecimal.

    [dim]Examples:[/dim]
      eventlib parked show 536365
      eventlib parked show 536365 --json | jq .data
    """
    from eventlib.cli.parked import print_waiting

    print_waiting(LogOptions.of(context, app, log), key, as_json=as_json)


@parked.command(cls=Command)
def retry(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[
        str | None, typer.Argument(metavar="DECIDER", help="The decider's name, from the list.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The key, from the list.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Everything that is parked, as far as the options below say.")
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
            help="How long to wait while nothing moves. [dim]Default: 1, with --all 10[/dim]",
            show_default=False,
        ),
    ] = None,
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Ask the running services to handle again what is parked, in order.

    What fails again is parked again: mend the cause first, and start the
    services with the mended code. Each key is handled once, whoever else asks
    for the same; given again after an interruption, --all goes on.

    Exit code 1 when something is parked again.

    [dim]Examples:[/dim]
      eventlib parked retry order 536365
      eventlib parked retry --all
      eventlib parked retry --all --service payment --reason-matches 'KeyError.*tax'
    """
    from eventlib.cli.parked import Which
    from eventlib.cli.person import user
    from eventlib.cli.unparking import retry_all, retry_one

    which = Which(of_service or [], of_decider or [], reason_matches)
    place = LogOptions.of(context, app, log)
    if everything:
        if decider is not None:
            raise typer.BadParameter("it stands alone, without a DECIDER and a KEY", param_hint="--all")
        code = retry_all(place, which, by or user(), 10 if wait is None else wait, as_json=as_json)
    elif of_service or of_decider or reason_matches is not None:
        raise typer.BadParameter("they go with --all", param_hint="--service / --decider / --reason-matches")
    elif decider is None or key is None:
        raise typer.BadParameter("name both, or give --all", param_hint="DECIDER KEY")
    else:
        code = retry_one(place, decider, key, by or user(), 1 if wait is None else wait, as_json=as_json)
    raise typer.Exit(code)


@parked.command(cls=Command)
def edit(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: DeciderArgument,
    key: KeyArgument,
    fields: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Another value; may be repeated.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="JSON", help="All of the event's fields instead; - reads stdin.", show_default=False
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; kept on the log.", show_default=False)
    ] = "",
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Have a parked key's first input handled with other data.

    Those that wait behind it are handled then, in order. The input stays on
    its topic as it is; the edit stands on the log beside it, with your name,
    and replays, histories and reruns know it. Data that does not fit the
    event's class is refused before anything is written.

    [dim]Examples:[/dim]
      eventlib parked edit order 536365 --set country=France --reason "typed FRANCE"
      eventlib parked edit order 536365 --data - < order.json
    """
    from eventlib.cli.person import user
    from eventlib.cli.unparking import Change
    from eventlib.cli.unparking import edit as edit_input

    if data is None and not fields:
        raise typer.BadParameter("say what to change", param_hint="--set / --data")
    change, why = Change(data, fields or []), (by or user(), reason.strip())
    raise typer.Exit(edit_input(LogOptions.of(context, app, log), (decider, key), change, why, as_json=as_json))


@parked.command(cls=Command)
def discard(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: DeciderArgument,
    key: KeyArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept on the log.", show_default=False)],
    by: ByOption = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Give up a parked key's first input, or a parked effect, for good.

    Those that wait behind it are handled then, in order. What it would have
    led to does not come about: its saga goes on by its deadlines, or shows as
    overdue.

    [dim]Examples:[/dim]
      eventlib parked discard order 536365 --reason "a test order"
    """
    from eventlib.cli.person import user
    from eventlib.cli.unparking import discard as discard_input

    if not reason.strip():
        raise typer.BadParameter("say why: it is kept on the log for who looks at this later", param_hint="--reason")
    why = by or user(), reason.strip()
    raise typer.Exit(discard_input(LogOptions.of(context, app, log), (decider, key), why, as_json=as_json))
