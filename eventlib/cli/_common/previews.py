"""Dry runs of acts on what is parked, printed as a table or as JSON; and the options with which commands take them."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.model.event import contract_of
from eventlib.operations.parked_preview import Preview, token_of_previews

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
