"""Plays a task's journal: the one place where a step is given its meaning, with the records that it refers to."""

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.journal_steps import (
    Act,
    Consumed,
    Discarded,
    Moved,
    Refusal,
    Released,
    act_of,
    with_refusals,
)
from eventlib.replay.task_inputs import TaskInputs
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.inputs import as_written
from eventlib.runtime.parking.control import PauseRequested, ResumeRequested, edit_at, hold_in, request_in
from eventlib.runtime.parking.parked import original_of
from eventlib.runtime.records import JournalEntry, Step
from eventlib.runtime.transaction import Discard, Hold

_PAUSES = {wire_name_of(PauseRequested), wire_name_of(ResumeRequested)}
_OF_ALL_KEYS = {"begin", "reset", "lose", "switch"}


class Player:
    """Plays one task, transaction by transaction.

    Guarantee: acts come in the task's order; inputs of a topic in offset order, each once. With `holds`, acts include what
    operators paused and resumed; acts about other deciders' keys than `only` are omitted.
    """

    def __init__(
        self,
        log: EventLog,
        task: tuple[Service, int],
        inputs: TaskInputs,
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

    async def play(self, entry: JournalEntry) -> list[Act]:
        """Return a transaction's acts. Entries must be passed in order, each once.

        Raises: ContractError when retention has dropped an input, or what was parked.
        """
        found = list[Act]()
        if self._holds:
            found += await holds_in(entry, self._log, (self._control, self._partition))
        for step, refused in with_refusals(entry.steps):
            if step.kind == "run":
                if step.topic != self._control:
                    inputs = await self.inputs.take(step.topic, step.last)
                    found.append(Consumed(step.topic, step.first, step.last, inputs, refused))
            elif self._only is None or self._only == (step.decider, step.key) or step.kind in _OF_ALL_KEYS:
                act = await self._act(step, refused.get(step.decider))
                if act is not None:
                    found.append(act)
        return found

    async def _act(self, step: Step, refused: Refusal | None) -> Act | None:
        if step.kind in {"release", "edit", "discard"} and step.topic:
            return await self._act_about_parked(step, refused)
        act = act_of(step, refused)
        match act:
            case InputStart(topic, first):
                self.inputs.begin(topic, first)
            case Moved(topic, to=to):
                self.inputs.go_to(topic, to)
            case _:
                pass
        return act

    async def _act_about_parked(self, step: Step, refused: Refusal | None) -> Act:
        record = await self._parked(step.topic, step.first)
        if step.kind == "discard":
            return Discarded(step.decider, step.key, record, Discard(step.last, step.request, step.detail))
        control = self._control, self._partition
        edit = await edit_at(self._log, control, step.last) if step.kind == "edit" else None
        return Released(step.decider, step.key, record, refused, edit)

    async def _parked(self, topic: str, offset: int) -> Record:
        """Return a parked input as it is on its topic; if it was damaged and is repaired now, as it was written."""
        records = await self._log.port.read(topic, self._partition, offset, 1)
        if not records or records[0].offset != offset:
            raise ContractError(f"{topic}/{self._partition}/{offset} was released, and is no longer there")
        return await as_written(records[0], self._log.port) or original_of(records[0])[1]


async def holds_in(entry: JournalEntry, log: EventLog, control: TopicPartition) -> list[Hold]:
    """Return the pauses that begin or end in a transaction; a request, refused or not, has it to itself."""
    runs = [step for step in entry.steps if step.topic == control[0]]
    if not runs or any(step.kind != "run" for step in runs):
        return []
    first, last = runs[0].first, runs[-1].last
    records = await log.port.read(*control, first, last - first + 1)
    found = [each for each in records if each.offset <= last and each.type in _PAUSES]
    requests = [await request_in(each, log.codec) for each in found]
    return [hold_in(each) for each in requests if isinstance(each, PauseRequested | ResumeRequested)]
