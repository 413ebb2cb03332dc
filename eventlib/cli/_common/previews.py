"""Dry runs of acts on what is parked, printed as a table or as JSON; and the options with which commands take them."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.personal import masked
from eventlib.operations.parked_preview import Preview, token_of_previews
from eventlib.runtime.records import code_version

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Only print what would happen; nothing is written.")
]
AsPreviewedOption = Annotated[
    str,
    typer.Option(
        "--as-previewed",
        metavar="TOKEN",
        help="Refuse when the log has moved on since the dry run that printed TOKEN.",
        show_default=False,
    ),
]

_SHOWN = 200


def preview_json(found: Preview, *, personal: bool = False) -> dict[str, object]:
    """Return a preview as JSON, with personal fields masked unless they may be seen."""
    parking = found.parking
    return {
        "service": parking.service,
        "decider": parking.decider,
        "key": parking.key,
        "partition": parking.partition,
        "effect": parking.effect,
        "id": parking.id,
        "prospect": found.prospect,
        "handled": found.handled,
        "waiting": found.waiting,
        "emitted": [event_json(each, personal=personal) for each in found.emitted],
        "requested": [*found.requested],
        "overdue": [event_json(each, personal=personal) for each in found.overdue],
        "reason": found.reason,
        "traceback": found.traceback,
        "doubt": found.doubt,
    }


def previews_json(log: EventLog, found: Sequence[Preview], *, personal: bool = False) -> list[dict[str, object]]:
    """Return previews that were made together as JSON, each with the token of all, and the code that decided."""
    shared = {"code_version": code_version(log.choreography), "as_previewed": token_of_previews(found)}
    return [{**preview_json(each, personal=personal), **shared} for each in found]


def event_json(event: Event, *, personal: bool = False) -> dict[str, object]:
    """Return an event that would be emitted as JSON, with personal fields masked unless they may be seen."""
    return {
        "type": contract_of(type(event)).type,
        "key": key_of(event),
        "data": json_of(event if personal else masked(event)),
    }


def print_previews(lines: Sequence[dict[str, object]], found: Sequence[Preview], *, as_json: bool) -> int:
    """Print previews, and return the exit code: 1 when something would park again."""
    if as_json:
        output.print_json(lines)
    else:
        print_table(found)
        console = output.terminal()
        if found:
            counts = Counter(each.would for each in found)
            console.print(", ".join(f"{count:,} would {would}" for would, count in counts.most_common()) + ".")
            console.print(
                f"Nothing was written. To act only if this still holds: --as-previewed {token_of_previews(found)}"
            )
    return 1 if any(each.prospect == "parks again" for each in found) else 0


def print_table(found: Sequence[Preview]) -> None:
    """Print what each would come to, the first of them."""
    console = output.terminal()
    if not found:
        console.print("Nothing is parked.")
        return
    shown = output.table("decider", "key", "would", "inputs", "emits", "why", right=["inputs"], whole=["would"])
    for each in found[:_SHOWN]:
        parking, inputs = each.parking, f"{each.handled} of {each.waiting}" if each.parking.id is None else "effect"
        cells = [parking.effect or parking.decider, parking.key, each.would, inputs, _emits(each), _why(each)]
        shown.add_row(*(Text(output.printable(cell)) for cell in cells))
    console.print(shown)
    if len(found) > _SHOWN:
        console.print(Text(f"and {len(found) - _SHOWN:,} more: --json has them all", style="dim"))


def _emits(found: Preview) -> str:
    types = Counter(contract_of(type(each)).type for each in found.emitted)
    parts = [name if count == 1 else f"{count} {name}" for name, count in types.items()]
    late = Counter(contract_of(type(each)).type for each in found.overdue)
    return ", ".join([*parts, *(f"then {name}, overdue" for name in late)])


def _why(found: Preview) -> str:
    return "; ".join(each for each in (found.reason, found.doubt) if each)
