"""The story of a schedule: line by line, and as a sequence diagram."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, NamedTuple

from eventlib.model.record import Record, key_text
from eventlib.runtime.committer import TaskCommitter

OUTSIDE = "outside"


class Named(NamedTuple):
    """An event in a story: its type, its key, and the service that emitted it."""

    type: str
    about: str
    by: str

    def __str__(self) -> str:
        return f"{self.type} {self.about}"


@dataclass(frozen=True)
class Line:
    """One line of a story; `who` is a service, or the outside.

    `asked`: `said` was published from outside. `turn`: `who` handled `inputs`, or `what`, and emitted `said`. `call`: `who`
    called `whom`, with the outcome `what`; `harmless` when it succeeded. `fault` and `note`: `what` happened to `who`.
    """

    kind: Literal["asked", "turn", "call", "fault", "note"]
    step: int
    at_ms: int
    who: str = OUTSIDE
    whom: str = ""
    what: str = ""
    inputs: tuple[Named, ...] = ()
    said: tuple[Named, ...] = ()
    harmless: bool = True


class Story:
    """Collects what happens at `now` (the step, and the time in ms); without recording it costs almost nothing.

    `events` are the topics with events on them, `handled` the types that a service has a handler for.
    """

    def __init__(self, events: Collection[str], handled: Collection[tuple[str, str]], *, kept: bool) -> None:
        self.lines = list[Line]()
        self.kept = kept
        self.now = (0, 0)
        self._events = events
        self._handled = handled

    def asked(self, record: Record) -> None:
        """Record an external event."""
        if self.kept:
            self.lines.append(Line("asked", *self.now, said=(_named(record),)))

    def turn(self, who: str, worker: TaskCommitter, what: str = "") -> None:
        """Record that a task begins or continues a turn."""
        if self.kept:
            service = worker.task.service.name
            inputs = tuple(_named(record) for record in worker.inbox if (service, record.type) in self._handled)
            answers = "answer" if worker.answers else ""
            self.lines.append(Line("turn", *self.now, who, what=what or answers, inputs=inputs))

    def said(self, records: Sequence[Record]) -> None:
        """Record that the current turn's events are on the log."""
        if self.kept and self.lines and self.lines[-1].kind == "turn":
            said = tuple(_named(record) for record in records if record.topic in self._events)
            self.lines[-1] = replace(self.lines[-1], said=self.lines[-1].said + said)

    def call(self, who: str, whom: str, what: str, *, harmless: bool) -> None:
        """Record that an effect calls an external system."""
        if self.kept:
            self.lines.append(Line("call", *self.now, who, whom, what, harmless=harmless))

    def fault(self, what: str, who: str = OUTSIDE) -> None:
        """Record a fault."""
        if self.kept:
            self.lines.append(Line("fault", *self.now, who, what=what, harmless=False))

    def note(self, what: str, who: str = OUTSIDE) -> None:
        """Record a consequence of a fault."""
        if self.kept:
            self.lines.append(Line("note", *self.now, who, what=what))

    def told(self) -> tuple[Line, ...]:
        """Return the lines in which something happened."""
        return tuple(line for line in self.lines if line.kind != "turn" or line.inputs or line.said)


def _named(record: Record) -> Named:
    return Named(record.type or "?", key_text(record), (record.source or OUTSIDE).partition("/")[0])


@dataclass(frozen=True)
class Arrow:
    """One line of a diagram: from `source` to `target`, which may be the same; `aside` is its consequence."""

    source: str
    target: str
    text: str
    aside: str = ""
    is_fault: bool = False
    is_lost: bool = False


def arrows(story: Iterable[Line]) -> list[Arrow]:
    """Return a story as arrows between participants.

    An external event is an arrow when it is handled; if that is later, it has a line of its own as well.
    """
    lines = [*story]
    shown = [line for line, following in zip_longest(lines, lines[1:]) if not _is_handled_next(line, following)]
    return [arrow for line in shown for arrow in _arrows(line)]


def participants(drawn: Sequence[Arrow]) -> list[str]:
    """Return the participants, in order of appearance."""
    return list(dict.fromkeys([OUTSIDE, *(name for arrow in drawn for name in (arrow.source, arrow.target))]))


def mermaid(drawn: Sequence[Arrow], broken: str) -> str:
    """Return a Mermaid sequence diagram, with the broken invariant under it."""
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
