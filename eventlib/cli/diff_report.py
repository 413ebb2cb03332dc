"""A comparison of two versions of the code, for a terminal."""

from rich.console import Console
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli.replay_report import print_lines
from eventlib.proof import Diff, DifferenceGroup
from eventlib.proof.formats import counts, debugger_command, group_line, headline
from eventlib.replay.difference_lines import difference_lines
from eventlib.values import iso_ms

_NAMED = 5
"""How many sagas of a group are named."""


def print_diff(found: Diff, limit: int) -> None:
    """Print what differs, the `limit` most frequent groups in full."""
    console = output.terminal()
    for each in found.damaged:
        console.print(Text(f"Damage: {output.printable(each)}; what depends on it is not compared.", style="red"))
    for note in found.notes:
        console.print(Text(f"Note: {note}.", style="yellow"), soft_wrap=True)
    console.print(Text(output.printable(headline(found)), style="bold" if found.groups else ""), soft_wrap=True)
    for group in found.groups[:limit]:
        console.print()
        _print_group(console, group)
    if len(found.groups) > limit:
        console.print(f"\n… and {output.counted(len(found.groups) - limit, 'group')} more: --limit shows them")
    for each in found.stale:
        told = f"Expected, and not there: {output.printable(each)}; remove it from expected-differences.toml"
        console.print(Text(told, style="yellow"), soft_wrap=True)
    if found.groups and not found.unexpected:
        console.print("\nAll of it is expected.")


def _print_group(console: Console, group: DifferenceGroup) -> None:
    difference = group.example.difference
    console.print(Text(output.printable(group_line(group)), style="bold"), soft_wrap=True)
    names = ", ".join(map(output.printable, group.sagas[:_NAMED])) + (", …" if len(group.sagas) > _NAMED else "")
    console.print(Text(f"  {counts(group)}: {names}"), soft_wrap=True)
    if group.is_expected:
        console.print(Text(f"  expected: {output.printable(group.reason)}", style="green"), soft_wrap=True)
    for line in group.lines:
        console.print(Text(f"  changed and run: {output.printable(line)}"), soft_wrap=True)
    at = iso_ms(difference.at_ms)
    console.print(Text(f"  the smallest: {output.printable(difference.saga)}, {at}", style="dim"), soft_wrap=True)
    print_lines(console, difference_lines(group.example.before, group.example.after, difference.why))
    console.print(Text(f"  {output.printable(debugger_command(difference))}", style="dim"), soft_wrap=True)
