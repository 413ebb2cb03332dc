"""`eventlib parked retry`, `edit` and `discard`: what is given by options and arguments, and how the outcome is printed."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from pydantic_core import from_json

from eventlib.cli._common import output
from eventlib.cli._common.act_command import Asked, asking
from eventlib.cli._common.names import OfServicesOption, deciders, parked_keys
from eventlib.cli._common.options import argument, flag, option
from eventlib.errors import ContractError
from eventlib.model.event import contract_of
from eventlib.operations.parked_acts import Discard, Edit, ParkedOutcome, RetryAll
from eventlib.operations.parked_preview import Preview

DeciderArgument = Annotated[str, argument("DECIDER", "The decider's name, from the list.", autocompletion=deciders)]
KeyArgument = Annotated[str, argument("KEY", "The key, from the list; or an effect's id.", autocompletion=parked_keys)]
DecidersOption = Annotated[
    list[str] | None, option("--decider", "NAME", "Only of this decider; may be repeated.", autocompletion=deciders)
]
ReasonMatches = Annotated[str | None, option("--reason-matches", "REGEX", "Only where the reason matches.")]
CauseOption = Annotated[
    str | None, option("--cause", "CAUSE", "Only what is parked for this cause, as `eventlib parked list` names it.")
]
_MOST_SHOWN = 200
_REASONS = 5
_ONE = {
    "asked": "requested. The services do it when they run.",
    "handled": "done, and none of it is parked any more.",
    "parked again": "could not be handled, and is parked again.",
}
_MANY = {
    "handled": "handled",
    "parked again": "parked again",
    "asked": "requested: the services do it when they run",
}


@asking()
def retry(  # noqa: PLR0913, PLR0917  one argument for each option
    asked: Asked,
    decider: Annotated[
        str | None, argument("DECIDER", "The decider's name, from the list.", autocompletion=deciders)
    ] = None,
    key: Annotated[str | None, argument("KEY", "The key, from the list.", autocompletion=parked_keys)] = None,
    everything: Annotated[bool, flag("--all", "Everything that is parked and matches the options below.")] = False,
    of_service: OfServicesOption = None,
    of_decider: DecidersOption = None,
    reason_matches: ReasonMatches = None,
    cause: CauseOption = None,
    wait: Annotated[
        float | None,
        option("--wait", "SECONDS", "How long to wait without progress. [dim]Default: 1, with --all 10[/dim]", min=0),
    ] = None,
) -> None:
    """Ask the running services to handle parked inputs again, in order.

    What fails again is parked again: fix the cause first, and start the
    services with the fixed code. Each key is handled once, even if several
    people ask for it; given again after an interruption, --all continues.

    Exit code 1 when something is parked again; of a dry run, when it would be.

    [dim]Examples:[/dim]
      eventlib parked retry order 536365
      eventlib parked retry --all --dry-run
      eventlib parked retry --all --service payment --reason-matches 'KeyError.*tax'
    """
    narrows = {
        "service": of_service or [],
        "decider": of_decider or [],
        "reason_matches": reason_matches,
        "cause": cause,
    }
    if everything:
        if decider is not None:
            raise typer.BadParameter("it excludes DECIDER and KEY", param_hint="--all")
    elif any(narrows.values()):
        raise typer.BadParameter("they need --all", param_hint="--service / --decider / --reason-matches / --cause")
    elif decider is None or key is None:
        raise typer.BadParameter("name both, or give --all", param_hint="DECIDER KEY")
    else:
        narrows = {"decider": [decider], "key": key}
    patience = (10 if everything else 1) if wait is None else wait
    replace(asked, wait=patience).carry_out(RetryAll, narrows, _print)


@asking()
def edit(
    asked: Asked,
    decider: DeciderArgument,
    key: KeyArgument,
    fields: Annotated[list[str] | None, option("--set", "FIELD=VALUE", "A field's new value; may be repeated.")] = None,
    data: Annotated[str | None, option("--data", "JSON", "All of the event's fields instead; - reads stdin.")] = None,
) -> None:
    """Replace the data of a parked key's first input, and handle it.

    The inputs that wait behind it follow, in order. The input stays unchanged
    on its topic; the edit is stored on the log with your name, and replays,
    histories and reruns apply it. Data that does not fit the event's class is
    refused before anything is written.

    [dim]Examples:[/dim]
      eventlib parked edit order 536365 --set country=France --dry-run
      eventlib parked edit order 536365 --set country=France --reason "typed FRANCE"
      eventlib parked edit order 536365 --data - < order.json
    """
    if data is None and not fields:
        raise typer.BadParameter("name what to change", param_hint="--set / --data")
    given = None if data is None else _json(sys.stdin.read() if data == "-" else data)
    asked.carry_out(
        Edit, {"decider": decider, "key": key, "data": given, "set": dict(map(_field, fields or ()))}, _print
    )


@asking()
def discard(asked: Asked, decider: DeciderArgument, key: KeyArgument) -> None:
    """Discard a parked key's first input, or a parked effect, permanently.

    The inputs that wait behind it are then handled, in order. What the input
    would have caused does not happen: its saga continues by its deadlines, or
    becomes overdue.

    [dim]Examples:[/dim]
      eventlib parked discard order 536365 --reason "a test order"
    """
    asked.carry_out(Discard, {"decider": decider, "key": key}, _print)


def _field(text: str) -> tuple[str, object]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ContractError(f"--set {text!r}: write NAME=VALUE, the value as JSON or as plain text")
    try:
        return name, from_json(value)
    except ValueError:
        return name, value


def _json(text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise ContractError(f"--data is not JSON: {error}") from error


def _print_previews(found: Sequence[Preview]) -> None:
    print_previews(found)
    if found:
        counts = Counter(each.would for each in found)
        said = ", ".join(f"{count:,} would {would}" for would, count in counts.most_common())
        output.say(f"{said}.")


def _print(done: ParkedOutcome) -> None:
    if done.token:
        _print_previews(done.previews)
        return
    requests = done.requests
    outcomes, again = ([], {}) if done.outcomes is None else (done.outcomes.all, done.outcomes.parked_again)
    if not requests:
        output.say("Nothing is parked.")
    elif len(requests) == 1:
        parking = requests[0].parking
        about = f"{parking.service}, {parking.effect or parking.decider} {output.printable(parking.key)}"
        output.say(f"{about}: {_ONE[outcomes[0]]}")
    else:
        counts = Counter[str](outcomes)
        output.say(", ".join(f"{counts[each]:,} {text}" for each, text in _MANY.items() if counts[each]) + ".")
    reasons = Counter(each.reason for each in again.values())
    for reason, count in reasons.most_common(_REASONS):
        output.say(f"{count:>7,}  {reason}", "red")
    if len(reasons) > _REASONS:
        output.say(f"         and {len(reasons) - _REASONS:,} more: `eventlib parked list`", "dim")


def print_previews(found: Sequence[Preview]) -> None:
    """Print what each would come to, the first of them."""
    if not found:
        output.say("Nothing is parked.")
        return
    rows = list[output.Row]()
    for each in found[:_MOST_SHOWN]:
        parking, inputs = each.parking, f"{each.handled} of {each.waiting}" if each.parking.id is None else "effect"
        rows.append((parking.effect or parking.decider, parking.key, each.would, inputs, _emits(each), _why(each)))
    columns = ["decider", "key", "would", "inputs", "emits", "why"]
    output.print_table(columns, rows, whole=["key", "would", "inputs"])
    if len(found) > _MOST_SHOWN:
        output.say(f"and {len(found) - _MOST_SHOWN:,} more: --json has them all", "dim")


def _emits(found: Preview) -> str:
    types = Counter(contract_of(type(each)).type for each in found.emitted)
    parts = [name if count == 1 else f"{count} {name}" for name, count in types.items()]
    late = Counter(contract_of(type(each)).type for each in found.overdue)
    return ", ".join([*parts, *(f"then {name}, overdue" for name in late)])


def _why(found: Preview) -> str:
    return "; ".join(each for each in (found.reason, found.doubt) if each)
