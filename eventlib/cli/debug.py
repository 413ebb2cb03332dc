"""`eventlib debug`: stops in a handler under the debugger, with the state and event of that step."""

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, argument, flag, option, run_on_log
from eventlib.errors import WiringError
from eventlib.model.event import Event
from eventlib.model.kept_error import kept_reason
from eventlib.replay.debugging import HandlerCall, Stop, debugpy_on, decisions_about, stop_in_pdb
from eventlib.values import iso

Debugger = Literal["pdb", "debugpy"]


def debug(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    key: Annotated[str, argument("KEY", "The decider's key, such as an order's id.")],
    event: Annotated[
        str, argument("EVENT_ID", "What the key handled then, or else emitted, by its id; or a deadline's name.")
    ],
    decider: Annotated[str | None, option("--decider -d", "NAME", "Stop only in this decider.")] = None,
    debugger: Annotated[
        Debugger, option("--debugger", "NAME", "pdb, or debugpy: it waits for an IDE to attach.")
    ] = "pdb",
    port: Annotated[int, option("--port", "PORT", "Where debugpy waits.", min=1, max=65_535)] = 5678,
    stdin: Annotated[bool, flag("--stdin", "Let pdb read its commands from a stdin that is no terminal.")] = False,
) -> None:
    """Stop in a handler under the debugger, with the recorded state and event.

    One call is run again, and the debugger stops at the handler's first line,
    with the recorded state and event as the handler's arguments; in each handler
    if several handled the event. Then it prints whether the same is emitted. The
    log is only read, and no effect runs.

    [dim]Examples:[/dim]
      eventlib debug 536365 6dd20bf1
      eventlib debug 536365 6dd20bf1 --decider payment --debugger debugpy
    """
    if debugger == "pdb" and not (stdin or sys.stdin.isatty()):
        raise WiringError(
            "pdb needs a terminal, and stdin is none: give --stdin to let it read its commands from there, or "
            "--debugger debugpy to attach an IDE"
        )
    found = run_on_log(log_options, lambda log: decisions_about(log, key, event, decider))
    stop = stop_in_pdb if debugger == "pdb" else debugpy_on(port, lambda: _print_address(port))
    for number, decision in enumerate(found, 1):
        output.say(_headline(decision, f"{number} of {len(found)}: " if len(found) > 1 else ""))
        if not _stopped(stop, decision):
            return


def _print_address(port: int) -> None:
    output.say(f"Waiting for a debugger to attach to 127.0.0.1:{port}; Ctrl-C ends it.")
    sys.stdout.flush()


def _headline(decision: HandlerCall, count: str) -> Text:
    history, step = decision.past, decision.step
    what = f"deadline {step.deadline}" if step.input is None else f"{step.input.type} {output.short_id(step.input.id)}"
    then = (
        f"was parked: {step.reason}"
        if step.kind == "parked"
        else f"emitted then: {_emitted(decision.said, history.key)}"
    )
    return Text.assemble(
        (f"{count}{history.decider.name}.{decision.handler.name}", "bold"),
        f" on {what} of key {history.key}, as at {iso(step.at)}",
        (f"\n{then}", "dim"),
    )


def _stopped(stop: Stop, decision: HandlerCall) -> bool:
    """Stop in the debugger, and print the comparison; False when the user has quit."""
    try:
        said = stop(decision)
    except Exception as error:  # noqa: BLE001  whatever the handler raises is what the person looks at
        output.say(Text(f"raises now: {kept_reason(error, personal=False)}", style="red"))
        return True
    if said is None:
        return False
    same = [*said] == decision.said and decision.step.kind != "parked"
    output.say("emits the same now" if same else f"emits now: {_emitted(said, decision.past.key)}")
    return True


def _emitted(said: Sequence[Event | None], key: str) -> str:
    return "; ".join(_text(event, key) for event in said) or "nothing"


def _text(event: Event | None, key: str) -> str:
    if event is None:
        return "(what today's code cannot read)"
    facts = output.facts_text({name: value for name, value in event if value != key})
    return f"{type(event).__name__} {facts}".rstrip()
