"""A task's transaction: what goes into it, what comes out, and its processing spans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from eventlib.errors import DamagedRecord
from eventlib.model.event import Event
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.records import Pause, Positions, Step


class SkipInput(NamedTuple):
    """An input that is not to be handled, whenever it comes: `why` has who wants that, and the reason.

    With `once` it comes once more, and the mark is gone then; otherwise it is never handled.
    """

    event_id: str
    why: str
    once: bool = False


class SeekOffset(NamedTuple):
    """The task continues in a topic at offset `to`; `why` has who asked for that, and the reason."""

    topic: str
    to: int
    why: str


class ResetClock(NamedTuple):
    """The task's time goes back to that of the transaction; `first_ms` to `last_ms` are the times that a wrong clock has set.

    `why` has who asked for that, and the reason.
    """

    first_ms: int
    last_ms: int
    why: str


class Loss(NamedTuple):
    """The position `first` of a topic is no longer on the log; the task continues at `to`, and `why` says what happened.

    `topic_id` is the topic's identity now; empty where the log does not know it.
    """

    topic: str
    first: int
    to: int
    why: str
    topic_id: str


class ProcessingSpan(NamedTuple):
    """One thing that a decider handled: an input, an effect's answer, or a deadline.

    `context` is the trace context that it belongs to, `emitted` its output records. `record` is the input, or None for
    a deadline, whose name is `deadline`, and for an answer. `failure` is why it was parked. `awaited` is what became of
    what an effect awaits, see `eventlib.runtime.awaited`.
    """

    decider: str
    key: str
    context: str | None
    began_ns: int
    ended_ns: int
    emitted: Sequence[Record] = ()
    record: Record | None = None
    deadline: str = ""
    failure: str = ""
    awaited: str = ""


class Answer(NamedTuple):
    """The answer of an effect: an event, or the reason why it is parked, and where in the application's code that was."""

    request_id: str
    event: Event | None
    reason: str = ""
    traceback: str = ""


class Edit(NamedTuple):
    """New data for the parked input with an id, at `offset` of the control topic. `why` has who asked for it, and the reason."""

    offset: int
    event_id: str
    type: str
    value: bytes
    why: str


class Discard(NamedTuple):
    """The parked input, or effect, with an id is given up, by the request at `offset` of the control topic."""

    offset: int
    event_id: str
    why: str


class Hold(NamedTuple):
    """A pause that begins, or `ends`."""

    pause: Pause
    ends: bool


class Release(NamedTuple):
    """A request to handle a parked key again, with the parked records that wait; or to run a parked effect again.

    `control` is the record that asks for it; None when it is done by who owns the task for a moment. With an edit or
    a discard it is about the one input that the rest waits behind: if that is another one by now, nothing is done.
    `repaired` has, by parked offset, the records that were parked as damaged and have been written again since.
    A `hold` comes first: when a key is resumed, the parked records are those that waited for that. A request that is not
    executed has its `refusal` alone.
    """

    control: Record | None
    waiting: Sequence[Record] = ()
    effect_id: str = ""
    amendment: Edit | Discard | None = None
    repaired: Mapping[int, Record] = MappingProxyType({})
    hold: Hold | None = None
    refusal: Step | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one transaction.

    `records` are handled in order, then deadlines due by `due_ms`; `answers` come first. A `release` is handled in a
    transaction of its own, and so are `beginnings`, `losses` and an input that is `damaged`; `acts` come before anything else.
    At most `most_due` deadlines pass. With `unhandled`, its records and the first deadline are parked for that reason, and
    not handled. `schemas_known` says that all registered schemas were just read: bytes with another id are
    undecodable then.
    """

    now_ms: int
    records: Sequence[Record] = ()
    answers: Sequence[Answer] = ()
    due_ms: int | None = None
    release: Release | None = None
    beginnings: Sequence[InputStart] = ()
    losses: Sequence[Loss] = ()
    acts: Sequence[SkipInput | SeekOffset | ResetClock] = ()
    schemas_known: bool = False
    damaged: DamagedRecord | None = None
    most_due: int | None = None
    unhandled: str = ""


class Passed(NamedTuple):
    """The inputs that a transaction covers: the numbers of records and answers that it was opened with, and of those taken later."""

    records: int
    answers: int
    more: int


Failure = tuple[str, str, KeptError]
"""A decider, a key, and why its input could not be handled."""


class Transaction(NamedTuple):
    """The records that are appended together, and what follows once they are.

    `emitted` has the event in each record of `events`, or None. `parks` is True when inputs were parked. `requested` are
    the effects to start, `spans` are for the observer of the task, `failures` tell why inputs were parked.
    """

    events: list[Record]
    emitted: list[Event | None]
    changes: list[Record]
    journal: list[Record]
    positions: Positions
    passed: Passed
    parks: bool
    requested: list[tuple[Record, Event | None]]
    spans: Sequence[ProcessingSpan] = ()
    failures: Sequence[Failure] = ()

    @property
    def records(self) -> list[Record]:
        """Every record of the transaction, in the order of the log."""
        return [*self.events, *self.changes, *self.journal]
