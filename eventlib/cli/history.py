"""`eventlib history`: what a decider did with a key, step by step."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.names import deciders
from eventlib.cli._common.options import JsonOption, PersonalLog, argument, flag, run_on_log
from eventlib.cli.history_json import step_json
from eventlib.cli.shrink import EventOption, named, write_recorded
from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET
from eventlib.model.record import Record
from eventlib.replay.comparison import ABSENT, Change
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.steps import HistoryStep, RecordedEvent
from eventlib.runtime.records import code_version
from eventlib.values import iso, iso_ms


def history(
    log_options: PersonalLog,
    names: Annotated[
        list[str],
        argument(
            "DECIDER KEY",
            "A decider's name (`eventlib graph` shows them), and its key: an order's id, a product's SKU. "
            "With --as-test, a saga's key may stand alone.",
            autocompletion=deciders,
        ),
    ],
    unfold: Annotated[bool, flag("--all -a", "Print a line for each event; do not fold equal types.")] = False,
    as_test: Annotated[bool, flag("--as-test", "Print a test of the newest decision, or of --event's.")] = False,
    event: EventOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a decider did with a key, step by step.

    Each step shows the input and its source, the emitted events, and what
    changed in the state. Everything is recorded history: no handler and no
    effect runs. Parked, dropped and overdue inputs are steps, too.

    --as-test prints a test of the newest decision as it was; of a saga, of the
    first on which today's code raises, if there is one.

    [dim]Examples:[/dim]
      eventlib history payment 536365
      eventlib history shelf 85123A --json | jq -r '[.at, .state.on_hand] | @tsv'
      eventlib history payment 536365 --as-test > tests/test_536365.py
      eventlib history 536365 --as-test > tests/test_536365.py
    """
    if as_test:
        write_recorded(log_options, names, event)
        return
    decider, key = named(names)
    if decider is None:
        raise typer.BadParameter(
            "name the decider, too: `eventlib saga KEY` shows the deciders of a saga", param_hint="DECIDER KEY"
        )
    if event is not None:
        raise typer.BadParameter("it goes with --as-test", param_hint="--event")

    async def read(log: EventLog) -> tuple[KeyHistory, str]:
        history = await key_history(log, log.choreography.decider(decider), key)
        return history, code_version(log.choreography)

    history, today = run_on_log(log_options, read)
    if as_json:
        output.print_json(step_json(step) for step in history.steps)
    else:
        output.say(_headline(history, today))
        output.say()
        output.terminal().print(_rows(history, most=sys.maxsize if unfold else _MOST))
    output.warn(history.doubt)


_MOST = 3
"""How many events of one type, emitted together, get lines of their own before they are folded."""


Types = Mapping[str, str]


def _headline(history: KeyHistory, today: str) -> Text:
    service, versions = history.service, [*dict.fromkeys(step.code_version for step in history.steps)]
    code = f"code {' → '.join(versions)}" + ("" if versions == [today] else f" (today's is {today})")
    where = f"  {service.name}, task {history.partition}, {output.counted(len(history.steps), 'step')}, {code}"
    return Text.assemble((f"{history.decider.name} {output.printable(history.key)}", "bold"), (where, "dim"))


def _rows(history: KeyHistory, most: int) -> output.Fields:
    shown = output.Fields()
    types = {
        each.id: each.type for step in history.steps for each in (*step.emitted, *([step.input] if step.input else []))
    }
    day, version = "", history.steps[0].code_version
    for step in history.steps:
        at = iso(step.at)
        if at[:10] != day:
            day = at[:10]
            shown.add_row(day)
        if step.code_version != version:
            version = step.code_version
            shown.add_row("", Text(f"decided by code {version} from here on", style="yellow"))
        shown.add_row(Text(at[11:23]), _what(step, types))
        for line in _came_of_it(step, history.key, most):
            shown.add_row("", line, indent=2)
    return shown


def _came_of_it(step: HistoryStep[Any], key: str, most: int) -> Iterator[Text]:
    for _, group in groupby(step.emitted, key=lambda event: event.type):
        group_of_type = [*group]
        yield from (
            [_emitted(said, key) for said in group_of_type] if len(group_of_type) <= most else [_folded(group_of_type)]
        )
    if step.before is not None and step.after is None:
        yield Text("the key is forgotten")
        return
    if step.changes:
        yield Text("  ".join(map(_change, step.changes)), style="cyan")
    yield from _moved_deadlines(step)


def _emitted(said: RecordedEvent, key: str) -> Text:
    facts = {} if said.event is None else {name: value for name, value in said.event if value != key}
    return Text.assemble(
        "emits ", (said.type, "bold"), f" {output.short_id(said.id)}  ", (output.facts_text(facts) or said.error, "dim")
    )


def _folded(group_of_type: Sequence[RecordedEvent]) -> Text:
    return Text.assemble("emits ", (f"{group_of_type[0].type} ×{len(group_of_type):,}", "bold"))  # noqa: RUF001  the sign for "times"


def _what(step: HistoryStep[Any], types: Types) -> Text:  # noqa: PLR0911  one return for each kind
    """Return one line on the input, and what was done with it."""
    recorded = step.input
    name = Text("(unknown)" if recorded is None else recorded.type, style="bold")
    if recorded is not None:
        name.append(f" {output.short_id(recorded.id)}", style="not bold")
    match step.kind:
        case "deadline":
            return Text.assemble("deadline ", (step.deadline or "", "bold"), " has passed")
        case "answered":
            return Text.assemble("answer to ", name)
        case "stalled":
            return Text.assemble("effect ", name, (f" is parked: {output.printable(step.reason)}", "red"))
        case "switched":
            return Text.assemble(("a rerun was taken over", "bold"), (f": {output.printable(step.reason)}", "yellow"))
        case "retried":
            return Text.assemble("effect ", name, " is tried again")
        case "discarded":
            what = "" if step.was_parked else "effect "
            return Text.assemble(what, name, " is given up by ", (output.printable(step.reason), "yellow"))
        case "parked" if step.deadline is not None:
            return Text.assemble(
                "deadline ", (step.deadline, "bold"), (f" is parked: {output.printable(step.reason)}", "red")
            )
        case "parked" | "dropped":
            again = " again" if step.was_parked else ""
            return Text.assemble(
                name,
                (f", edited by {step.edited}," if step.edited else "", "yellow"),
                (f" is {step.kind}{again}: {output.printable(step.reason)}", "red" if step.kind == "parked" else "dim"),
            )
        case _:
            again = ", parked before" if step.was_parked else ""
            origin = (f"  {_origin(recorded.record, types)}{again}" if recorded else "", "dim")
            return Text.assemble(name, origin, (f", edited by {step.edited}" if step.edited else "", "yellow"))


def _origin(record: Record, types: Types) -> str:
    if record.causation_id is None:
        return f"from {record.source or 'outside'}"
    cause = types.get(record.causation_id, "")
    return f"from {record.source}, because of {f'{cause} ' if cause else ''}{output.short_id(record.causation_id)}"


def _change(change: Change) -> str:
    before, after = change.before, change.after
    if after is ABSENT:
        return f"{change.path} − {_value(before)}"  # noqa: RUF001  a minus sign, beside the plus of what enters
    if before is ABSENT:
        return f"{change.path} + {_value(after)}"
    if before in (None, "", ()):
        return f"{change.path}={_value(after)}"
    return f"{change.path}={_value(before)}→{_value(after)}"


def _value(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return f"({output.facts_text({field.name: getattr(value, field.name) for field in fields(value)})})"
    return output.facts_text({"": value})[1:] or repr(value)


def _moved_deadlines(step: HistoryStep[Any]) -> Iterator[Text]:
    before, after = step.entry_before.due, step.entry_after.due
    for name in {**before, **after}:
        if name == FORGET or before.get(name) == after.get(name):
            continue
        now = "no more" if name not in after else iso_ms(after[name])
        yield Text(f"deadline {name}: {now}", style="dim")
