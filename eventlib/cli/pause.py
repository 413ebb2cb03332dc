"""`eventlib pause` and `eventlib resume`: hold something back for a while, and let it go on."""

from dataclasses import asdict
from typing import Annotated, Literal, NamedTuple

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.output import counted
from eventlib.cli._common.previews import AsPreviewedOption, print_table
from eventlib.cli._common.prompts import ReasonOption, actor
from eventlib.eventlog import EventLog
from eventlib.operations import pausing
from eventlib.operations.as_json import paused_json, preview_json
from eventlib.operations.pause_preview import PausePreview, preview_pause, refuse_changed
from eventlib.operations.pausing import Numbers, WhatWaits
from eventlib.queries.pauses import Paused, PauseTarget

ServiceArgument = Annotated[str, typer.Argument(metavar="SERVICE", help="The service's name.")]
DeciderOption = Annotated[
    str | None,
    typer.Option("--decider", metavar="DECIDER", help="One decider of it, or the one of --key.", show_default=False),
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="One key of it.", show_default=False)]
EffectOption = Annotated[
    str | None,
    typer.Option(
        "--effect", metavar="REQUEST", help="One kind of effect: the type of its requests.", show_default=False
    ),
]
LimitOption = Annotated[
    str | None,
    typer.Option("--limit", metavar="NAME", help="A limit of its effects, by its port or request.", show_default=False),
]
PerSecondOption = Annotated[
    float, typer.Option("--per-second", metavar="N", min=0, help="With --limit: attempts a second.", show_default=False)
]
BurstOption = Annotated[
    int, typer.Option("--burst", metavar="N", min=0, help="With --limit: attempts at once.", show_default=False)
]
ConcurrentOption = Annotated[
    int,
    typer.Option("--concurrent", metavar="N", min=0, help="With --limit: attempts that are out.", show_default=False),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Only print what waits, and what a key's inputs would come to.")
]
WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the running tasks.")
]


def pause(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: ServiceArgument,
    reason: ReasonOption = "",
    decider: DeciderOption = None,
    key: KeyOption = None,
    effect: EffectOption = None,
    limit: LimitOption = None,
    per_second: PerSecondOption = 0,
    burst: BurstOption = 0,
    concurrent: ConcurrentOption = 0,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    wait: WaitOption = 2.0,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Hold back a service, a decider, a kind of effect or a key, until resumed.

    It holds for all processes of the service, through restarts and takeovers.
    Nothing is lost: inputs stay unread, or wait in order; requests of effects
    stay unanswered and use up no attempt; deadlines pass after `resume`, behind
    the inputs that waited. What is under way ends. `eventlib status` shows what
    is paused.

    A paused decider's topics are not read; other deciders of the service that
    read them wait too: --dry-run names them.

    A limit of effects is not stopped, but has other numbers until resumed.

    [dim]Examples:[/dim]
      eventlib pause payment --reason "the bank migrates tonight"
      eventlib pause payment --effect ChargeRequested --reason "double charges"
      eventlib pause order --key 536365 --reason "the customer calls back"
      eventlib pause payment --limit gateway --per-second 20 --reason "their wish"
      eventlib pause stock --decider shelf --reason "stocktaking" --dry-run
    """
    names = {"decider": decider, "key": key, "effect": effect, "limit": limit}
    numbers = Numbers(per_second, burst, concurrent)
    if limit is None and any(numbers):
        raise typer.BadParameter("name a limit, with --limit", param_hint="--per-second, --burst, --concurrent")
    wanted = _Wanted("pause", reason, dry_run, as_previewed, wait, numbers)
    _run(LogOptions.of(context, app, log), service, names, wanted, as_json=as_json)


def resume(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: ServiceArgument,
    reason: ReasonOption = "",
    decider: DeciderOption = None,
    key: KeyOption = None,
    effect: EffectOption = None,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    wait: WaitOption = 2.0,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Let go on what was paused under the same names.

    What waited is handled in its order: inputs first, then the deadlines that
    fell due meanwhile and still stand, and effects, with all their attempts again.

    [dim]Examples:[/dim]
      eventlib resume payment
      eventlib resume payment --effect ChargeRequested --reason "fixed in 2.4"
      eventlib resume order --key 536365 --dry-run
    """
    names = {"decider": decider, "key": key, "effect": effect, "limit": limit}
    log_options = (
        LogOptions.deciding(context, app, log) if dry_run or as_previewed else LogOptions.of(context, app, log)
    )
    _run(log_options, service, names, _Wanted("resume", reason, dry_run, as_previewed, wait), as_json=as_json)


class _Wanted(NamedTuple):
    act: Literal["pause", "resume"]
    reason: str
    dry_run: bool
    as_previewed: str
    wait_s: float
    numbers: Numbers = Numbers()


def _run(
    log_options: LogOptions, service: str, names: dict[str, str | None], wanted: _Wanted, *, as_json: bool
) -> None:
    if wanted.act == "pause" and not wanted.dry_run and not wanted.reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    by = "" if wanted.dry_run else actor()

    async def done(log: EventLog) -> tuple[PauseTarget, Paused | None, PausePreview]:
        target = PauseTarget.of(log, service, **names)
        if wanted.dry_run:
            seen = await preview_pause(log, target, wanted.act, wanted.numbers)
            return target, await pausing.paused(log, target), seen
        await refuse_changed(log, target, wanted.act, wanted.as_previewed, wanted.numbers)
        waits = await pausing.what_waits(log, target)
        if wanted.act == "pause":
            await pausing.pause(log, target, by, wanted.reason, wanted.numbers)
        else:
            await pausing.resume(log, target, by, wanted.reason)
        return target, await pausing.settled(log, target, wanted.wait_s), PausePreview(waits)

    target, paused, seen = run_on_log(log_options, done)
    if as_json:
        about = {**target._asdict(), "kind": target.kind}
        output.print_json(
            [
                {
                    **about,
                    "act": wanted.act,
                    "done": not wanted.dry_run,
                    "waits": asdict(seen.waits),
                    "released": None if seen.released is None else preview_json(seen.released),
                    "paused": None if paused is None else paused_json(paused),
                    **({"as_previewed": seen.token} if wanted.dry_run else {}),
                }
            ]
        )
        return
    for line in _lines(target, paused, seen.waits, wanted):
        print(output.printable(line))
    if seen.released is not None:
        print_table([seen.released])
    if wanted.dry_run:
        print(f"Only while that is so: the same command with --as-previewed {seen.token} instead of --dry-run.")


def _lines(target: PauseTarget, paused: Paused | None, waits: WhatWaits, wanted: _Wanted) -> list[str]:
    counts = waiting_text(waits)
    if wanted.dry_run:
        will = "wait" if wanted.act == "pause" else "go on"
        lines = [f"{target}: {counts} would {will} now."]
    elif wanted.act == "pause" and target.limit:
        lines = [f"{target} is set: {counts} wait. `eventlib resume` with the same names ends that."]
    elif wanted.act == "pause":
        lines = [f"{target} is paused: {counts} wait. `eventlib resume` with the same names lets it go on."]
    else:
        lines = [f"{target} goes on: {counts} waited."]
    if waits.others:
        deciders, topics = ", ".join(waits.others), ", ".join(waits.topics)
        lines.append(f"Not read meanwhile: {topics}. So {deciders} of {target.service} waits for these inputs too.")
    if paused is not None and paused.asked and not wanted.dry_run:
        tasks = f"{counted(paused.asked, 'task')} of {target.service}"
        lines.append(
            f"To be taken up by {tasks}, as soon as it runs."
            if paused.asked == 1
            else f"To be taken up by {tasks}, as soon as they run."
        )
    return lines


def waiting_text(waits: WhatWaits) -> str:
    """Return what waits as text for people."""
    inputs = f"{counted(waits.inputs, 'input')}{' or more' if waits.at_least else ''}"
    return f"{inputs} and {counted(waits.effects, 'effect')}"
