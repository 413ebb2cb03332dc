"""The steps of one key's history under its decider: what came in, what was said, what became of the state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeVar, cast

from eventlib.log.base import Record
from eventlib.model.event import Event, Meta
from eventlib.replay.comparison import Change, changes
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import from_ms

S = TypeVar("S")

Kind = Literal["handled", "deadline", "answered", "dropped", "parked", "discarded", "stalled", "retried", "switched"]
"""What a step was.

`handled`: an input was handled. `deadline`: one has passed. `answered`: an effect's answer was said. `dropped`: a
request came again. `parked`: an input could not be handled, or waits behind one. `stalled`: an effect was parked;
`retried`: it was let run again. `discarded`: somebody gave up an input, or an effect, that was parked. `switched`: what a rerun knew was taken over, and what only that had said was said.
"""


class RecordedEvent(NamedTuple):
    """An event on the log. `event` is None when today's code cannot read it; `error` says why."""

    record: Record
    event: Event | None
    error: str = ""

    @property
    def type(self) -> str:
        """The event's type, also of one that cannot be read."""
        return type(self.event).__name__ if self.event is not None else self.record.type or "(no type)"

    @property
    def id(self) -> str:
        """The event's id."""
        return self.record.event_id

    @property
    def meta(self) -> Meta:
        """What the log knows of the event."""
        return self.record.meta()


@dataclass(frozen=True, slots=True)
class HistoryStep(Generic[S]):
    """One step of a key under its decider, as its task recorded it.

    `at` (UTC) is the recorded_at of all that was said in the step. `input` is the event that came in; for `answered`,
    `stalled` and `retried` (and perhaps `discarded`) the effect's request; None for a deadline, whose name `deadline` is then. `meta` is what the
    handler was told of it. `said` are the events said, as they stand on the log. `reason` tells why an input was
    dropped or parked, and who has switched or discarded, and why. `was_parked` is True for an input that waited, and was
    tried again; `edited` says then who had it handled with other data than its record has, and why. `code_version` is that of the code that decided, `offset` the journal entry's.
    """

    kind: Kind
    at: datetime
    input: RecordedEvent | None
    said: tuple[RecordedEvent, ...]
    entry_before: KeyedState = field(repr=False)
    entry_after: KeyedState = field(repr=False)
    deadline: str | None
    reason: str
    was_parked: bool
    meta: Meta
    code_version: str
    offset: int
    edited: str = ""

    @property
    def before(self) -> S | None:
        """The state before the step; None when the key was not known, or forgotten."""
        return cast("S | None", self.entry_before.state)

    @property
    def after(self) -> S | None:
        """The state after the step; None when the key is not known, or forgotten."""
        return cast("S | None", self.entry_after.state)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the step did to the state, field by field; a key that is not known, or forgotten, begins anew."""
        some = self.after if self.before is None else self.before
        initial = None if some is None else type(some)()
        before, after = (initial if each is None else each for each in (self.before, self.after))
        return changes(before, after)

    @property
    def deadlines(self) -> Mapping[str, datetime]:
        """The deadlines to come after the step, by name (UTC)."""
        return {name: from_ms(at_ms) for name, at_ms in self.entry_after.due.items()}
