"""Replays one task: the current code on the recorded inputs.

A state is the fold of what was recorded: the handled inputs and the outputs of then. The current outputs of each input
are compared with the recorded ones and dropped, so that a difference is counted once, not again in all that would follow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from eventlib.codec.base import LostSchema
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.amendments import rerun_changelog
from eventlib.replay.claims import EmissionKey, claimed
from eventlib.replay.comparison import Decision, input_of, same
from eventlib.replay.context import ReplayContext, Taken, after
from eventlib.replay.deadlines import Deadlines, PassedDeadline
from eventlib.replay.doubtful_states import DoubtfulStates, has_lost
from eventlib.replay.journal import parked_input, pass_loss, with_refusals
from eventlib.replay.journal_steps import Refusal
from eventlib.replay.old_values import why_of_same_code
from eventlib.replay.partition_buffer import UNREAD, Buffered, Cursor, Item
from eventlib.replay.plans import Plan, decide_now, plans_of
from eventlib.runtime.bootstrap import mark_of
from eventlib.runtime.emit import cause_of_input
from eventlib.runtime.keyed_state import NO_MEMORY, KeyedState, KeyMetadata
from eventlib.runtime.parking.control import edit_at
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import JournalEntry, Step


class TaskReplayer:
    """Replays one task, transaction by transaction."""

    def __init__(self, service: Service, partition: int, context: ReplayContext) -> None:
        self.service = service
        self.partition = partition
        self._context = context
        self._external = context.log.external.topics
        self._plans = plans_of(service, context)
        self._inputs = {topic.name for topic in service.inputs}
        self._cursors: dict[str, Cursor] = {}
        self._begun: dict[str, int] = {}
        self._past_ends: dict[str, int] = {}
        self._deadlines = Deadlines(service, context)
        self._parked: set[tuple[str, str]] = set()
        self._outputs: dict[EmissionKey, list[Buffered]] = {}
        self._decisions = context.tally.decisions
        self._at_ms = 0
        self.code_differs = False
        self._judges = False
        self._sagas = context.asked.sagas
        self._doubtful = DoubtfulStates(service, partition, context)
        self._tap = context.tap

    async def replay(self, entry: JournalEntry, *, lacks: bool = False) -> None:
        """Replay one transaction; what is decided in one that `lacks` damaged outputs is not compared, then and later.

        Raises: ContractError for a step that this version does not know.
        """
        self._at_ms, self._doubtful.lacks = entry.at_ms, lacks
        self._judges = entry.at_ms >= self._context.asked.since_ms and not lacks
        self.code_differs = entry.code_version != self._context.code_version
        window = self._context.window
        self._outputs = window.outputs(self.service.name, window.time(self.service.name, self.partition, entry.at_ms))
        for step, refused in with_refusals(entry.steps):
            match step.kind:
                case "run":
                    await self._run(step, refused)
                case "begin":
                    await self._begin(step)
                case "deadline" if refused:
                    self._parked.add((step.decider, step.key))
                case "deadline":
                    self._pass_deadline(step)
                case "release" | "edit" if step.topic:
                    await self._release(step, refused.get(step.decider))
                case "answer":  # external, unchanged; its decider consumes it later
                    source = f"{self.service.emits_as}/{step.decider}"
                    self._claim((source, step.key, step.request), step.request, step.decider)
                case "discard" if step.topic:
                    self._parked.discard((step.decider, step.key))
                case "stall" | "release" | "discard" | "refuse":
                    pass
                case _:
                    await self._apply_operator_step(step)
        self._doubtful.lacks = False

    def _pass_deadline(self, step: Step) -> None:
        deadline = PassedDeadline(step.decider, step.detail, step.key, step.first, self._at_ms)
        then = self._context.window.read(self._claim_deadline(deadline), ())
        source = f"{self.service.emits_as}/{step.decider}"
        judges = self._doubtful.trusts(source, step.key) and self._judges
        if has_lost(then):
            self._doubtful.lose(f"{source}.{step.detail}", source, step.key)
            judges = False
        self._deadlines.passed(deadline, then, judges=judges, same_code=not self.code_differs)

    async def _apply_operator_step(self, step: Step) -> None:
        """Apply what an operator did to the task."""
        match step.kind:
            case "switch":
                await self._take_over(step)
            case "lose" if step.topic in self._inputs:
                self._context.tally.notes[pass_loss(self.service.name, step)] = None
                self._go_to(step.topic, step.last)
            case "reset" if step.topic in self._inputs:
                self._go_to(step.topic, step.last)
            case "skip" | "reset" | "lose" | "mend" | "clock":
                pass
            case _:
                raise ContractError(
                    f"the journal of {self.service.name} has a step of kind {step.kind!r}, which this version of "
                    "eventlib does not know"
                )

    def _go_to(self, topic: str, offset: int) -> None:
        if topic in self._cursors:
            self._cursors[topic].go_to(offset)
        elif topic in self._begun:
            self._begun[topic] = offset

    async def _cursor(self, topic: str) -> Cursor | None:
        """Return the task's cursor in a topic, from its first input on; None where the current code does not consume it."""
        if topic in self._begun:
            first = self._begun.pop(topic)
            self._cursors[topic] = await self._context.window.cursor((topic, self.partition), first)
        return self._cursors.get(topic)

    async def _take_over(self, step: Step) -> None:
        """Replace the task's states by a rerun's; outputs of that transaction are not compared."""
        for by in [by for by in self._outputs if self._home(by[1] or "") == self.partition]:
            del self._outputs[by]
        deciders = {decider.name: decider for decider in self.service.deciders}
        for name in deciders:
            entries = self._context.entries[name]
            for key in [key for key, _ in entries.all() if self._home(key) == self.partition]:
                entries.put(key, KeyedState())
        self._parked.clear()
        async for known in rerun_changelog(self._context.log, (step.topic, self.partition), deciders):
            if known.entry is not None:
                self._context.entries[known.decider].put(known.key, known.entry)
            elif known.is_parked:
                self._parked.add((known.decider, known.key))
            else:
                self._parked.discard((known.decider, known.key))

    def _home(self, key: str) -> int:
        return self.service.inputs[0].partition_of(key.encode())

    @property
    def unread(self) -> set[str]:
        """The topics that the current code consumes and the task never began."""
        return self._inputs - self._cursors.keys() - self._begun.keys()

    def end(self, decider: Decider[Any], key: str, entry: KeyedState) -> None:
        """Report a key's deadlines that would have passed before the task's last transaction."""
        if self.code_differs and (decider.name, key) not in self._parked:
            is_known = self._doubtful.trusts(f"{self.service.emits_as}/{decider.name}", key)
            judged = is_known and self._context.asked.about(entry.correlation_id)
            self._deadlines.fallen_due(decider, key, entry, self._at_ms, judged=judged)

    async def _begin(self, step: Step) -> None:
        if step.topic in self._inputs:
            self._begun[step.topic] = step.first
            if self.service.effects == "new":
                self._past_ends[step.topic] = step.last

    async def _run(self, run: Step, refused: Mapping[str, Refusal]) -> None:
        cursor = await self._cursor(run.topic)
        if cursor is None:
            return  # a topic that the current code does not consume, or the control topic
        items = await self._context.window.take(cursor, run.last)
        self._doubtful.take(run, refused)
        event_of = self._context.window.event
        if run.first < self._past_ends.get(run.topic, 0):
            items = [Buffered(self._marked(item.record), event_of(item)) for item in items]
        last = items.pop() if refused and items and items[-1].record.offset == run.last else None
        self._decide_all(items, is_external=run.topic in self._external)
        if last is not None:
            self._replay_refused(last.record, event_of(last), refused)

    def _decide_all(self, items: list[Buffered], *, is_external: bool) -> None:
        """Replay inputs of one topic."""
        if is_external:
            for item in items:
                for plan in self._plans_of(item.record):
                    self._decide(plan, item.record, item.event)
            return
        plans, emitted, decisions, window = self._plans, self._outputs, self._decisions, self._context.window
        all_compared = self._judges and self._sagas is None and self._doubtful.all_known and self._tap is None
        for item in items:
            record = item.record
            for plan in plans.get(record.type, _NO_PLANS):
                event = item.event if item.event is not UNREAD else window.event(item)
                fast = None if plan.has_deadlines and self.code_differs else plan.fast_path
                if fast is not None and all_compared and fast.decides(record, event, emitted):
                    decisions[plan.handler] += 1
                else:
                    self._decide(plan, record, event)

    def _marked(self, record: Record) -> Record:
        """Return an input as its deciders saw it: those older than the service's first start are marked."""
        if record.offset < self._past_ends[record.topic]:
            return record.replace(headers=record.headers + mark_of(self.service.emits_as))
        return record

    def _replay_refused(self, record: Record, event: Event | UndecodableRecord, refused: Mapping[str, Refusal]) -> None:
        for plan in self._plans_of(record):
            refusal = refused.get(plan.decider.name)
            if refusal is None:
                self._decide(plan, record, event)
            elif refusal.kind == "park":
                self._parked.add((plan.decider.name, key_text(record)))

    async def _release(self, step: Step, refused: Refusal | None) -> None:
        if refused is not None:
            if refused.kind == "park":
                self._parked.add((step.decider, step.key))
            return
        self._parked.discard((step.decider, step.key))
        log, task = self._context.log, self.partition
        record = shown = await parked_input(log, (step.topic, task), step.first)
        if step.kind == "edit":
            shown = edited(record, await edit_at(log, (self.service.control.name, task), step.last))
        (item,) = await self._context.window.load([shown])
        record, event = record.replace(type=item.record.type), self._context.window.event(item)
        for plan in self._plans_of(record):
            if plan.decider.name == step.decider:
                self._decide(plan, record, event, waited=True)

    def _plans_of(self, record: Record) -> Sequence[Plan]:
        type_ = record.type if record.topic not in self._external else self._context.log.external.type_of(record)
        return self._plans.get(type_, _NO_PLANS)

    def _decide(self, plan: Plan, record: Record, event: Event | UndecodableRecord, *, waited: bool = False) -> None:
        """Replay one input; `waited`: it was parked, so no deadline could pass before it."""
        decider, key = plan.decider, key_text(record)
        entry = plan.entries.get(key)
        if plan.is_plain:  # what cause_of_input returns, inlined for the common case
            cause_id = record.id or record.event_id
            saga = record.correlation_id or cause_id
        else:
            about = entry if plan.is_request else None
            cause = cause_of_input(record, about, external=record.topic in self._external)
            cause_id, saga = cause.id, cause.correlation_id
        judged = (
            self._doubtful.trusts(plan.source, key) and self._judges and (self._sagas is None or saga in self._sagas)
        )
        if plan.has_deadlines and self.code_differs and not waited:
            entry = self._deadlines.fallen_due(decider, key, entry, record.timestamp_ms, judged=judged)
        state, now, failure = decide_now(plan, entry.state, record, event, answers=judged)
        claimed = (
            self._claim((plan.source, key, record.event_id), cause_id, decider.name) if self._outputs else _NOTHING
        )
        then = self._context.window.read(claimed, now) if claimed else _NOTHING
        if isinstance(failure, LostSchema) or has_lost(then):
            self._doubtful.lose(plan.handler, plan.source, key)
            judged = False
        if then:
            try:
                state = after(decider, state, then)
            except Exception as error:  # noqa: BLE001  whatever the current code raises is a difference
                failure = error.with_traceback(None)
            failure = failure or _lost(decider, state, then[-1][1])
        if judged:
            self._decisions[plan.handler] += 1
            self._tell(plan, saga, entry.state, (record, event), then)
            if failure is not None or ((now or then) and not same(now, then)):
                why = "" if self.code_differs else why_of_same_code(event, entry.state)
                decision = Decision(plan.handler, key, self._at_ms, input_of(record, event), then, now, why=why)
                self._context.differs(decision, failure)
        if then or plan.is_request or state is not entry.state:
            last = then[-1][0] if then else None
            if last is None:
                changed_by: str | None = record.event_id
            else:
                changed_by, saga = last.id, last.correlation_id or saga
            memory = _ANSWERED if plan.is_request and entry.memory is NO_MEMORY else entry.memory
            plan.entries.put(key, KeyedState(state, 0, changed_by, saga, None, memory))

    def _tell(self, plan: Plan, saga: str, state: Any, given: Item, then: Sequence[Item]) -> None:
        record, event = given
        if self._tap is not None and isinstance(event, Event):
            name = plan.source, plan.decider, key_text(record), saga
            self._tap(Taken(*name, self._at_ms, state, event, "", record.meta(), then))

    def _claim(self, by: EmissionKey, cause_id: str, decider: str) -> Sequence[Buffered]:
        """Remove and return a cause's outputs."""
        return claimed(self._outputs, by, cause_id, decider, _record_of)

    def _claim_deadline(self, deadline: PassedDeadline) -> Sequence[Buffered]:
        source, key = f"{self.service.emits_as}/{deadline.decider}", deadline.key
        all_of_key = [by for by in self._outputs if by[:2] == (source, key)]
        found = (self._claim(by, deadline.id, deadline.decider) for by in all_of_key)
        return next((each for each in found if each), _NOTHING)


def _record_of(item: Buffered) -> Record:
    return item.record


_NOTHING: Sequence[Any] = ()
_NO_PLANS: Sequence[Plan] = ()
_ANSWERED = KeyMetadata(answered={"": ""})


def _lost(decider: Decider[Any], state: object, emitted: object) -> Exception | None:
    """Return the error for a state that evolve loses after an event that was emitted; None when it does not."""
    if state is None and not decider.may_forget and isinstance(emitted, Event):
        return decider.lost(emitted)
    return None
