"""`eventlib rerun`: reprocesses a service's history in a shadow, and shows what differs."""

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.act_command import Asked, asking
from eventlib.cli._common.options import LogOptions, argument, flag, option, run_on_log
from eventlib.cli._common.rerun_report import print_difference
from eventlib.cli._common.reruns_here import Effects, EffectsOption, RerunsHere, print_switched
from eventlib.operations.reprocessing.listing import KnownRerun, reruns
from eventlib.operations.rerun_acts import Drop, DropOutcome, Rerun, RerunOutcome, Switch
from eventlib.values import from_ms


@asking(may_ask=True)
def rerun(  # noqa: PLR0913, PLR0917  one argument for each option
    asked: Asked,
    service: Annotated[str | None, argument("SERVICE", "The service's name.")] = None,
    into: Annotated[str | None, option("--into", "NAME", "Reprocess under this name.")] = None,
    switch: Annotated[str | None, option("--switch", "NAME", "Make a rerun's states the service's.")] = None,
    drop: Annotated[str | None, option("--drop", "NAME", "Delete a rerun.")] = None,
    list_: Annotated[bool, flag("--list", "List the reruns on the log.")] = False,
    until: Annotated[str | None, option("--until", "TIME", "Only the service's inputs up to a time (UTC).")] = None,
    since: Annotated[str | None, option("--since", "TIME", "Decide again only from a time (UTC) on.")] = None,
    follow: Annotated[bool, flag("--follow -f", "Follow the service until Ctrl-C.")] = False,
    effects: EffectsOption = Effects.RECORDED,
    limit: Annotated[int, option("--limit", "N", "How many differences are shown in full.")] = 10,
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
    if sum([into is not None, switch is not None, drop is not None, list_]) != 1:
        raise typer.BadParameter("give one of them", param_hint="--into / --switch / --drop / --list")
    if list_:
        print_reruns(replace(asked.log_options, personal=True), as_json=asked.as_json)
        return
    if service is None:
        raise typer.BadParameter("name a service", param_hint="SERVICE")
    about: dict[str, object] = {"service": service, "name": into or switch or drop}
    here = partial(RerunsHere, asked, limit, follow=follow)
    if into is not None:
        if asked.dry_run or asked.as_previewed:
            raise typer.BadParameter("they need --switch or --drop", param_hint="--dry-run / --as-previewed")
        times = {"since": since, "until": until}
        asked.carry_out(Rerun, {**about, **times}, partial(_print_rerun, limit), reruns=here, personal=True)
    elif switch is not None:
        about["run_effects"] = effects is Effects.RUN
        asked.carry_out(Switch, about, print_switched, reruns=here, personal=True)
    else:
        asked.carry_out(Drop, about, _print_drop, reruns=here, personal=True)


def _print_rerun(limit: int, done: RerunOutcome) -> None:
    service, name, found = done.job.service, done.job.name, done.job.difference
    assert found is not None  # noqa: S101  this kind of job compares
    print_difference(service, name, found, limit)
    print()
    if not done.job.is_open:
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
    rows = list[output.Row]()
    for each in found:
        is_followed = each.of and each.switched < each.tasks
        done = f"{each.handled / each.of:.0%}" if is_followed else "-"
        begun = output.readable(from_ms(each.note.begun_ms))
        rows.append((each.name, each.note.service, begun, each.note.code_version, done, _status(each), each.note.why))
    output.print_table(["rerun", "of", "begun (UTC)", "code", "done", "status", "why"], rows, whole=["begun (UTC)"])


def _status(known: KnownRerun) -> str:
    if not known.switched:
        return "beside its service"
    return (
        "its service's states" if known.switched == known.tasks else f"switched {known.switched} of {known.tasks} tasks"
    )


def _print_drop(done: DropOutcome) -> None:
    if not done.token:
        print(f"{done.name} is deleted, with all that it had emitted.")
        return
    topics, records = done.topics, sum(done.topics.values())
    print(f"Nothing was deleted. {len(topics)} topics of {done.name} would be, with up to {records:,} records:")
    for topic, records in topics.items():
        print(f"  {topic}  {records:,}")
