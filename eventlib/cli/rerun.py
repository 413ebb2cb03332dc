"""`eventlib rerun`: reprocesses a service's history beside it, and shows what differs."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.cutover import Consent, Effects, EffectsOption, YesOption, print_switch
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, look
from eventlib.cli._common.prompts import signed_reason, user
from eventlib.cli._common.rerun_report import difference_json, print_difference
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.operations.reprocessing.comparison import (
    Difference,
    difference,
)
from eventlib.operations.reprocessing.metadata import KnownRerun, RerunSpec, described, drop, reruns
from eventlib.operations.reprocessing.running import rerunning
from eventlib.state.open import open_stores
from eventlib.values import from_ms, time_of, to_ms

OptionalReason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept on the log, with your name.", show_default=False)
]


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
    place = LogOptions.of(context, app, log)
    if sum([into is not None, switch is not None, drop is not None, list_]) != 1:
        raise typer.BadParameter("give one of them", param_hint="--into / --switch / --drop / --list")
    if list_:
        print_reruns(place, as_json=as_json)
        return
    if service is None:
        raise typer.BadParameter("say which service", param_hint="SERVICE")
    if into is not None:
        wanted = RerunSpec(f"{user()}: {reason}".removesuffix(": "), ms_of(since), ms_of(until), follow)
        print_rerun(place, service, into, wanted, limit=limit, as_json=as_json)
    elif switch is not None:
        consent = Consent(signed_reason(reason), effects is Effects.RUN, yes)
        print_switch(place, service, switch, consent, limit=limit, as_json=as_json)
    elif drop is not None:
        drop_rerun(place, service, drop, as_json=as_json)


def ms_of(text: str | None) -> int:
    """Return a time in the service's past (ms); 0 for none. Raises: ContractError for what is no time."""
    return 0 if text is None else to_ms(time_of(text))


def print_rerun(place: LogOptions, service: str, name: str, wanted: RerunSpec, *, limit: int, as_json: bool) -> None:
    """Run a service's past again under a name, or go on with that, and print what differs."""
    stores = open_stores(place.url, runtime_config().state_dir)
    console = output.terminal(stderr=True)
    columns = TextColumn(f"{service} again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")

        async def run(log: EventLog) -> tuple[Difference, bool]:
            old = log.choreography.service(service)
            told = lambda done, of: progress.update(bar, completed=done, total=of)  # noqa: E731  one line, used once
            async with rerunning(log, stores, old, name, wanted, told) as again:
                return await difference(again, limit), bool(again.followers)

        try:
            found, is_open = look(place, run)
        finally:
            stores.close()
    if as_json:
        output.print_json(difference_json(service, name, found))
        return
    print_difference(service, name, found, limit)
    print()
    if not is_open:
        print(f"{service} has taken over what {name} knows: that is compared no more.")
        return
    print(f"Make it the service's: eventlib rerun {service} --switch {name} --reason TEXT")
    print(f"Throw it away:         eventlib rerun {service} --drop {name}")


def print_reruns(place: LogOptions, *, as_json: bool) -> None:
    """Print a line for each rerun on the log."""
    found = look(place, reruns)
    if as_json:
        output.print_json({**asdict(each), "status": _status(each)} for each in found)
        return
    console = output.terminal()
    if not found:
        console.print("There is no rerun on this log.")
        return
    shown = output.table(
        "rerun", "of", "begun (UTC)", "code", "done", "status", "why", right=["done"], whole=["begun (UTC)"]
    )
    for each in found:
        is_followed = each.of and each.switched < each.tasks
        done = f"{each.handled / each.of:.0%}" if is_followed else "-"
        begun = output.readable(from_ms(each.note.begun_ms))
        cells = [each.name, each.note.service, begun, each.note.code_version, done, _status(each), each.note.why]
        shown.add_row(*map(Text, map(output.printable, cells)))
    console.print(shown)


def _status(known: KnownRerun) -> str:
    if not known.switched:
        return "beside its service"
    return (
        "its service's states" if known.switched == known.tasks else f"switched {known.switched} of {known.tasks} tasks"
    )


def drop_rerun(place: LogOptions, service: str, name: str, *, as_json: bool) -> None:
    """Throw a rerun away."""

    async def dropped(log: EventLog) -> None:
        await described(log, log.choreography.service(service), name)
        await drop(log, log.choreography.service(service), name)

    look(place, dropped)
    if as_json:
        output.print_json([{"service": service, "rerun": name, "dropped": True}])
    else:
        print(f"{name} is gone, with all that it had said.")
