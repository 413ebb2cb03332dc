"""The result of a search over schedules, as text, as a diagram and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.text import Text

from eventlib.cli._common import output
from eventlib.simulation.exhaustive import Explored
from eventlib.simulation.search import Extent, Failure, Searched
from eventlib.simulation.story import Arrow, arrows, mermaid, participants

# --- a sequence diagram for a terminal: a lifeline for each participant, an arrow for each message

_LEAST_WIDTH = 8


def print_diagram(drawn: Sequence[Arrow]) -> None:
    """Print arrows between lifelines, one a line, with the consequences beside each."""
    names = participants(drawn)
    width = max(_LEAST_WIDTH, *(len(name) + 1 for name in names))
    output.say("".join(name.center(width) for name in names).rstrip(), "bold")
    for arrow in drawn:
        line = Text(_lifelines(names, arrow, width), style=_style(arrow))
        line.append(f"  {arrow.text}", style=_style(arrow) or "bold")
        if arrow.aside:
            line.append(f" ⇒ {arrow.aside}", style="dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        output.terminal().print(line)


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


Diagram = Literal["text", "mermaid", "none"]


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The scenario, and how results are shown."""

    app: str | None
    scenario: str | None
    diagram: Diagram
    as_json: bool


def print_counts(searched: Searched, invariants: int) -> None:
    """Print how many schedules ran, and their faults."""
    played = searched.played
    rate = played.schedules / searched.seconds if searched.seconds else 0
    what = "No invariant is broken" if searched.failure is None else "An invariant is broken"
    output.say(
        f"{what}: {played.schedules:,} schedules of {played.orders:,} orders, {played.steps:,} steps, {invariants} invariants and "
        f"those of any log, {searched.seconds:.1f} s, {rate:,.0f} schedules/s."
    )
    if searched.failure is None:
        for fault, times in played.faults.most_common():
            output.say(f"{times:>11,}  {fault}")


def print_failure(failure: Failure, options: SimulateOptions) -> None:
    """Print the story of a broken invariant, and the violation."""
    violation = failure.violation
    drawn = arrows(failure.story)
    output.say()
    if options.diagram == "mermaid":
        print(mermaid(drawn, f"{violation.invariant.name}: {violation.invariant.sentence}"))
        return
    if options.diagram == "text":
        print_diagram(drawn)
    output.say(
        Text.assemble(("✗ ", "bold red"), (violation.invariant.name, "bold red"), f"  {violation.invariant.sentence}")
    )
    output.say(f"  violated for {violation.invariant.key} {violation.key}: {violation.what_was_known}")


def searched_json(searched: Searched, extent: Extent, path: Path | None) -> dict[str, object]:
    """Return a search's result as a JSON object."""
    failure, played = searched.failure, searched.played
    return {
        "seed": extent.seed,
        "orders": extent.orders,
        "schedules": played.schedules,
        "orders_played": played.orders,
        "steps": played.steps,
        "faults": dict(played.faults.most_common()),
        "seconds": round(searched.seconds, 3),
        "file": None if path is None else str(path),
        "failure": None if failure is None else failure_json(failure),
    }


def failure_json(failure: Failure) -> dict[str, object]:
    """Return a broken invariant and its story as a JSON object."""
    violation = failure.violation
    return {
        "law": violation.invariant.name,
        "sentence": violation.invariant.sentence,
        "key": violation.key,
        "known": violation.what_was_known,
        "story": [asdict(line) for line in failure.story],
    }


def print_explored_text(found: Explored, invariants: int, seconds: float) -> None:
    """Print the size of what was explored; and the story of a broken invariant, and the violation."""
    what = "No invariant is broken" if found.violation is None else "An invariant is broken"
    if not found.complete:
        what = "Not explored to the end, and no invariant is broken so far"
    output.say(
        f"{what}: {found.moments:,} moments, {found.steps:,} steps between them, {found.ends:,} ends, "
        f"{invariants} invariants, {seconds:.1f} s."
    )
    if found.reliable:
        output.say(f"The scenario's small case says that no call of {' and '.join(found.reliable)} is lost.")
    for number, step in enumerate(found.story, start=1):
        output.say(f"  {number:>3}  {step}")
    if found.violation is not None:
        output.say(Text.assemble(("✗ ", "bold red"), str(found.violation)))


def explored_json(found: Explored, seconds: float) -> dict[str, object]:
    """Return what was explored as a JSON object."""
    violation = found.violation
    return {
        **{name: getattr(found, name) for name in ("moments", "steps", "ends", "farthest", "complete")},
        "reliable": list(found.reliable),
        "seconds": round(seconds, 3),
        "failure": None if violation is None else {"law": violation.invariant.name, "key": violation.key},
        "story": list(found.story),
    }
