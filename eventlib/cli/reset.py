"""`eventlib reset`: moves a service's offsets on purpose, or skips one input."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.act_command import AsPreviewedOption, DryRunOption
from eventlib.cli._common.cutover import Consent, Effects, EffectsOption, print_way_back
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import ReasonOption, YesOption, agree, signed_reason
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import event_json
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.seek import SeekPlan, accept_losses, move, reset_plans, reset_target, token_of_plans
from eventlib.operations.skip import SkippedNow, SkipPreview, preview_skip, skip
from eventlib.queries.task_clock import positions_of
from eventlib.values import to_ms


def reset(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="The service's name.")],
    reason: ReasonOption = "",
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
        typer.Option("--skip", metavar="EVENT_ID", help="Skip this one input.", show_default=False),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Move only in this topic; may be repeated.", show_default=False),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", metavar="", help="Accept that inputs were gone before they were read.")
    ] = False,
    effects: EffectsOption = Effects.RECORDED,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Move a service's offsets on purpose, or make it skip one input.

    The service may run or not: the change is made at once, in one transaction
    per task, and recorded with the reason.

    Forwards, the skipped inputs are never handled. Backwards, today's code
    handles again what the service has handled since, in the same order, and
    emits nothing twice. It is a rerun that is switched at once; see
    `eventlib rerun --help`. --skip leaves out one input that is not handled yet
    or is parked; the inputs that wait behind it are then handled.
    --accept-loss ends the complaint of `eventlib status` about inputs that were
    gone before the service read them.

    [dim]Examples:[/dim]
      eventlib reset payment --to latest --dry-run
      eventlib reset payment --to latest --reason "replayed by hand"
      eventlib reset payment --to earliest --reason "refunds were forgotten"
      eventlib reset stock --skip 3f2a… --reason "order 536365 was a test"
    """
    log_options, why = LogOptions.deciding(context, app, log), "" if dry_run else signed_reason(reason)
    consent = Consent(why, effects is Effects.RUN, yes, dry_run, as_previewed)
    if sum((to is not None, skip is not None, accept_loss)) != 1:
        raise typer.BadParameter("give one of the three", param_hint="--to / --skip / --accept-loss")
    if accept_loss and (topic or as_previewed):
        raise typer.BadParameter("it takes neither --topic nor --as-previewed", param_hint="--accept-loss")
    if accept_loss:
        print_accepted(log_options, service, consent, as_json=as_json)
    elif skip is not None:
        if topic:
            raise typer.BadParameter("it needs --to, not --skip", param_hint="--topic")
        print_skip(log_options, service, skip, consent, as_json=as_json)
    elif to is not None:
        print_reset(log_options, service, (to, topic or []), consent, as_json=as_json)


def print_accepted(log_options: LogOptions, name: str, consent: Consent, *, as_json: bool) -> None:
    """Accept what a service has lost of its inputs, and print it. Raises: ContractError when that is nothing."""

    async def accept(log: EventLog) -> list[str]:
        service = log.choreography.service(name)
        if consent.dry_run:
            found = [await positions_of(log, service, partition) for partition in range(service.partitions)]
            return [what for positions in found for what in positions.lost.values()]
        return await accept_losses(log, service, consent.why)

    lost = run_on_log(log_options, accept)
    if not lost:
        raise ContractError(f"{name} has lost no inputs that are not accepted yet: nothing was changed")
    if as_json:
        output.print_json([{"service": name, "lost": what, "accepted": not consent.dry_run} for what in lost])
        return
    for what in lost:
        print(f"{'would accept' if consent.dry_run else 'accepted'}: {output.printable(what)}")


_MOST_KEYS = 8


_MOST_SHOWN = 10


def print_reset(
    log_options: LogOptions, service_name: str, where: tuple[str, Sequence[str]], consent: Consent, *, as_json: bool
) -> None:
    """Move a service's offsets to a place, in some topics or in all, after printing the consequences."""
    start, topics = reset_target(where[0]), where[1]

    async def planned(log: EventLog) -> list[SeekPlan] | None:
        return await reset_plans(log, log.choreography.service(service_name), start, topics)

    plan = run_on_log(log_options, planned)
    if plan is None:
        since_ms = to_ms(start) if isinstance(start, datetime) else 0
        print_way_back(log_options, service_name, since_ms, consent, limit=_MOST_SHOWN, as_json=as_json)
        return
    refuse_moved(consent.as_previewed, token_of_plans(plan))
    if consent.dry_run or not plan:
        _print_passages(service_name, plan, consent, as_json=as_json, is_done=False)
        return
    if not as_json:
        _print_passages(service_name, plan, consent, as_json=False, is_done=False)
    agree(f"Skip these inputs in {service_name} permanently?", yes=consent.yes)
    done = run_on_log(log_options, lambda log: move(log, log.choreography.service(service_name), plan, consent.why))
    if as_json:
        _print_passages(service_name, done, consent, as_json=True, is_done=True)
    else:
        print(f"Done, and recorded: {counted(sum(each.inputs for each in done), 'input')} skipped.")


def _print_passages(service: str, plan: list[SeekPlan], consent: Consent, *, as_json: bool, is_done: bool) -> None:
    if as_json:
        shared = {"done": is_done, "why": consent.why}
        shared |= {} if is_done else {"as_previewed": token_of_plans(plan)}
        output.print_json({"service": service, **asdict(each), **shared} for each in plan)
        return
    console = output.terminal()
    if not plan:
        console.print(f"Nothing to do: {service} is there already.")
        return
    shown = output.table("topic", "task", "from", "to", "inputs", "keys", right=["task", "from", "to", "inputs"])
    for each in plan:
        cells = (each.topic, str(each.partition), f"{each.first:,}", f"{each.to:,}", f"{each.inputs:,}", _keys(each))
        shown.add_row(*map(Text, cells))
    console.print(shown)
    total, keys = sum(each.inputs for each in plan), {key for each in plan for key in each.keys}
    console.print(f"{service} would skip {counted(total, 'input')} of {counted(len(keys), 'key')}.")
    if consent.dry_run:
        console.print(f"Nothing was written. To act only if this still holds: --as-previewed {token_of_plans(plan)}")


def _keys(passage: SeekPlan) -> str:
    named = [key if count == 1 else f"{key} ({count:,})" for key, count in sorted(passage.keys.items())]
    more = len(named) - _MOST_KEYS
    return ", ".join(map(output.printable, named[:_MOST_KEYS])) + (f" and {more:,} more" if more > 0 else "")


def print_skip(log_options: LogOptions, service_name: str, event_id: str, consent: Consent, *, as_json: bool) -> None:
    """Make a service skip one input, or print what would come of it."""

    async def skipped(log: EventLog) -> tuple[SkippedNow, SkipPreview | None]:
        service, preview = log.choreography.service(service_name), None
        if consent.dry_run or consent.as_previewed:
            preview = await preview_skip(log, service, event_id)
            refuse_moved(consent.as_previewed, preview.token)
        if preview is not None and consent.dry_run:
            return preview.skipped, preview
        return await skip(log, service, event_id, consent.why), None

    done, preview = run_on_log(log_options, skipped)
    if as_json:
        line = {**asdict(done), "why": consent.why, "done": preview is None}
        if preview is not None:
            line |= {"emitted": [event_json(each) for each in preview.emitted], "as_previewed": preview.token}
        output.print_json([line])
        return
    where, skips = f"{done.topic}/{done.partition}/{done.offset}", "skips" if preview is None else "would skip"
    print(f"{done.service} {skips} {done.type or 'the record'} of {output.printable(done.key)} ({where}).")
    print(_follows(done, is_done=preview is None))
    if preview is not None:
        types = Counter(type(each).__name__ for each in preview.emitted)
        for name, count in types.items():
            print(f"  {count:,} {name} would be emitted")
        print(f"Nothing was written. To act only if this still holds: --as-previewed {preview.token}")


def _follows(done: SkippedNow, *, is_done: bool) -> str:
    were = "were" if is_done else "would be"
    if not done.was_parked:
        return "It passes over it when it gets there."
    if done.parked_again:
        waits = "failed, and waits" if is_done else "would fail, and wait"
        return f"{done.released:,} inputs behind it {were} handled; the next one {waits}: eventlib parked list"
    blocks = "blocks" if is_done else "would block"
    return f"Nothing {blocks} its key any more: {done.released:,} waiting inputs {were} handled."
