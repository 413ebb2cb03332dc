"""What happened in a schedule, line by line, for whoever wants to know why a law broke."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from eventlib.log.port import Record, key_text
from eventlib.runtime.worker import Worker

OUTSIDE = "outside"


class Named(NamedTuple):
    """An event as a story names it: its type, what it is about, and which service said it."""

    type: str
    about: str
    by: str

    def __str__(self) -> str:
        return f"{self.type} {self.about}"


@dataclass(frozen=True)
class Line:
    """One line of a story; `who` is a service, or the outside.

    `asked`: `said` was put on the log from outside. `turn`: `who` handled `inputs`, or `what`, and put `said` on the
    log. `call`: `who` called `whom`, and `what` became of it; `harmless` when it went well. `fault` and `note`: `what`
    happened to `who`.
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
    """Collects what happens at `now` (the step, and the time in ms); one that is not kept costs next to nothing.

    `events` are the topics with events on them, `handled` the types that a service has a handler for.
    """

    def __init__(self, events: Collection[str], handled: Collection[tuple[str, str]], *, kept: bool) -> None:
        self.lines = list[Line]()
        self.kept = kept
        self.now = (0, 0)
        self._events = events
        self._handled = handled

    def asked(self, record: Record) -> None:
        """Tell that somebody outside puts an event on the log."""
        if self.kept:
            self.lines.append(Line("asked", *self.now, said=(_named(record),)))

    def turn(self, who: str, worker: Worker, what: str = "") -> None:
        """Tell that a task begins a turn, or goes on with one."""
        if self.kept:
            service = worker.task.service.name
            inputs = tuple(_named(record) for record in worker.inbox if (service, record.type) in self._handled)
            answers = "answer" if worker.answers else ""
            self.lines.append(Line("turn", *self.now, who, what=what or answers, inputs=inputs))

    def said(self, records: Sequence[Record]) -> None:
        """Tell that what the turn at hand says is on the log."""
        if self.kept and self.lines and self.lines[-1].kind == "turn":
            said = tuple(_named(record) for record in records if record.topic in self._events)
            self.lines[-1] = replace(self.lines[-1], said=self.lines[-1].said + said)

    def call(self, who: str, whom: str, what: str, *, harmless: bool) -> None:
        """Tell that an effect calls the outside world."""
        if self.kept:
            self.lines.append(Line("call", *self.now, who, whom, what, harmless=harmless))

    def fault(self, what: str, who: str = OUTSIDE) -> None:
        """Tell that something goes wrong."""
        if self.kept:
            self.lines.append(Line("fault", *self.now, who, what=what, harmless=False))

    def note(self, what: str, who: str = OUTSIDE) -> None:
        """Tell what follows from something that went wrong."""
        if self.kept:
            self.lines.append(Line("note", *self.now, who, what=what))

    def told(self) -> tuple[Line, ...]:
        """Return the lines in which something happened."""
        return tuple(line for line in self.lines if line.kind != "turn" or line.inputs or line.said)


def _named(record: Record) -> Named:
    return Named(record.type or "?", key_text(record), (record.source or OUTSIDE).partition("/")[0])
