"""The commands that change a service's course on purpose: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, Place

ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why; kept on the log, with your name.", show_default=False),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do it without asking.")]


def reset(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="A service's name.")],
    reason: ReasonOption,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="WHERE", help="latest, or a time (UTC) such as 2026-01-31T12:00:00Z.", show_default=False
        ),
    ] = None,
    skip: Annotated[
        str | None,
        typer.Option("--skip", metavar="EVENT_ID", help="Leave out this one input.", show_default=False),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Move only here; may be repeated.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what it would do.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Move a service's positions on purpose, or let it skip one input.

    Whether the service runs or not: it is done at once, in one transaction for
    each task, and recorded with the reason.

    Forwards, what is gone past is never handled. --skip leaves out one input
    that is still to come, or one that is parked; those that wait behind it
    are handled then.

    [dim]Examples:[/dim]
      eventlib reset payment --to latest --reason "replayed by hand" --dry-run
      eventlib reset stock --skip 3f2a… --reason "order 536365 was a test"
    """
    from eventlib.cli import person
    from eventlib.cli.reset import Wish, print_reset, print_skip

    place, why = Place.of(context, app, log), person.why(reason)
    if (to is None) == (skip is None):
        raise typer.BadParameter("give one of the two", param_hint="--to / --skip")
    if skip is not None:
        if topic or dry_run:
            raise typer.BadParameter("they go with --to, not with --skip", param_hint="--topic / --dry-run")
        print_skip(place, service, skip, why, as_json=as_json)
    elif to is not None:
        print_reset(place, service, Wish(to, topic or [], why, dry_run, yes), as_json=as_json)
