"""The command that runs today's code over the past: its options and its help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, Place


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
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Of how many orders a difference is shown in full.")
    ] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run today's code over the recorded past, and compare.

    Each recorded input is decided again, in the recorded order, and what
    today's code says is compared with what was said: types, fields, keys,
    order. Nothing differs: exit code 0. Else 1, with the handlers and the
    orders. The past stays as it was: what follows from an input is what
    was recorded, so one change counts once. No effect is run.

    [dim]Examples:[/dim]
      eventlib replay
      eventlib replay --service stock --since 2026-01-31
      eventlib replay --json | jq '.handlers[] | select(.differences > 0)'
    """
    from eventlib.cli.replay import Wanted, print_replay

    wanted = Wanted(tuple(service or ()), since, limit)
    raise typer.Exit(print_replay(Place.of(context, app, log), wanted, as_json=as_json))
