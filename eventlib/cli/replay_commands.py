"""The command that runs today's code over the past, or one call of it in the debugger: its options and its help."""

from typing import Annotated, Literal

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions

Debugger = Literal["pdb", "debugpy"]
_DEBUGGER = "In the debugger"


def replay(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", "-s", metavar="NAME", help="Only this service; may be repeated.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Compare what was decided from this time (UTC) on, such as 2026-01-31T12:00:00Z.",
            show_default=False,
        ),
    ] = None,
    in_flight: Annotated[
        bool,
        typer.Option("--in-flight", metavar="", help="Only what has not ended: the gate before a deployment."),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Of how many sagas a difference is shown in full.")
    ] = 10,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            metavar="KEY",
            help="An order's id: what the decider has.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    break_at: Annotated[
        str | None,
        typer.Option(
            "--break-at",
            metavar="EVENT_ID",
            help="Stop where this event was handled under the key, or else said; or a deadline's name.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    decider: Annotated[
        str | None,
        typer.Option(
            "--decider",
            "-d",
            metavar="NAME",
            help="Stop only in this one.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    debugger: Annotated[
        Debugger,
        typer.Option(
            "--debugger",
            metavar="NAME",
            help="pdb, or debugpy: it waits for an IDE to attach.",
            rich_help_panel=_DEBUGGER,
        ),
    ] = "pdb",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=1, max=65_535, help="Where debugpy waits.", rich_help_panel=_DEBUGGER
        ),
    ] = 5678,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin",
            metavar="",
            help="Let pdb read its commands from a stdin that is no terminal.",
            rich_help_panel=_DEBUGGER,
        ),
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run today's code over the recorded past, and compare.

    Each recorded input is decided again, in the recorded order, and what
    today's code says is compared with what was said: types, fields, keys,
    order. Nothing differs: exit code 0. Else 1, with the handlers and the
    sagas. The past stays as it was: what follows from an input is what
    was recorded, so one change counts once. No effect is run.

    --in-flight compares only the sagas that have not ended, and lists those
    that today's code would strand: their state cannot be read, or nothing
    is left that moves them.

    With --break-at it makes one call again, and stops in the debugger at the
    handler's first line, with the state and the event of that moment as the
    handler's own arguments; in each of them when several handled the event.

    [dim]Examples:[/dim]
      eventlib replay
      eventlib replay --service stock --since 2026-01-31
      eventlib replay --in-flight
      eventlib replay --json | jq '.handlers[] | select(.differences > 0)'
      eventlib replay --key 536365 --break-at 6dd20bf1
    """
    if key is not None and break_at is not None:
        from eventlib.cli.debugging import Break, debug

        debug(LogOptions.of(context, app, log), Break(key, break_at, decider, debugger, port, stdin))
        return
    if key is not None or break_at is not None or decider is not None:
        raise typer.BadParameter("--key and --break-at go together, perhaps with --decider", param_hint="--break-at")
    from eventlib.cli.replay import ReplayOptions, replay_all, replay_in_flight

    place, wanted = LogOptions.of(context, app, log), ReplayOptions(tuple(service or ()), since, limit)
    run = replay_in_flight if in_flight else replay_all
    raise typer.Exit(run(place, wanted, as_json=as_json))
