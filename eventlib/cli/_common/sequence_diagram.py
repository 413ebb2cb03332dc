"""A sequence diagram for a terminal: a lifeline for each participant, an arrow for each message."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from eventlib.simulation.story import Arrow, participants

_LEAST_WIDTH = 8


def print_diagram(console: Console, drawn: Sequence[Arrow]) -> None:
    """Print arrows between lifelines, one a line, with the consequences beside each."""
    names = participants(drawn)
    width = max(_LEAST_WIDTH, *(len(name) + 1 for name in names))
    console.print(Text("".join(name.center(width) for name in names).rstrip(), style="bold"))
    for arrow in drawn:
        line = Text(_lifelines(names, arrow, width), style=_style(arrow))
        line.append(f"  {arrow.text}", style=_style(arrow) or "bold")
        if arrow.aside:
            line.append(f" ⇒ {arrow.aside}", style="dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        console.print(line)


def _lifelines(names: Sequence[str], arrow: Arrow, width: int) -> str:
    cells = list(("│".center(width)) * len(names))
    middle = ("│".center(width)).index("│")
    first, last = (names.index(name) * width + middle for name in (arrow.source, arrow.target))
    if first == last:
        cells[first] = "✗" if arrow.is_fault else "●"
        return "".join(cells)
    left, right = min(first, last), max(first, last)
    cells[left + 1 : right] = ("╌" if arrow.is_lost else "─") * (right - left - 1)
    cells[first] = "●"
    cells[last] = "▶" if last > first else "◀"
    return "".join(cells)


def _style(arrow: Arrow) -> str:
    if arrow.is_fault:
        return "red"
    return "yellow" if arrow.is_lost else ""
