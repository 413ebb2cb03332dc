"""`eventlib state`: what a decider knows of a key."""

from dataclasses import fields

from rich.pretty import Pretty
from rich.table import Table
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import Place
from eventlib.inspection.state import KnownState, state_of


def print_state(place: Place, decider: str, key: str, *, as_json: bool) -> None:
    """Print what a decider knows of a key."""
    known = look(place, lambda log: state_of(log, decider, key))
    if as_json:
        output.print_json([_json(known)])
    else:
        _print(known)


def _json(known: KnownState) -> dict[str, object]:
    return {
        "service": known.service,
        "decider": known.decider,
        "key": known.key,
        "partition": known.partition,
        "recorded_at": output.iso(known.recorded_at),
        "state": known.state,
        "sequence": known.sequence,
        "changed_by": known.changed_by,
        "correlation_id": known.correlation_id,
        "deadlines": {name: output.iso(at) for name, at in known.deadlines.items()},
        "forgotten_at": output.iso_or_none(known.forgotten_at),
        "requests_answered": known.answered,
    }


def _print(known: KnownState) -> None:
    console = output.terminal()
    where = f"{known.service}, task {known.partition}, {output.iso(known.recorded_at)}"
    console.print(Text.assemble((f"{known.decider} {known.key}", "bold"), (f"  {where}", "dim")))
    console.print()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    if known.state is None:
        console.print("The key is forgotten: its state was given up.")
    else:
        for field in fields(known.state):
            value = getattr(known.state, field.name)
            grid.add_row(field.name, Text(str(value)) if isinstance(value, str) and value else Pretty(value))
    grid.add_section()
    for name, text in _memory(known).items():
        grid.add_row(Text(name, style="dim"), text)
    console.print(grid)


def _memory(known: KnownState) -> dict[str, str]:
    found = {"sequence": f"{known.sequence:,}", "changed by": known.changed_by or "-"}
    found |= {f"deadline {name}": output.iso(at) for name, at in known.deadlines.items()}
    if known.forgotten_at is not None:
        found["forgotten at"] = output.iso(known.forgotten_at)
    if known.answered:
        found["requests answered"] = f"{known.answered:,}"
    return found
