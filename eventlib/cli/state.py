"""`eventlib state`: a decider's state for a key."""

from dataclasses import fields
from datetime import datetime
from typing import Annotated

from rich.pretty import pretty_repr
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.names import deciders
from eventlib.cli._common.options import JsonOption, PersonalLog, argument, option, run_on_log
from eventlib.cli._common.saga_status import state_json
from eventlib.eventlog import EventLog
from eventlib.queries.state import KnownState, state_of
from eventlib.replay.point_in_time import parse_point_in_time, snapshot_at, state_in
from eventlib.values import iso


def state(
    log_options: PersonalLog,
    decider: Annotated[
        str, argument("DECIDER", "A decider's name; `eventlib graph` shows them.", autocompletion=deciders)
    ],
    key: Annotated[str, argument("KEY", "The decider's key: an order's id, a product's SKU.")],
    at: Annotated[str | None, option("--at", "TIME|EVENT_ID", "As of a time (UTC), or after an event.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a decider's state for a key, now or at a point in time.

    A past state is rebuilt from the journal and the log: from all inputs that
    were handled by a time, or up to the step that handled, or emitted, an event
    (the beginning of its id is enough). `eventlib history` shows the steps.

    [dim]Examples:[/dim]
      eventlib state order 536365
      eventlib state payment 536365 --at 2026-01-31T12:00:00.250Z
      eventlib state payment 536365 --at 6dd20bf1
      eventlib state shelf 85123A --json | jq .state.on_hand
    """
    known, doubt = run_on_log(log_options, lambda log: _known(log, decider, key, at))
    if as_json:
        output.print_json([{**state_json(known), **({"doubt": doubt} if doubt else {})}])
    else:
        _print(known)
    output.warn(doubt)


async def _known(log: EventLog, decider: str, key: str, at: str | None) -> tuple[KnownState, str]:
    if at is None:
        return await state_of(log, decider, key), ""
    standing = await snapshot_at(log, decider, key, parse_point_in_time(at))
    return state_in(standing), standing.doubt


def _print(known: KnownState) -> None:
    where = f"{known.service}, task {known.partition}, {iso(known.recorded_at)}"
    output.say(Text.assemble((f"{known.decider} {output.printable(known.key)}", "bold"), (f"  {where}", "dim")))
    output.say()
    shown = output.Fields()
    if known.state is None:
        output.say("The key is forgotten: its state was deleted.")
    else:
        for field in fields(known.state):
            shown.add_row(Text(field.name), Text(_value(getattr(known.state, field.name))))
        shown.add_row()
    for name, text in _memory(known).items():
        shown.add_row(name, Text(text, style="dim"))
    output.terminal().print(shown)


def _value(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    is_plain = isinstance(value, str | int | None) and value != ""
    return output.printable(str(value)) if is_plain else pretty_repr(value)


def _memory(known: KnownState) -> dict[str, str]:
    found = {"sequence": f"{known.sequence:,}", "changed by": output.printable(known.changed_by or "-")}
    found |= {f"deadline {name}": iso(at) for name, at in known.deadlines.items()}
    if known.forgotten_at is not None:
        found["forgotten at"] = iso(known.forgotten_at)
    if known.answered:
        found["requests answered"] = f"{known.answered:,}"
    return found
