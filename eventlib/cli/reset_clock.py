"""`eventlib reset-clock`: brings tasks back whose time a wrong clock has set ahead."""

from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.act_command import AsPreviewedOption, DryRunOption
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import ReasonOption, YesOption, agree, signed_reason
from eventlib.eventlog import EventLog
from eventlib.operations.clock_reset import (
    ClockPlan,
    ClockPreview,
    outcome_json,
    preview_clock_reset,
    preview_json,
    reset_as_previewed,
)
from eventlib.values import from_ms

_SHOWN = 20


def reset_clock(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="The service's name.")],
    reason: ReasonOption = "",
    partition: Annotated[
        int | None,
        typer.Option("--partition", metavar="N", help="Reset this task only.", min=0, show_default=False),
    ] = None,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Bring tasks back whose time a wrong clock has set ahead.

    A record from the future, taken up by a release without a bound, dates all
    that its task does later. From the reset on it is dated by the clock again,
    in the same order; the service may run or not. Begin upstream, and reset the
    other tasks that are named too: what they emit is parked as dated ahead.
    Deadlines that follow from states of that time stay as they are, and are
    listed with when they fall due.

    [dim]Examples:[/dim]
      eventlib reset-clock payment --dry-run
      eventlib reset-clock payment --reason "the gateway's clock was ahead"
    """
    log_options, why = LogOptions.deciding(context, app, log), "" if dry_run else signed_reason(reason)

    async def previewed(opened: EventLog) -> ClockPreview:
        return await preview_clock_reset(opened, opened.choreography.service(service), partition)

    async def done(opened: EventLog) -> list[ClockPlan]:
        of = opened.choreography.service(service)
        return await reset_as_previewed(opened, of, partition, as_previewed, why)

    if dry_run or not as_json:
        preview = run_on_log(log_options, previewed)
        if as_json:
            output.print_json([preview_json(preview)])
            return
        _print(preview)
        if dry_run:
            print(f"Nothing was written. To act only if this still holds: --as-previewed {preview.token}")
            return
    agree(f"Reset the clock of these tasks of {service}?", yes=yes)
    reset = run_on_log(log_options, done)
    if as_json:
        output.print_json([outcome_json(reset, why)])
    else:
        print(
            f"Done, and recorded: {counted(len(reset), 'task')} of {service} {'go' if len(reset) != 1 else 'goes'} on now."
        )


def _print(preview: ClockPreview) -> None:
    for plan in preview.plans:
        print(
            f"{plan.service}/{plan.partition} is at {_at(plan.last_ms)}, ahead since {_at(plan.first_ms)}: "
            f"{counted(plan.transactions, 'transaction')}; it would go on now."
        )
        for late in plan.late[:_SHOWN]:
            print(f"  {late.decider} {output.printable(late.key)}: {late.name} stays due at {_at(late.due_ms)}")
        if len(plan.late) > _SHOWN:
            print(f"  and {len(plan.late) - _SHOWN:,} deadlines more")
    for name, at_ms in preview.infected:
        print(f"{name} is ahead too, at {_at(at_ms)}: until it is reset, what it emits is parked where it is read.")


def _at(at_ms: int) -> str:
    return f"{from_ms(at_ms):%Y-%m-%d %H:%M:%S} UTC"
