"""Plays a task's journal: the one place where a step is given its meaning, with the records that it refers to."""

from collections.abc import Sequence
from typing import Protocol

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.journal import parked_input, with_refusals
from eventlib.replay.journal_steps import (
    Act,
    Answered,
    Begun,
    ClockSet,
    Consumed,
    DeadlinePassed,
    Discarded,
    EffectDiscarded,
    EffectReleased,
    Held,
    Moved,
    Other,
    Refusal,
    Released,
    Skipped,
    Stalled,
    TookOver,
)
from eventlib.replay.partition_buffer import Buffered
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.parking.control import PauseRequested, ResumeRequested, edit_at, hold_in, request_in
from eventlib.runtime.records import JournalEntry, Step
from eventlib.runtime.transaction import Discard

_PAUSES = {wire_name_of(PauseRequested), wire_name_of(ResumeRequested)}
_CHANGES_NOTHING = {"refuse", "mend"}
_OF_ALL_KEYS = {"begin", "reset", "lose", "switch"}


class Inputs(Protocol):
    """The inputs of one task: pulled from its log, or from what a scan of many tasks has read or was given."""

    def begin(self, topic: str, first: int) -> None:
        """Start a topic at an offset, as the task did when it first read it."""

    async def take(self, topic: str, last: int) -> Sequence[Buffered]:
        """Return a topic's inputs up to an offset that were not returned before."""

    def go_to(self, topic: str, offset: int) -> None:
        """Continue a topic at any offset, if it was begun."""


class Visitor(Protocol):
    """Makes something of what a task did."""

    async def visit(self, act: Act) -> None:
        """Take the task's next act."""


class Player:
    """Plays one task, transaction by transaction.

    Guarantee: acts come in the task's order; inputs of a topic in offset order, each once. With `holds`, acts include what
    operators paused and resumed; acts about other deciders' keys than `only` are omitted.
    """

    def __init__(
        self,
        log: EventLog,
        task: tuple[Service, int],
        inputs: Inputs,
        *,
        only: tuple[str, str] | None = None,
        holds: bool = False,
    ) -> None:
        self._log = log
        self._service, self._partition = task
        self._control = self._service.control.name
        self._only = only
        self._holds = holds
        self.inputs = inputs

    async def play(self, entry: JournalEntry, visitor: Visitor) -> None:
        """Let a visitor take a transaction's acts. Entries must be passed in order, each once.

        Raises: ContractError when retention has dropped an input.
        """
        if self._holds:
            for held in await holds_in(entry, self._log, (self._control, self._partition)):
                await visitor.visit(held)
        for step, refused in with_refusals(entry.steps):
            if step.kind == "run":
                if step.topic != self._control:
                    inputs = await self.inputs.take(step.topic, step.last)
                    await visitor.visit(Consumed(step.topic, step.first, step.last, inputs, refused))
            elif step.kind not in _CHANGES_NOTHING and (
                self._only is None or self._only == (step.decider, step.key) or step.kind in _OF_ALL_KEYS
            ):
                await visitor.visit(await self._act(step, refused.get(step.decider)))

    async def acts(self, entry: JournalEntry) -> list[Act]:
        """Return a transaction's acts; see `play`."""
        found = _Collected()
        await self.play(entry, found)
        return found.acts

    async def _act(self, step: Step, refused: Refusal | None) -> Act:  # noqa: PLR0911  one return for each kind
        match step:
            case Step(kind="begin"):
                self.inputs.begin(step.topic, step.first)
                return Begun(InputStart(step.topic, step.first, step.last, step.detail))
            case Step(kind="reset" | "lose"):
                self.inputs.go_to(step.topic, step.last)
                return Moved(step.topic, step.first, step.last, step.detail, is_loss=step.kind == "lose")
            case Step(kind="deadline"):
                return DeadlinePassed(step.decider, step.key, step.detail, step.first, refused)
            case Step(kind="answer"):
                return Answered(step.decider, step.key, step.request)
            case Step(kind="skip"):
                return Skipped(step.request, step.detail)
            case Step(kind="clock"):
                return ClockSet(step.first, step.last, step.detail)
            case Step(kind="switch"):
                return TookOver(step.topic, step.detail)
            case _:
                return await self._act_about_parked(step, refused)

    async def _act_about_parked(self, step: Step, refused: Refusal | None) -> Act:
        match step:
            case Step(kind="release" | "edit" | "discard", topic=topic) if topic:
                record = await self._parked(step)
                if step.kind == "discard":
                    return Discarded(step.decider, step.key, record, Discard(step.last, step.request, step.detail))
                control = self._control, self._partition
                edit = await edit_at(self._log, control, step.last) if step.kind == "edit" else None
                return Released(step.decider, step.key, record, refused, edit)
            case Step(kind="release"):
                return EffectReleased(step.decider, step.key, step.request)
            case Step(kind="discard"):
                return EffectDiscarded(step.decider, step.key, step.request, step.detail)
            case Step(kind="stall"):
                return Stalled(step.decider, step.key, step.request, step.detail)
            case _:
                return Other(step)

    async def _parked(self, step: Step) -> Record:
        return await parked_input(self._log, (step.topic, self._partition), step.first)


class _Collected:
    """Collects acts."""

    def __init__(self) -> None:
        self.acts = list[Act]()

    async def visit(self, act: Act) -> None:
        self.acts.append(act)


async def holds_in(entry: JournalEntry, log: EventLog, control: TopicPartition) -> list[Held]:
    """Return the pauses that begin or end in a transaction; a request, refused or not, has it to itself."""
    runs = [step for step in entry.steps if step.topic == control[0]]
    if not runs or any(step.kind != "run" for step in runs):
        return []
    first, last = runs[0].first, runs[-1].last
    records = await log.port.read(*control, first, last - first + 1)
    found = [each for each in records if each.offset <= last and each.type in _PAUSES]
    requests = [await request_in(each, log.codec) for each in found]
    return [Held(hold_in(each)) for each in requests if isinstance(each, PauseRequested | ResumeRequested)]
