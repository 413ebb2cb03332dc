"""One task's past, decided again: today's code on the recorded facts.

A state is the fold of what was recorded: the inputs that were handled, and what was said about them then. Today's
answer to each input is compared with the recorded one and then dropped, so that a difference is counted once, and not
again in all that would have followed from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eventlib.errors import ContractError, UndecodableRecord
from eventlib.log.base import Record, key_text
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.identity import derived_id
from eventlib.model.service import Service
from eventlib.replay.amendments import known_by_rerun
from eventlib.replay.comparison import Decision, input_of, same
from eventlib.replay.context import ReplayContext, after
from eventlib.replay.deadlines import Deadlines, Passing
from eventlib.replay.fast_path import FastPathComparer
from eventlib.replay.journal import parked_input, with_refusals
from eventlib.replay.journal_steps import Refusal
from eventlib.replay.partition_buffer import Item, Taker
from eventlib.replay.scanner import SaidBy
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.runtime.bootstrap import mark_of
from eventlib.runtime.emit import cause_of_input
from eventlib.runtime.keyed_state import NO_MEMORY, KeyedState, KeyMetadata
from eventlib.runtime.parking.control import edit_at
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import JournalEntry, Step


class Plan(NamedTuple):
    """What one decider does with one type of event, looked up once; `handler` is `service/decider.handler`.

    An event is plain when it is ours and no request: then its own id and saga are those of its cause, and there is a
    short way to decide on it.
    """

    decider: Decider[Any]
    entries: SpillingCache
    source: str
    handler: str
    wants_meta: bool
    is_request: bool
    is_plain: bool
    has_deadlines: bool
    alike: FastPathComparer | None


class TaskReplayer:
    """Decides one task's past again, transaction by transaction."""

    def __init__(self, service: Service, partition: int, setting: ReplayContext) -> None:
        self.service = service
        self.partition = partition
        self._setting = setting
        self._foreign = setting.log.foreigners.topics
        self._plans: dict[str | None, list[Plan]] = {}
        for decider in service.deciders:
            for event_type in decider.handlers:
                self._plans.setdefault(contract_of(event_type).type, []).append(self._plan(decider, event_type))
        self._inputs = {topic.name for topic in service.inputs}
        self._takers: dict[str, Taker] = {}
        self._past: dict[str, int] = {}
        self._deadlines = Deadlines(service, setting)
        self._parked: set[tuple[str, str]] = set()
        self._said: dict[SaidBy, list[Item]] = {}
        self._decisions = setting.tally.decisions
        self._at_ms = 0
        self._code_differs = False
        self._judges = False
        self._sagas = setting.asked.sagas
        self._doubtful = setting.doubtful

    def _plan(self, decider: Decider[Any], event_type: type[Event]) -> Plan:
        source, contract = f"{self.service.speaks_as}/{decider.name}", contract_of(event_type)
        entries, is_plain = self._setting.entries[decider.name], not contract.request and contract.foreign is None
        return Plan(
            decider,
            entries,
            source,
            f"{source}.{decider.handlers[event_type].name}",
            decider.wants_meta(event_type),
            contract.request,
            is_plain,
            decider.has_deadlines,
            FastPathComparer(decider, event_type, source, entries, self._setting.log.codec) if is_plain else None,
        )

    async def go_on(self, entry: JournalEntry) -> None:
        """Decide one transaction again. Raises: ContractError for a step that this version does not know."""
        self._at_ms = entry.at_ms
        self._judges = entry.at_ms >= self._setting.asked.since_ms
        self._code_differs = entry.code_version != self._setting.code_version
        self._said = self._setting.window.said(self.service.name, entry.at_ms)
        for step, refused in with_refusals(entry.steps):
            match step.kind:
                case "run":
                    await self._run(step, refused)
                case "begin":
                    await self._begin(step)
                case "deadline" if refused:
                    self._parked.add((step.decider, step.key))
                case "deadline":
                    passing = Passing(step.decider, step.detail, step.key, step.first, entry.at_ms)
                    then = self._setting.window.read(self._claimed_deadline(passing), ())
                    self._deadlines.passed(passing, then, judges=self._judges)
                case "release" | "edit" if step.topic:
                    await self._release(step, refused.get(step.decider))
                case "answer":  # from outside, as it was; its decider takes it as an input, later
                    source = f"{self.service.speaks_as}/{step.decider}"
                    self._claimed((source, step.key, step.request), step.request, step.decider)
                case "discard" if step.topic:
                    self._parked.discard((step.decider, step.key))
                case "stall" | "release" | "discard" | "refuse":
                    pass
                case _:
                    await self._acted(step)

    async def _acted(self, step: Step) -> None:
        """Do what people did to the task on purpose."""
        match step.kind:
            case "switch":
                await self._take_over(step)
            case "reset" if step.topic in self._takers:
                self._takers[step.topic].go_to(step.last)
            case "skip" | "reset" | "mend":
                pass
            case _:
                raise ContractError(
                    f"the journal of {self.service.name} has a step of kind {step.kind!r}, which this version of "
                    "eventlib does not know"
                )

    async def _take_over(self, step: Step) -> None:
        """Take what a rerun knew for the task's own; what was said then is no decision of that moment."""
        for by in [by for by in self._said if self._home(by[1] or "") == self.partition]:
            del self._said[by]
        deciders = {decider.name: decider for decider in self.service.deciders}
        for name in deciders:
            entries = self._setting.entries[name]
            for key in [key for key, _ in entries.all() if self._home(key) == self.partition]:
                entries.put(key, KeyedState())
        self._parked.clear()
        async for known in known_by_rerun(self._setting.log, (step.topic, self.partition), deciders):
            if known.entry is not None:
                self._setting.entries[known.decider].put(known.key, known.entry)
            elif known.is_parked:
                self._parked.add((known.decider, known.key))
            else:
                self._parked.discard((known.decider, known.key))

    def _home(self, key: str) -> int:
        return self.service.inputs[0].partition_of(key.encode())

    @property
    def unread(self) -> set[str]:
        """The topics that today's code reads, and that the task has never begun to read."""
        return self._inputs - self._takers.keys()

    def end(self, decider: Decider[Any], key: str, entry: KeyedState) -> None:
        """Look whether one of a key's deadlines would have passed before the task's last transaction."""
        if self._code_differs and (decider.name, key) not in self._parked:
            judged = self._setting.asked.about(entry.correlation_id)
            self._deadlines.fallen_due(decider, key, entry, self._at_ms, judged=judged)

    async def _begin(self, step: Step) -> None:
        if step.topic in self._inputs:
            self._takers[step.topic] = await self._setting.window.taker((step.topic, self.partition), step.first)
            if self.service.effects == "new":
                self._past[step.topic] = step.last

    async def _run(self, run: Step, refused: Mapping[str, Refusal]) -> None:
        taker = self._takers.get(run.topic)
        if taker is None:
            return  # today's code does not read this topic, or nothing but what people tell the task stands there
        items = await self._setting.window.take(taker, run.last)
        if run.first < self._past.get(run.topic, 0):
            items = [self._marked(record, event) for record, event in items]
        last = items.pop() if refused and items and items[-1][0].offset == run.last else None
        if run.topic in self._foreign:
            for record, event in items:
                for plan in self._plans_of(record):
                    self._decide(plan, record, event)
        else:  # the same, for nearly all there is
            plans, said, decisions = self._plans, self._said, self._decisions
            all_judged = self._judges and self._sagas is None and not self._doubtful
            for record, event in items:
                for plan in plans.get(record.type, _NOBODY):
                    short = None if plan.has_deadlines and self._code_differs else plan.alike
                    if short is not None and all_judged and short.decides(record, event, said):
                        decisions[plan.handler] += 1
                    else:
                        self._decide(plan, record, event)
        if last is not None:
            self._take_refused(*last, refused)

    def _marked(self, record: Record, event: Event | UndecodableRecord) -> Item:
        """Return an input as its deciders saw it: those of the service's past bear a mark."""
        if record.offset < self._past[record.topic]:
            record = record._replace(headers=record.headers + mark_of(self.service.speaks_as))
        return record, event

    def _take_refused(self, record: Record, event: Event | UndecodableRecord, refused: Mapping[str, Refusal]) -> None:
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
        log, task = self._setting.log, self.partition
        record = shown = await parked_input(log, (step.topic, task), step.first)
        if step.kind == "edit":
            shown = edited(record, await edit_at(log, (self.service.control.name, task), step.last))
        ((shown, event),) = await self._setting.window.decoded([shown])
        record = record._replace(type=shown.type)
        for plan in self._plans_of(record):
            if plan.decider.name == step.decider:
                self._decide(plan, record, event, waited=True)

    def _plans_of(self, record: Record) -> Sequence[Plan]:
        type_ = record.type if record.topic not in self._foreign else self._setting.log.foreigners.type_of(record)
        return self._plans.get(type_, _NOBODY)

    def _decide(self, plan: Plan, record: Record, event: Event | UndecodableRecord, *, waited: bool = False) -> None:
        """Decide on one input again; `waited` tells that it was parked, so that no deadline could pass before it."""
        decider, key = plan.decider, key_text(record)
        entry = plan.entries.get(key)
        if plan.is_plain:  # the same as a cause has, for nearly all there is
            cause_id = record.id or record.event_id
            saga = record.correlation_id or cause_id
        else:
            about = entry if plan.is_request else None
            cause = cause_of_input(record, about, foreign=record.topic in self._foreign)
            cause_id, saga = cause.id, cause.correlation_id
        judged = self._judges and (self._sagas is None or saga in self._sagas)
        if self._doubtful and (plan.source, key) in self._doubtful:
            judged = False
        if plan.has_deadlines and self._code_differs and not waited:
            entry = self._deadlines.fallen_due(decider, key, entry, record.timestamp_ms, judged=judged)
        state, now, failure = _today(plan, entry.state, record, event, answers=judged)
        then = self._claimed((plan.source, key, record.event_id), cause_id, decider.name) if self._said else _NOTHING
        if then:
            then = self._setting.window.read(then, now)
            try:
                state = after(decider, state, then)
            except Exception as error:  # noqa: BLE001  whatever today's code raises is a difference
                failure = error.with_traceback(None)
        if judged:
            self._decisions[plan.handler] += 1
            if failure is not None or ((now or then) and not same(now, then)):
                decision = Decision(plan.handler, key, self._at_ms, input_of(record, event), then, now)
                self._setting.differs(decision, failure)
        if then or plan.is_request or state is not entry.state:
            last = then[-1][0] if then else None
            if last is None:
                changed_by: str | None = record.event_id
            else:
                changed_by, saga = last.id, last.correlation_id or saga
            memory = _HAS_ANSWERED if plan.is_request and entry.memory is NO_MEMORY else entry.memory
            plan.entries.put(key, KeyedState(state, 0, changed_by, saga, None, memory))

    def _claimed(self, by: SaidBy, cause_id: str, decider: str) -> Sequence[Item]:
        """Take what was said about a cause out of what the service said: by its ids, which derive from the cause."""
        said = self._said.get(by)
        if said is None:
            return _NOTHING
        key = by[1] or ""
        if len(said) == 1 and said[0][0].id == derived_id(cause_id, decider, key, 0):
            del self._said[by]
            return said
        left = {record.event_id: (record, event) for record, event in said}
        found = list[Item]()
        while (item := left.pop(derived_id(cause_id, decider, key, len(found)), None)) is not None:
            found.append(item)
        if left:
            self._said[by] = [*left.values()]
        else:
            del self._said[by]
        return found

    def _claimed_deadline(self, passing: Passing) -> Sequence[Item]:
        source, key = f"{self.service.speaks_as}/{passing.decider}", passing.key
        all_of_key = [by for by in self._said if by[:2] == (source, key)]
        return next((found for by in all_of_key if (found := self._claimed(by, passing.id, passing.decider))), _NOTHING)


def _today(
    plan: Plan, state: Any, record: Record, event: Event | UndecodableRecord, *, answers: bool
) -> tuple[Any, Sequence[Event], Exception | None]:
    """Return the state after an input, what today's code says in answer if wanted, and what it raises."""
    decider, now, failure = plan.decider, _NOTHING, None
    meta = record.meta() if plan.wants_meta else _NO_META
    try:
        if isinstance(event, UndecodableRecord):
            raise event  # noqa: TRY301  a call more is felt here
        state = decider.evolved(decider.initial if state is None else state, event, meta)
        if answers:
            now = decider.answer(decider.initial if state is None else state, event, meta)
    except Exception as error:  # noqa: BLE001  whatever today's code raises is a difference
        failure = error.with_traceback(None)  # which would hold on to this frame, and the frame to it
    return state, now, failure


_NOTHING: Sequence[Any] = ()
_NOBODY: Sequence[Plan] = ()
_NO_META = Meta("")
_HAS_ANSWERED = KeyMetadata(answered={"": ""})
