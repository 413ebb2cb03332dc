"""The acts of a task, each with the records it concerns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from eventlib.errors import ContractError
from eventlib.model.identity import deadline_id
from eventlib.model.record import Record
from eventlib.replay.partition_buffer import Buffered
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import Step
from eventlib.runtime.transaction import Discard, Edit, Hold, ResetClock, SkipInput


class Refusal(NamedTuple):
    """Why a decider did not handle an input: dropped (a request answered before), parked, or discarded."""

    kind: Literal["drop", "park", "discard"]
    reason: str


NONE_REFUSED: Mapping[str, Refusal] = {}


class Consumed(NamedTuple):
    """Inputs that the task consumed from a topic, up to the offset `last`, in order.

    Every decider with a handler for an input's type handled it; those in `refused` did not handle the input at `last`.
    Inputs before `first` are not in the journal, because no decider handled their type then: their order is known within
    the topic only.
    """

    topic: str
    first: int
    last: int
    inputs: Sequence[Buffered]
    refused: Mapping[str, Refusal] = NONE_REFUSED

    def each(self) -> Iterator[tuple[Record, Mapping[str, Refusal]]]:
        """Yield each input with its refusals."""
        for item in self.inputs:
            yield item.record, self.refused if item.record.offset == self.last else NONE_REFUSED


class Released(NamedTuple):
    """A parked input that its decider handled again, as it was on its topic; with `refused` it failed again.

    With an `edit`, an operator replaced its data.
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
    """An operator discarded a parked input: it is never handled; `discard` names who, and why."""

    decider: str
    key: str
    record: Record
    discard: Discard


class EffectDiscarded(NamedTuple):
    """An operator discarded a parked effect: it never runs and has no answer; `why` names who, and why."""

    decider: str
    key: str
    request_id: str
    why: str


class DeadlinePassed(NamedTuple):
    """A deadline that passed; with `refused` its handler raised, and the key was parked.

    `at_ms` is not before it is due; 0 where it is the transaction's time.
    """

    decider: str
    key: str
    name: str
    due_ms: int
    refused: Refusal | None = None
    at_ms: int = 0

    @property
    def id(self) -> str:
        """The id from which the ids of the events emitted for it derive."""
        return deadline_id(self.decider, self.key, self.name, self.due_ms)


class Answered(NamedTuple):
    """An effect's answer was emitted: the event whose cause is the request."""

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
    """A parked effect was retried."""

    decider: str
    key: str
    request_id: str


class Moved(NamedTuple):
    """The task went from one offset of a topic to another: the inputs between them were not handled here.

    An operator moved it, or they were gone before it read them (`is_loss`); then `to` is before `first` where those that
    it handled before are gone as well, since the topic was another one then.
    """

    topic: str
    first: int
    to: int
    why: str
    is_loss: bool = False

    def loss(self, service: str) -> str:
        """Return what a replay says of inputs that were gone; nothing where an operator moved the task.

        Raises: ContractError where those that it handled before are gone as well.
        """
        if not self.is_loss:
            return ""
        if self.to < self.first:
            raise ContractError(
                f"{service} has handled inputs of {self.topic} that are not on the log any more ({self.why}), so its "
                "journal cannot be replayed: leave the service out, and name the others"
            )
        return f"{service} went on without inputs that were gone before it read them: {self.why}"


class TookOver(NamedTuple):
    """The task replaced all its states by those of a rerun of its service; `why` names who did it, and why.

    `changelog` is the topic with the rerun's states, in the task's partition.
    """

    changelog: str
    why: str


class Other(NamedTuple):
    """A step of a kind that this version does not know."""

    step: Step


Act = (
    Consumed
    | Released
    | Discarded
    | DeadlinePassed
    | Answered
    | Stalled
    | Hold
    | ResetClock
    | EffectReleased
    | EffectDiscarded
    | InputStart
    | SkipInput
    | Moved
    | TookOver
    | Other
)


class Done(NamedTuple):
    """One transaction of a task: its journal entry's offset, time and code version, and its acts.

    `at_ms` is the recorded_at of all events it emitted, `said` their number.
    """

    offset: int
    at_ms: int
    code_version: str
    said: int
    acts: Sequence[Act]


def act_of(step: Step, refused: Refusal | None) -> Act | None:  # noqa: C901, PLR0911  one return for each kind
    """Return the act that a step is, but for a run of inputs and for what names a parked input; None if it changes nothing."""
    match step:
        case Step(kind="begin"):
            return InputStart(step.topic, step.first, step.last, step.detail)
        case Step(kind="reset" | "lose"):
            return Moved(step.topic, step.first, step.last, step.detail, is_loss=step.kind == "lose")
        case Step(kind="deadline"):
            return DeadlinePassed(step.decider, step.key, step.detail, step.first, refused)
        case Step(kind="answer"):
            return Answered(step.decider, step.key, step.request)
        case Step(kind="stall"):
            return Stalled(step.decider, step.key, step.request, step.detail)
        case Step(kind="release", topic=""):
            return EffectReleased(step.decider, step.key, step.request)
        case Step(kind="discard", topic=""):
            return EffectDiscarded(step.decider, step.key, step.request, step.detail)
        case Step(kind="skip"):
            return SkipInput(step.request, step.detail)
        case Step(kind="clock"):
            return ResetClock(step.first, step.last, step.detail)
        case Step(kind="switch"):
            return TookOver(step.topic, step.detail)
        case Step(kind="refuse" | "mend"):
            return None
        case _:
            return Other(step)


def with_refusals(steps: Sequence[Step]) -> Iterator[tuple[Step, Mapping[str, Refusal]]]:
    """Yield each step that is not a refusal, with the refusals of it by decider."""
    at = 0
    while at < len(steps):
        step = steps[at]
        at += 1
        if at == len(steps) or steps[at].kind not in _REFUSALS:
            yield step, NONE_REFUSED
            continue
        refused = dict[str, Refusal]()
        while at < len(steps) and (kind := _REFUSALS.get(steps[at].kind)) is not None:
            refused[steps[at].decider] = Refusal(kind, steps[at].detail)
            at += 1
        yield step, refused


_REFUSALS: dict[str, Literal["drop", "park"]] = {"drop": "drop", "park": "park"}
