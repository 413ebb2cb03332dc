"""`eventlib reset`: moves a service's offsets on purpose, or skips one input."""

from collections import Counter
from functools import partial
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.act_command import Asked, asking
from eventlib.cli._common.names import ServiceArgument
from eventlib.cli._common.options import flag, option
from eventlib.cli._common.output import counted
from eventlib.cli._common.reruns_here import Effects, EffectsOption, RerunsHere, print_switched
from eventlib.operations.rerun_acts import RerunOutcome
from eventlib.operations.reset_acts import AcceptLoss, LossOutcome, Reset, SeekOutcome
from eventlib.operations.seek import SeekPlan
from eventlib.operations.skip import Skip, SkipOutcome, SkippedNow

_MOST_KEYS = 8
_MOST_SHOWN = 10


@asking(may_ask=True)
def reset(  # noqa: PLR0913, PLR0917  one argument for each option
    asked: Asked,
    service: ServiceArgument,
    to: Annotated[
        str | None, option("--to", "WHERE", "earliest, latest, or a time (UTC) such as 2026-01-31T12:00:00Z.")
    ] = None,
    skip: Annotated[str | None, option("--skip", "EVENT_ID", "Skip this one input.")] = None,
    topic: Annotated[list[str] | None, option("--topic", "TOPIC", "Move only in this topic; may be repeated.")] = None,
    accept_loss: Annotated[bool, flag("--accept-loss", "Accept that inputs were gone before they were read.")] = False,
    effects: EffectsOption = Effects.RECORDED,
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
    if sum((to is not None, skip is not None, accept_loss)) != 1:
        raise typer.BadParameter("give one of the three", param_hint="--to / --skip / --accept-loss")
    if topic and to is None:
        raise typer.BadParameter("it needs --to", param_hint="--topic")
    if accept_loss:
        asked.carry_out(AcceptLoss, {"service": service}, _print_losses)
    elif skip is not None:
        asked.carry_out(Skip, {"service": service, "event_id": skip}, _print_skip)
    else:
        fields = {"service": service, "to": to, "topics": topic or [], "run_effects": effects is Effects.RUN}
        question = f"Skip these inputs in {service} permanently?"
        asked.carry_out(Reset, fields, _print_reset, question, partial(RerunsHere, asked, _MOST_SHOWN))


def _print_losses(done: LossOutcome) -> None:
    for what in done.lost:
        print(f"{'would accept' if done.token else 'accepted'}: {output.printable(what)}")


def _print_reset(done: SeekOutcome | RerunOutcome) -> None:
    if isinstance(done, RerunOutcome):
        print_switched(done)
        return
    if not done.plans:
        output.say(f"Nothing to do: {done.service} is there already.")
    elif done.token:
        rows = [(each.topic, each.partition, each.first, each.to, each.inputs, _keys(each)) for each in done.plans]
        output.print_table(["topic", "task", "from", "to", "inputs", "keys"], rows)
        output.say(f"{done.service} would skip {counted(done.inputs, 'input')} of {counted(len(done.keys), 'key')}.")
    else:
        print(f"Done, and recorded: {counted(done.inputs, 'input')} skipped.")


def _keys(passage: SeekPlan) -> str:
    named = [key if count == 1 else f"{key} ({count:,})" for key, count in sorted(passage.keys.items())]
    more = len(named) - _MOST_KEYS
    return ", ".join(named[:_MOST_KEYS]) + (f" and {more:,} more" if more > 0 else "")


def _print_skip(outcome: SkipOutcome) -> None:
    done, is_done = outcome.skipped, not outcome.token
    where, skips = f"{done.topic}/{done.partition}/{done.offset}", "skips" if is_done else "would skip"
    print(f"{done.service} {skips} {done.type or 'the record'} of {output.printable(done.key)} ({where}).")
    print(_follows(done, is_done=is_done))
    types = Counter(type(each).__name__ for each in outcome.emitted)
    for name, count in types.items():
        print(f"  {count:,} {name} would be emitted")


def _follows(done: SkippedNow, *, is_done: bool) -> str:
    were = "were" if is_done else "would be"
    if not done.was_parked:
        return "It passes over it when it gets there."
    if done.parked_again:
        waits = "failed, and waits" if is_done else "would fail, and wait"
        return f"{done.released:,} inputs behind it {were} handled; the next one {waits}: eventlib parked list"
    blocks = "blocks" if is_done else "would block"
    return f"Nothing {blocks} its key any more: {done.released:,} waiting inputs {were} handled."
