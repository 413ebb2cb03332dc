"""A story as a sequence diagram: who says what to whom, with what went wrong among it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from eventlib.simulate.story import OUTSIDE, Line, Named


@dataclass(frozen=True)
class Arrow:
    """One line of a diagram: from `source` to `target`, which may be the same; `aside` is what follows from it."""

    source: str
    target: str
    text: str
    aside: str = ""
    is_fault: bool = False
    is_lost: bool = False


def arrows(story: Iterable[Line]) -> list[Arrow]:
    """Return a story as arrows between who takes part.

    What somebody asked is an arrow when it is handled; where that is not at once, a line of its own as well.
    """
    lines = [*story]
    shown = [line for line, following in zip_longest(lines, lines[1:]) if not _is_handled_next(line, following)]
    return [arrow for line in shown for arrow in _arrows(line)]


def participants(drawn: Sequence[Arrow]) -> list[str]:
    """Return who takes part, in the order in which they come in."""
    return list(dict.fromkeys([OUTSIDE, *(name for arrow in drawn for name in (arrow.source, arrow.target))]))


def mermaid(drawn: Sequence[Arrow], broken: str) -> str:
    """Return a Mermaid sequence diagram, with the broken law under it."""
    names = participants(drawn)
    lines = ["sequenceDiagram", *(f"  participant {name}" for name in names)]
    for arrow in drawn:
        text = _safe(f"{arrow.text} ⇒ {arrow.aside}" if arrow.aside else arrow.text)
        if arrow.is_fault or (arrow.source == arrow.target and not arrow.is_lost):
            lines.append(f"  Note over {arrow.source}: {'✗ ' if arrow.is_fault else ''}{text}")
        else:
            lines.append(f"  {arrow.source}{'-x' if arrow.is_lost else '->>'}{arrow.target}: {text}")
    return "\n".join([*lines, f"  Note over {names[0]},{names[-1]}: ✗ {_safe(broken)}"])


def _is_handled_next(line: Line, following: Line | None) -> bool:
    return line.kind == "asked" and following is not None and following.inputs == line.said


def _arrows(line: Line) -> list[Arrow]:
    who, process = line.who.partition("/")[0], line.who
    said = _together(line.said)
    match line.kind:
        case "asked":
            return [Arrow(OUTSIDE, OUTSIDE, said)]
        case "call":
            return [Arrow(who, line.whom, line.what, is_lost=not line.harmless)]
        case "fault" | "note":
            whose = "" if line.who == OUTSIDE or "/" not in process else f"{process} "
            return [Arrow(who, who, whose + line.what, is_fault=line.kind == "fault")]
    if not line.inputs:
        return [Arrow(who, who, line.what or "time has come", said)]
    *first, last = [*dict.fromkeys(line.inputs)]
    before = [Arrow(each.by, who, _counted(each, line.inputs)) for each in first]
    return [*before, Arrow(last.by, who, _counted(last, line.inputs), said)]


def _together(said: Iterable[Named]) -> str:
    every = [*said]
    return ", ".join(_counted(each, every) for each in dict.fromkeys(every))


def _counted(each: Named, among: Sequence[Named]) -> str:
    times = among.count(each)
    return f"{each} ×{times}" if times > 1 else str(each)  # noqa: RUF001  the sign for "times"


def _safe(text: str) -> str:
    return text.replace(";", ",").replace("#", "no. ").replace("\n", " ")
