"""`eventlib pause` and `eventlib resume`: hold something back for a while, and let it go on."""

from eventlib.cli._common.act_command import act_command
from eventlib.cli._common.output import counted, printable
from eventlib.cli.parked_acts import print_previews
from eventlib.operations.pause_acts import Pause, PauseOutcome, Resume
from eventlib.operations.pausing import WhatWaits

_WAIT_S = 2.0


@act_command(Pause, _WAIT_S)
def pause(done: PauseOutcome) -> None:
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
    _print(done)


@act_command(Resume, _WAIT_S)
def resume(done: PauseOutcome) -> None:
    """Resume what was paused under the same names.

    What waited is handled in its order: inputs first, then the deadlines that
    fell due meanwhile and still stand, and effects, with all their attempts again.

    [dim]Examples:[/dim]
      eventlib resume payment
      eventlib resume payment --effect ChargeRequested --reason "fixed in 2.4"
      eventlib resume order --key 536365 --dry-run
    """
    _print(done)


def _print(done: PauseOutcome) -> None:
    target, waits, tasks = done.target, done.waits, 0 if done.paused is None else done.paused.asked
    counts = waiting_text(waits)
    if done.token:
        print(printable(f"{target}: {counts} would {'wait' if done.act == 'pause' else 'go on'} now."))
    elif done.act == "resume":
        print(printable(f"{target} goes on: {counts} waited."))
    else:
        is_set, goes_on = ("set", "ends that") if target.limit else ("paused", "lets it go on")
        print(printable(f"{target} is {is_set}: {counts} wait. `eventlib resume` with the same names {goes_on}."))
    if waits.others:
        deciders, topics = ", ".join(waits.others), ", ".join(waits.topics)
        print(printable(f"Not read meanwhile: {topics}. So {deciders} of {target.service} waits for these inputs too."))
    if tasks and not done.token:
        run = "it runs" if tasks == 1 else "they run"
        print(printable(f"To be taken up by {counted(tasks, 'task')} of {target.service}, as soon as {run}."))
    if done.released is not None:
        print_previews([done.released])


def waiting_text(waits: WhatWaits) -> str:
    """Return what waits as text for people."""
    inputs = f"{counted(waits.inputs, 'input')}{' or more' if waits.at_least else ''}"
    return f"{inputs} and {counted(waits.effects, 'effect')}"
