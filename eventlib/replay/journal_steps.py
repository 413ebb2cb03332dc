"""What a task can have done, one thing at a time, with the records that it was done with."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from eventlib.log.base import Record
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import Step
from eventlib.runtime.transaction import Discard, Edit


class Refusal(NamedTuple):
    """Why a decider did not handle an input: it was dropped (a request answered before), parked, or given up."""

    kind: Literal["drop", "park", "discard"]
    reason: str


NONE_REFUSED: Mapping[str, Refusal] = {}


class Input(NamedTuple):
    """An input that the task took: each decider that has a handler for its type has handled it, but those that refused.

    `refused` has these by name. `journalled` is False for an input that the journal leaves out, since no decider
    handled its type then; its place among other topics' inputs is not known, within its topic it is.
    """

    record: Record
    refused: Mapping[str, Refusal] = NONE_REFUSED
    journalled: bool = True


class Released(NamedTuple):
    """A parked input that its decider handled again, as it stood on its topic; `refused` tells that it still could not.

    With an `edit`, somebody had it handled with other data.
    """

    decider: str
    key: str
    record: Record
    refused: Refusal | None = None
    edit: Edit | None = None

    @property
    def shown(self) -> Record:
        """The input as its decider saw it."""
        return edited(self.record, self.edit)


class Discarded(NamedTuple):
    """Somebody gave a parked input up: it was not handled, and will not be; `discard` says who, and why."""

    decider: str
    key: str
    record: Record
    discard: Discard


class EffectDiscarded(NamedTuple):
    """Somebody gave a parked effect up: nobody asks for it any more, and it has no answer; `why` says who, and why."""

    decider: str
    key: str
    request_id: str
    why: str


class DeadlinePassed(NamedTuple):
    """A deadline that has passed; `refused` tells why nothing came of it: its handler raised, and the key was parked."""

    decider: str
    key: str
    name: str
    due_ms: int
    refused: Refusal | None = None


class Answered(NamedTuple):
    """An effect's answer was said: the event whose cause is the request."""

    decider: str
    key: str
    request_id: str


class Stalled(NamedTuple):
    """An effect was parked."""

    decider: str
    key: str
    request_id: str
    reason: str


class EffectReleased(NamedTuple):
    """A parked effect was let run again."""

    decider: str
    key: str
    request_id: str


class Begun(NamedTuple):
    """The task read a topic for the first time."""

    beginning: InputStart


class Skipped(NamedTuple):
    """Somebody decided that an input is not to be handled: it is dropped when it comes, and `why` says who and why."""

    event_id: str
    why: str


class Moved(NamedTuple):
    """Somebody moved the task from an offset of a topic to another: what is between them was not handled here."""

    topic: str
    first: int
    to: int
    why: str


class TookOver(NamedTuple):
    """The task took over the states of a rerun of its service: all that it knows is what that knew; `why` says who and why.

    `changelog` is the topic in which the rerun's states stand, in the task's partition.
    """

    changelog: str
    why: str


class Other(NamedTuple):
    """A step of a kind that this version does not know."""

    step: Step


Act = (
    Input
    | Released
    | Discarded
    | DeadlinePassed
    | Answered
    | Stalled
    | EffectReleased
    | EffectDiscarded
    | Begun
    | Skipped
    | Moved
    | TookOver
    | Other
)


class Done(NamedTuple):
    """One transaction of a task: where its journal entry stands, when and by which code it was made, what it did.

    `at_ms` is the recorded_at of everything that it said, `said` how many events that were.
    """

    offset: int
    at_ms: int
    code_version: str
    said: int
    acts: Sequence[Act]
