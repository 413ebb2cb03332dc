"""The differences of a rerun and its service, as text and as JSON."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from eventlib.cli._common import output
from eventlib.operations.reprocessing.comparison import Difference, EventDifference, StateDifference, Waiting
from eventlib.replay.comparison import ABSENT, Change
from eventlib.values import iso_ms

_SIGNS = {"missing": "-", "extra": "+", "other": "~"}


def print_difference(service: str, name: str, found: Difference, limit: int) -> None:
    """Print the comparison as a table, then the first differences."""
    console = output.terminal()
    numbers = ["keys", "states differ", "unchanged", "missing", "added", "changed"]
    shown = output.table("decider", *numbers)
    for each in found.deciders:
        counts = each.keys, each.states, each.alike, each.missing, each.extra, each.other
        shown.add_row(each.decider, *counts, style="bold" if each.differs else None)
    console.print(shown)
    if found.is_none:
        console.print(f"{name} emits the same events and has the same states as {service}: nothing differs.")
    _print_events(console, found.events)
    _print_states(console, found.states)
    _print_waiting(console, f"Effects that only {name} requests; they did not run", found.requested, limit)
    _print_waiting(console, f"Keys that only {name} cannot handle", found.parked, limit)
    if found.not_yet:
        what = output.counted(found.not_yet, "key")
        console.print(f"{service} has changed {what} since; run this again to compare them, too.", style="dim")


def _print_events(console: Console, events: Iterable[EventDifference]) -> None:
    for number, each in enumerate(events):
        if not number:
            console.print("\nEvents, the first ones ([dim]-[/dim] missing, [dim]+[/dim] added, [dim]~[/dim] changed):")
        types = " → ".join(dict.fromkeys(filter(None, (each.before, each.after))))
        line = Text(f"{_SIGNS[each.kind]} ").append(f"{each.decider} {output.printable(each.key)}", "bold")
        line.append(f"  {types}  ").append(iso_ms(each.at_ms), "dim")
        console.print(line)
        if each.kind == "other":
            _print_changes(console, each.changes)


def _print_states(console: Console, states: Iterable[StateDifference]) -> None:
    for number, each in enumerate(states):
        if not number:
            console.print("\nStates, the first ones:")
        console.print(Text("~ ").append(f"{each.decider} {output.printable(each.key)}", "bold"))
        if each.why:
            console.print(Text(f"    {each.why}", "red"))
        _print_changes(console, each.changes)


def _print_changes(console: Console, changes: Iterable[Change]) -> None:
    for change in changes:
        sides = ["-" if side is ABSENT else output.printable(str(side)) for side in (change.before, change.after)]
        console.print(Text(f"    {change.path}: {sides[0]} → {sides[1]}", "dim"))


def _print_waiting(console: Console, title: str, waiting: Sequence[Waiting], limit: int) -> None:
    if waiting:
        console.print(f"\n{title} ({len(waiting):,}):")
    for each in waiting[:limit]:
        line = Text("  ").append(f"{each.decider} {output.printable(each.key)}", "bold").append(f"  {each.request}")
        console.print(line.append(output.printable(each.reason), "dim"))
