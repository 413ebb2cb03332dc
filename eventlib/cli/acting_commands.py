"""The commands that change a service's course on purpose: their names, their options and their help."""

from enum import StrEnum
from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions

ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why; kept on the log, with your name.", show_default=False),
]
OptionalReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept on the log, with your name.", show_default=False)
]


class Effects(StrEnum):
    """What becomes of effects that only a rerun has asked for."""

    RECORDED = "recorded"
    RUN = "run"


EffectsOption = Annotated[
    Effects,
    typer.Option("--effects", help="Whether effects that were never asked for run then, or are parked (recorded)."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do it without asking.")]


def reset(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="A service's name.")],
    reason: ReasonOption,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, or a time (UTC) such as 2026-01-31T12:00:00Z.",
            show_default=False,
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
    effects: EffectsOption = Effects.RECORDED,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what it would do.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Move a service's positions on purpose, or let it skip one input.

    Whether the service runs or not: it is done at once, in one transaction for
    each task, and recorded with the reason.

    Forwards, what is gone past is never handled. Backwards, the service does
    again, by today's code, what it has done since: in the order in which it
    did, without saying anything twice. It is a rerun that is switched at once;
    see `eventlib rerun --help`. --skip leaves out one input that is still to
    come, or one that is parked; those that wait behind it are handled then.

    [dim]Examples:[/dim]
      eventlib reset payment --to latest --reason "replayed by hand" --dry-run
      eventlib reset payment --to earliest --reason "refunds were forgotten"
      eventlib reset stock --skip 3f2a… --reason "order 536365 was a test"
    """
    from eventlib.cli import person
    from eventlib.cli.reset import SeekOptions, print_reset, print_skip

    place, why = LogOptions.of(context, app, log), person.why(reason)
    if (to is None) == (skip is None):
        raise typer.BadParameter("give one of the two", param_hint="--to / --skip")
    if skip is not None:
        if topic or dry_run:
            raise typer.BadParameter("they go with --to, not with --skip", param_hint="--topic / --dry-run")
        print_skip(place, service, skip, why, as_json=as_json)
    elif to is not None:
        wish = SeekOptions(to, topic or [], why, dry_run, yes, effects is Effects.RUN)
        print_reset(place, service, wish, as_json=as_json)


def rerun(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[
        str | None, typer.Argument(metavar="SERVICE", help="A service's name.", show_default=False)
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NAME", help="Run it again, under this name.", show_default=False)
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option("--switch", metavar="NAME", help="Make a rerun's states the service's.", show_default=False),
    ] = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="NAME", help="Throw a rerun away.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the reruns on the log.")] = False,
    reason: OptionalReason = "",
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Only what the service did up to a time (UTC).", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Decide anew only from a time (UTC) on.", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Go on with what the service does, until Ctrl-C.")
    ] = False,
    effects: EffectsOption = Effects.RECORDED,
    yes: YesOption = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many differences are told in full.")] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run a service's past again beside it, by today's code, and show what differs.

    Each input is taken in the order in which the service took it; the answers
    of effects are the recorded ones, and nothing is run outside. What the
    rerun says goes to topics of its own. The service does not notice, and a
    rerun that was interrupted goes on where it was when it is run again.

    --switch makes its states the service's, in one transaction for each task,
    recorded with the reason. What only the rerun has said is said then; what
    only the service has said cannot be unsaid.

    [dim]Examples:[/dim]
      eventlib rerun payment --into payment-2
      eventlib rerun payment --switch payment-2 --reason "refunds were forgotten"
      eventlib rerun payment --drop payment-2
      eventlib rerun --list
    """
    from eventlib.cli import person, rerun
    from eventlib.operations.reprocessing.metadata import RerunSpec

    place = LogOptions.of(context, app, log)
    if sum([into is not None, switch is not None, drop is not None, list_]) != 1:
        raise typer.BadParameter("give one of them", param_hint="--into / --switch / --drop / --list")
    if list_:
        rerun.print_reruns(place, as_json=as_json)
        return
    if service is None:
        raise typer.BadParameter("say which service", param_hint="SERVICE")
    if into is not None:
        wanted = RerunSpec(
            f"{person.user()}: {reason}".removesuffix(": "), rerun.ms_of(since), rerun.ms_of(until), follow
        )
        rerun.print_rerun(place, service, into, wanted, limit=limit, as_json=as_json)
    elif switch is not None:
        consent = rerun.Consent(person.why(reason), effects is Effects.RUN, yes)
        rerun.print_switch(place, service, switch, consent, limit=limit, as_json=as_json)
    elif drop is not None:
        rerun.drop_rerun(place, service, drop, as_json=as_json)
