"""What acts on parked keys and effects would come to, printed as a table."""

from collections import Counter
from collections.abc import Sequence

from eventlib.cli._common import output
from eventlib.model.event import contract_of
from eventlib.operations.parked_preview import Preview

_SHOWN = 200


def print_table(found: Sequence[Preview]) -> None:
    """Print what each would come to, the first of them."""
    if not found:
        output.say("Nothing is parked.")
        return
    rows = list[output.Row]()
    for each in found[:_SHOWN]:
        parking, inputs = each.parking, f"{each.handled} of {each.waiting}" if each.parking.id is None else "effect"
        rows.append((parking.effect or parking.decider, parking.key, each.would, inputs, _emits(each), _why(each)))
    columns = ["decider", "key", "would", "inputs", "emits", "why"]
    output.print_table(columns, rows, whole=["key", "would", "inputs"])
    if len(found) > _SHOWN:
        output.say(f"and {len(found) - _SHOWN:,} more: --json has them all", "dim")


def _emits(found: Preview) -> str:
    types = Counter(contract_of(type(each)).type for each in found.emitted)
    parts = [name if count == 1 else f"{count} {name}" for name, count in types.items()]
    late = Counter(contract_of(type(each)).type for each in found.overdue)
    return ", ".join([*parts, *(f"then {name}, overdue" for name in late)])


def _why(found: Preview) -> str:
    return "; ".join(each for each in (found.reason, found.doubt) if each)
