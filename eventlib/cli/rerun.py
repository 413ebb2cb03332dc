"""`eventlib rerun`: reprocesses a service's history in a shadow, and shows what differs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.act_command import AsPreviewedOption, DryRunOption
from eventlib.cli._common.cutover import Consent, Effects, EffectsOption, print_switch
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.prompts import ReasonOption, YesOption, actor, signed_reason
from eventlib.cli._common.rerun_report import print_difference
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import difference_json
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.reprocessing.comparison import (
    Difference,
    difference,
)
from eventlib.operations.reprocessing.dropping import drop, droppable, token_of_drop
from eventlib.operations.reprocessing.listing import KnownRerun, reruns
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.state.open import open_stores
from eventlib.values import from_ms


def rerun(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[
        str | None, typer.Argument(metavar="SERVICE", help="The service's name.", show_default=False)
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NAME", help="Reprocess under this name.", show_default=False)
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option("--switch", metavar="NAME", help="Make a rerun's states the service's.", show_default=False),
    ] = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="NAME", help="Delete a rerun.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the reruns on the log.")] = False,
    reason: ReasonOption = "",
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Only the service's inputs up to a time (UTC).", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Decide again only from a time (UTC) on.", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Follow the service until Ctrl-C.")
    ] = False,
    effects: EffectsOption = Effects.RECORDED,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    yes: YesOption = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="How many differences are shown in full.")] = 10,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Reprocess a service's history in a shadow, and show what differs.

    Inputs are handled by today's code, in the order in which the service handled
    them; effects give their recorded answers, and no external system is called.
    What the rerun emits goes to its own topics. The service is not affected, and
    an interrupted rerun continues when it is run again.

    --switch makes its states the service's, in one transaction per task,
    recorded with the reason. Events that only the rerun has emitted are emitted
    then; events that only the service has emitted cannot be taken back.

    [dim]Examples:[/dim]
      eventlib rerun payment --into payment-2
      eventlib rerun payment --switch payment-2 --dry-run
      eventlib rerun payment --switch payment-2 --reason "refunds were forgotten"
      eventlib rerun payment --drop payment-2 --dry-run
      eventlib rerun --list
    """
    log_options = LogOptions.of(context, app, log, personal=True)
    if sum([into is not None, switch is not None, drop is not None, list_]) != 1:
        raise typer.BadParameter("give one of them", param_hint="--into / --switch / --drop / --list")
    if list_:
        print_reruns(log_options, as_json=as_json)
        return
    if service is None:
        raise typer.BadParameter("name a service", param_hint="SERVICE")
    if into is not None and (dry_run or as_previewed):
        raise typer.BadParameter("they need --switch or --drop", param_hint="--dry-run / --as-previewed")
    if into is not None:
        wanted = RerunSpec.of(f"{actor()}: {reason}".removesuffix(": "), since, until, follow=follow)
        print_rerun(log_options, service, into, wanted, limit=limit, as_json=as_json)
    elif switch is not None:
        why = "" if dry_run else signed_reason(reason)
        consent = Consent(why, effects is Effects.RUN, yes, dry_run, as_previewed)
        print_switch(log_options, service, switch, consent, limit=limit, as_json=as_json)
    elif drop is not None:
        drop_rerun(log_options, service, drop, Consent("", False, yes, dry_run, as_previewed), as_json=as_json)


def print_rerun(
    log_options: LogOptions, service: str, name: str, wanted: RerunSpec, *, limit: int, as_json: bool
) -> None:
    """Reprocess a service's history under a name, or continue that, and print what differs."""
    stores = open_stores(log_options.url, runtime_config().state_dir)
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
            found, is_open = run_on_log(log_options, run)
        finally:
            stores.close()
    if as_json:
        output.print_json(difference_json(service, name, found))
        return
    print_difference(service, name, found, limit)
    print()
    if not is_open:
        print(f"{service} has taken over the states of {name}: they are no longer compared.")
        return
    print(f"Make it the service's: eventlib rerun {service} --switch {name} --reason TEXT")
    print(f"Delete it:              eventlib rerun {service} --drop {name}")


def print_reruns(log_options: LogOptions, *, as_json: bool) -> None:
    """Print a line for each rerun on the log."""
    found = run_on_log(log_options, reruns)
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


def drop_rerun(log_options: LogOptions, service: str, name: str, consent: Consent, *, as_json: bool) -> None:
    """Delete a rerun; a dry run prints what that would delete."""

    async def dropped(log: EventLog) -> Mapping[str, int]:
        of = log.choreography.service(service)
        topics = await droppable(log, of, name)
        refuse_moved(consent.as_previewed, token_of_drop(name, topics))
        if not consent.dry_run:
            await drop(log, of, name)
        return topics

    topics = run_on_log(log_options, dropped)
    if as_json:
        line = {"service": service, "rerun": name, "dropped": not consent.dry_run, "topics": topics}
        output.print_json([line | ({"as_previewed": token_of_drop(name, topics)} if consent.dry_run else {})])
    elif consent.dry_run:
        print(
            f"Nothing was deleted. {len(topics)} topics of {name} would be, with up to {sum(topics.values()):,} records:"
        )
        for topic, records in topics.items():
            print(f"  {topic}  {records:,}")
        print(f"Delete just this: eventlib rerun {service} --drop {name} --as-previewed {token_of_drop(name, topics)}")
    else:
        print(f"{name} is deleted, with all that it had emitted.")
