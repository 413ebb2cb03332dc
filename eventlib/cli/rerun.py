"""`eventlib rerun`: reprocesses a service's history in a shadow, and shows what differs."""

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

from eventlib.cli._common import output
from eventlib.cli._common.act_command import Asked, ByOption, asking
from eventlib.cli._common.names import ServiceArgument
from eventlib.cli._common.options import JsonOption, LogOptions, argument, flag, option, run_on_log
from eventlib.cli._common.prompts import ReasonOption
from eventlib.cli._common.reruns_here import Effects, EffectsOption, RerunsHere, print_difference, print_switched
from eventlib.cli._common.typer_ext import group
from eventlib.operations.reprocessing.listing import KnownRerun, reruns
from eventlib.operations.rerun_acts import Drop, DropOutcome, Rerun, RerunOutcome, Switch
from eventlib.values import from_ms

rerun = group("Reprocess a service's history in a shadow, and show what differs.")

NameArgument = Annotated[str, argument("NAME", "The rerun's name.")]
LimitOption = Annotated[int, option("--limit", "N", "How many differences are shown in full.")]


@rerun.command()
def begin(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    service: ServiceArgument,
    name: NameArgument,
    until: Annotated[str | None, option("--until", "TIME", "Only the service's inputs up to a time (UTC).")] = None,
    since: Annotated[str | None, option("--since", "TIME", "Decide again only from a time (UTC) on.")] = None,
    follow: Annotated[bool, flag("--follow -f", "Follow the service until Ctrl-C.")] = False,
    limit: LimitOption = 10,
    reason: ReasonOption = "",
    by: ByOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reprocess a service's history under a name, and show what differs.

    Inputs are handled by today's code, in the order in which the service handled
    them; effects give their recorded answers, and no external system is called.
    What the rerun emits goes to its own topics. The service is not affected, and
    an interrupted rerun continues when it is run again.

    [dim]Examples:[/dim]
      eventlib rerun begin payment payment-2
      eventlib rerun begin payment payment-2 --follow
    """
    asked = Asked(log_options, reason, by, dry_run=False, as_previewed="", as_json=as_json)
    about = {"service": service, "name": name, "since": since, "until": until}
    here = partial(RerunsHere, asked, limit, follow=follow)
    asked.carry_out(Rerun, about, partial(_print_rerun, limit), reruns=here, personal=True)


@rerun.command()
@asking(may_ask=True)
def switch(
    asked: Asked,
    service: ServiceArgument,
    name: NameArgument,
    effects: EffectsOption = Effects.RECORDED,
    limit: LimitOption = 10,
) -> None:
    """Make a rerun's states the service's, recorded with the reason.

    In one transaction per task. Events that only the rerun has emitted are
    emitted then; events that only the service has emitted cannot be taken back.

    [dim]Examples:[/dim]
      eventlib rerun switch payment payment-2 --dry-run
      eventlib rerun switch payment payment-2 --reason "refunds were forgotten"
    """
    about = {"service": service, "name": name, "run_effects": effects is Effects.RUN}
    asked.carry_out(Switch, about, print_switched, reruns=partial(RerunsHere, asked, limit), personal=True)


@rerun.command()
@asking()
def drop(asked: Asked, service: ServiceArgument, name: NameArgument) -> None:
    """Delete a rerun, with all its outputs.

    [dim]Examples:[/dim]
      eventlib rerun drop payment payment-2 --dry-run
    """
    here = partial(RerunsHere, asked, 0)
    asked.carry_out(Drop, {"service": service, "name": name}, _print_drop, reruns=here, personal=True)


def _print_rerun(limit: int, done: RerunOutcome) -> None:
    service, name, found = done.job.service, done.job.name, done.job.difference
    assert found is not None  # noqa: S101  this kind of job compares
    print_difference(service, name, found, limit)
    print()
    if not done.job.is_open:
        print(f"{service} has taken over the states of {name}: they are no longer compared.")
        return
    print(f"Make it the service's: eventlib rerun switch {service} {name} --reason TEXT")
    print(f"Delete it:              eventlib rerun drop {service} {name}")


@rerun.command("list")
def list_(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List the reruns on the log.

    [dim]Examples:[/dim]
      eventlib rerun list
    """
    found = run_on_log(replace(log_options, personal=True), reruns)
    if as_json:
        output.print_json({**asdict(each), "status": _status(each)} for each in found)
        return
    if not found:
        output.say("There is no rerun on this log.")
        return
    rows = list[output.Row]()
    for each in found:
        is_followed = each.of and each.switched < each.tasks
        done = f"{each.handled / each.of:.0%}" if is_followed else "-"
        begun = output.readable(from_ms(each.note.begun_ms))
        rows.append((each.name, each.note.service, begun, each.note.code_version, done, _status(each), each.note.why))
    output.print_table(
        ["rerun", "of", "begun (UTC)", "code", "done", "status", "why"], rows, whole=["begun (UTC)"], spare=["code"]
    )


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
