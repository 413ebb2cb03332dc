"""The steps of one key's history under its decider: input, emitted events, state change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeVar, cast

from eventlib.model.event import Event, Meta
from eventlib.model.record import Record
from eventlib.replay.comparison import Change, changes
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import from_ms

S = TypeVar("S")

Kind = Literal["handled", "deadline", "answered", "dropped", "parked", "discarded", "stalled", "retried", "switched"]
"""What a step did.

`handled`: an input was handled. `deadline`: a deadline passed. `answered`: an effect's answer was emitted. `dropped`: a
request was redelivered. `parked`: an input failed, or waits behind one that did. `stalled`: an effect was parked;
`retried`: it runs again. `discarded`: an operator dropped a parked input or effect. `switched`: a rerun's states were
taken over, and the events that only the rerun had emitted were emitted.
"""


class RecordedEvent(NamedTuple):
    """An event on the log. `event` is None if the current code cannot read it; `error` is the reason."""

    record: Record
    event: Event | None
    error: str = ""

    @property
    def type(self) -> str:
        """The event's type, even if it cannot be read."""
        return type(self.event).__name__ if self.event is not None else self.record.type or "(no type)"

    @property
    def id(self) -> str:
        """The event's id."""
        return self.record.event_id

    @property
    def meta(self) -> Meta:
        """The event's metadata on the log."""
        return self.record.meta()


@dataclass(frozen=True, slots=True)
class HistoryStep(Generic[S]):
    """One step of a key under its decider, as its task recorded it.

    `at` (UTC) is the recorded_at of all events emitted in the step. `input` is the consumed event; for `answered`,
    `stalled` and `retried` (and perhaps `discarded`) the effect's request; None for a deadline, named by `deadline`.
    `meta` is what the handler received with it. `emitted` are the emitted events, as on the log. `reason` is why an input was
    dropped or parked, or who took over or discarded, and why. `was_parked` is True for a parked input that was retried;
    `edited` names who replaced its data before that, and why. `code_version` is that of the code that decided, `offset`
    the journal entry's.
    """

    kind: Kind
    at: datetime
    input: RecordedEvent | None
    emitted: tuple[RecordedEvent, ...]
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
        """The state before the step; None if the key was unknown or forgotten."""
        return cast("S | None", self.entry_before.state)

    @property
    def after(self) -> S | None:
        """The state after the step; None if the key is unknown or forgotten."""
        return cast("S | None", self.entry_after.state)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The state change, field by field; an unknown or forgotten key starts from the initial state."""
        some = self.after if self.before is None else self.before
        initial = None if some is None else type(some)()
        before, after = (initial if each is None else each for each in (self.before, self.after))
        return changes(before, after)

    @property
    def deadlines(self) -> Mapping[str, datetime]:
        """The pending deadlines after the step, by name (UTC)."""
        return {name: from_ms(at_ms) for name, at_ms in self.entry_after.due.items()}
