"""Plans what a task of a rerun does for one transaction of the service's task."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventlib.errors import ContractError
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.replay.journal_steps import (
    Answered,
    Consumed,
    DeadlinePassed,
    Discarded,
    Done,
    EffectDiscarded,
    EffectReleased,
    Moved,
    Released,
    Stalled,
)
from eventlib.replay.task_inputs import TaskInputs
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.inputs import repaired_among
from eventlib.runtime.parking.parked import waiting_behind
from eventlib.runtime.parking.requests import OperatorRequests
from eventlib.runtime.records import effect_key
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Discard, Hold, Inputs, Release, ResetClock, SeekOffset, SkipInput

if TYPE_CHECKING:
    from eventlib.operations.reprocessing.running import Rerun

_NOT_SAID = "(not said)"
Amended = Released | Discarded | EffectReleased | EffectDiscarded
"""What an operator did to something parked."""


@dataclass(slots=True)
class _Part:
    """What is collected from the acts of one transaction."""

    records: list[Record] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    beginnings: list[InputStart] = field(default_factory=list)
    acts: list[SkipInput | SeekOffset | ResetClock] = field(default_factory=list)
    released: Amended | None = None
    hold: Hold | None = None
    due_ms: int | None = None


class Planner:
    """Plans one task's transactions.

    Inputs that the service itself emitted are replaced by the rerun's own; answers are the recorded ones. `unread` are
    topics that the service never consumed: they are consumed by time, since no journal has their order.
    """

    def __init__(self, rerun: "Rerun", task: Task, inputs: TaskInputs, unread: Sequence[str]) -> None:
        self._rerun = rerun
        self._task = task
        self._inputs = inputs
        self._unread = unread
        self._effects = {decider.name: decider.effects for decider in task.service.deciders}

    async def plan(self, done: Done, due_ms: int | None) -> list[Inputs]:
        """Return the transactions; the last one completes the service's.

        `due_ms` is the time up to which deadlines pass that the service did not have.
        """
        part = _Part(await self._unread_inputs(done.at_ms), due_ms=due_ms)
        for act in done.acts:
            await self._add(part, act, done)
        # Stands for the journal entry: the rerun resumes after its offset.
        end = Record(self._rerun.service.journal.name, self._task.partition, done.offset, done.at_ms, None, None)
        at_ms = done.at_ms
        before = [Inputs(at_ms, part.records)] if part.records else []
        if part.beginnings:
            return [*before, Inputs(at_ms, beginnings=part.beginnings), Inputs(at_ms, [end])]
        if part.hold is not None:
            requests = OperatorRequests(self._task, self._rerun.log)
            return [*before, Inputs(at_ms, release=await requests.hold(end, part.hold))]
        if not (part.acts or part.released):
            return [Inputs(at_ms, [*part.records, end], part.answers, part.due_ms)]
        release = await self._release(part.released, end)
        if release is None:
            return [*before, Inputs(at_ms, [end], acts=part.acts)]
        return [*before, Inputs(at_ms, acts=part.acts, release=release)]

    async def _add(self, part: _Part, act: object, done: Done) -> None:
        match act:
            case Consumed():
                for record, _ in act.each():
                    part.records += self._replaced(record)
            case Answered(decider, key, request_id):
                part.answers += await self._answered(decider, key, request_id, done)
            case Stalled(request_id=request_id, reason=reason):
                part.answers.append(Answer(request_id, None, reason))
            case DeadlinePassed(due_ms=due_ms):
                part.due_ms = max(due_ms, part.due_ms or 0)
            case Released() | Discarded() | EffectReleased() | EffectDiscarded():
                part.released = part.released or act
            case _:
                self._add_rare(part, act)

    def _add_rare(self, part: _Part, act: object) -> None:
        position = self._task.positions.next
        match act:
            case InputStart(topic) if topic not in position:
                part.beginnings.append(act)
            case SkipInput() | ResetClock():
                part.acts.append(act)
            case Hold():
                part.hold = act
            case Moved(topic, _, to, why) if to > position.get(topic, to):
                self._rerun.pending.skip(topic, self._task.partition, to)
                part.acts.append(SeekOffset(topic, to, why))
            case _:
                pass  # concerns the service's states alone, such as an earlier takeover

    def _replaced(self, record: Record) -> Sequence[Record]:
        if record.offset < self._task.positions.next.get(record.topic, 0):
            return ()  # consumed before the rerun was interrupted
        if not self._rerun.recorded.is_own(record):
            return (record,)
        # An input that the rerun did not emit is passed as a record of an unhandled type.
        return self._rerun.pending.take(record) or (record.replace(type=_NOT_SAID),)

    async def _unread_inputs(self, until_ms: int) -> list[Record]:
        found = list[Record]()
        for topic in self._unread:
            last = await self._rerun.log.port.offset_at(topic, self._task.partition, until_ms + 1) - 1
            for item in await self._inputs.take(topic, last):
                found += self._replaced(item.record)
        return found

    async def _answered(self, decider: str, key: str, request_id: str, done: Done) -> list[Answer]:
        """Return the recorded answer of an effect, if the rerun requested it too."""
        pending = self._task.state.get(effect_key(request_id))
        if pending is None:
            return []
        answer_id = derived_id(request_id, decider, key, 0)
        record = await self._rerun.recorded.answer(self._task.partition, done.at_ms, answer_id)
        if record is None:
            raise ContractError(
                f"the answer to {pending.type} {request_id} was recorded, and is no longer on the log: has retention "
                "dropped it?"
            )
        answer = await self.answer_in(pending, record)
        return [] if answer is None else [answer]

    async def answer_in(self, request: Record, recorded: Record) -> Answer | None:
        """Return a recorded answer; None if the rerun's effect cannot have it."""
        decider = (request.source or "").partition("/")[2]
        effect = self._effects.get(decider, {}).get(self._rerun.log.choreography.event(request.type or ""))
        answer = await self._rerun.log.decode_now(recorded)
        return Answer(request.event_id, answer) if effect is not None and type(answer) in effect.emits else None

    async def _release(self, released: Amended | None, end: Record) -> Release | None:
        """Return what an operator did to something parked; None if the rerun has handled it already."""
        match released:
            case EffectReleased(request_id=request_id):
                return Release(end, effect_id=request_id)
            case EffectDiscarded(request_id=request_id, why=why):
                return Release(end, effect_id=request_id, amendment=Discard(-1, request_id, why))
            case Released(decider, key, edit=amendment) | Discarded(decider, key, discard=amendment):
                parked = self._task.processor.parked.get(decider, key)
                if parked is not None:
                    place = self._task.service.parked.name, self._task.partition
                    waiting = await waiting_behind(parked, place, self._rerun.log.port)
                    repaired = await repaired_among(waiting, self._rerun.log.port)
                    return Release(end, waiting, amendment=amendment, repaired=repaired)
        return None
