"""Compares one task: the current code on the recorded inputs, with what was recorded.

A state is the fold of what was recorded: the handled inputs and the outputs of then. The current outputs of each input
are compared with the recorded ones and dropped, so that a difference is counted once, not again in all that would follow.
"""

from collections.abc import Sequence
from typing import Any

from eventlib.codec.base import LostSchema
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.amendments import rerun_changelog
from eventlib.replay.comparison import Decision, input_of, same
from eventlib.replay.context import SAME_CODE, ReplayContext, Taken, after
from eventlib.replay.deadlines import Deadlines
from eventlib.replay.decider_player import DeciderPlayer, Parked
from eventlib.replay.journal_steps import Act, Consumed, DeadlinePassed, Moved, Other
from eventlib.replay.partition_buffer import UNREAD, Buffered, Item
from eventlib.replay.plans import Plan, change_by, decide_now, plans_of
from eventlib.runtime.emit import cause_of_input
from eventlib.runtime.keyed_state import NO_MEMORY, KeyedState, KeyMetadata
from eventlib.runtime.records import JournalEntry

_BEHIND_MS = 1_000
"""A task that handles an input so much later than it came was behind."""
_CATCHES_UP_MS = 60_000
"""So long after a task was behind, its deadlines may still be late."""


class Compare:
    """Compares one task's decisions, transaction by transaction."""

    def __init__(self, service: Service, partition: int, context: ReplayContext) -> None:
        self.service = service
        self.partition = partition
        self.player = DeciderPlayer(
            (service, partition), context.window, plans_of(service, context.entries, context.window), self
        )
        self._context = context
        self._deadlines = Deadlines(service, context)
        self._decisions = context.tally.decisions
        self.code_differs = False
        self._judges = False
        self._behind_ms = -_CATCHES_UP_MS
        self._sagas = context.asked.sagas
        self._doubtful = DoubtfulStates(service, partition, context)
        self._tap = context.tap

    async def replay(self, entry: JournalEntry, *, lacks: bool = False) -> None:
        """Replay one transaction; what is decided in one that `lacks` damaged outputs is not compared, then and later.

        Raises: ContractError for a step that this version does not know.
        """
        self._doubtful.lacks = lacks
        self._judges = entry.at_ms >= self._context.asked.since_ms and not lacks
        self.code_differs = entry.code_version != self._context.code_version
        await self.player.play(entry)
        self._doubtful.lacks = False

    def pass_deadline(self, deadline: DeadlinePassed) -> None:
        """See `DeciderVisitor.pass_deadline`."""
        then = self._context.window.read(self.player.claim_deadline(deadline), ())
        source = self.player.source(deadline.decider)
        judges = self._doubtful.trusts(source, deadline.key) and self._judges
        if has_lost(then):
            self._doubtful.lose(f"{source}.{deadline.name}", source, deadline.key)
            judges = False
        self._deadlines.passed(deadline, then, judges=judges, same_code=not self.code_differs)

    def note(self, act: Act | Parked, emitted: Sequence[Buffered] = ()) -> None:  # noqa: ARG002  answers are external
        """See `DeciderVisitor.note`."""
        match act:
            case Consumed():
                self._doubtful.take(act)
            case Moved(topic) if self.player.inputs.has(topic) and (loss := act.loss(self.service.name)):
                self._context.tally.notes[loss] = None
            case Other(step):
                raise ContractError(
                    f"the journal of {self.service.name} has a step of kind {step.kind!r}, which this version of "
                    "eventlib does not know"
                )
            case _:
                pass

    async def take_over(self, changelog: str) -> None:
        """Replace the task's states by a rerun's; outputs of that transaction are not compared."""
        outputs, parked = self.player.outputs, self.player.parked
        for by in [by for by in outputs if self._home(by[1] or "") == self.partition]:
            del outputs[by]
        deciders = {decider.name: decider for decider in self.service.deciders}
        for name in deciders:
            entries = self._context.entries[name]
            for key in [key for key, _ in entries.all() if self._home(key) == self.partition]:
                entries.put(key, KeyedState())
        async for known in rerun_changelog(self._context.log, (changelog, self.partition), deciders):
            if known.entry is not None:
                self._context.entries[known.decider].put(known.key, known.entry)
            elif known.is_parked:
                parked.add((known.decider, known.key))
            else:
                parked.discard((known.decider, known.key))

    def _home(self, key: str) -> int:
        return self.service.inputs[0].partition_of(key.encode())

    def end(self, decider: Decider[Any], key: str, entry: KeyedState) -> None:
        """Report a key's deadlines that would have passed before the task's last transaction."""
        if self.code_differs and (decider.name, key) not in self.player.parked:
            is_known = self._doubtful.trusts(f"{self.service.emits_as}/{decider.name}", key)
            judged = is_known and self._context.asked.about(entry.correlation_id)
            until_ms = self.player.at_ms - self._context.patience_ms
            self._deadlines.fallen_due(decider, key, entry, until_ms, judged=judged and self._is_current)

    def _is_in_time(self, record: Record) -> bool:
        """Tell whether the task was not behind when it handled an input, nor shortly before: its deadlines wait for that."""
        if self.player.at_ms - record.timestamp_ms > _BEHIND_MS:
            self._behind_ms = self.player.at_ms
        return self._is_current

    def was_away(self, at_ms: int) -> None:
        """Take note that no process ran the task at a time: what follows is late, and so are its deadlines."""
        self._behind_ms = max(self._behind_ms, at_ms)

    @property
    def _is_current(self) -> bool:
        return self.player.at_ms - self._behind_ms > _CATCHES_UP_MS

    def handle_all(self, items: Sequence[Buffered]) -> None:
        """See `DeciderVisitor.handle_all`."""
        if not items or self.player.is_external(items[0].record.topic):
            self.player.each(items)
            return
        plans, emitted, decisions = self.player.plans, self.player.outputs, self._decisions
        event_of = self._context.window.event
        all_compared = self._judges and self._sagas is None and self._doubtful.all_known and self._tap is None
        for item in items:
            record = item.record
            for plan in plans.get(record.type, _NOTHING):
                event = item.event if item.event is not UNREAD else event_of(item)
                fast = None if plan.has_deadlines and self.code_differs else plan.fast_path
                if fast is not None and all_compared and fast.decides(record, event, emitted):
                    decisions[plan.handler] += 1
                else:
                    self.handle(plan, record, event)

    def handle(self, plan: Plan, record: Record, event: Event | UndecodableRecord, *, waited: bool = False) -> None:
        """Compare one input; no deadline could pass before one that `waited`."""
        decider, key = plan.decider, key_text(record)
        entry = plan.entries.get(key)
        if plan.is_plain:  # what cause_of_input returns, inlined for the common case
            cause_id = record.id or record.event_id
            saga = record.correlation_id or cause_id
        else:
            about = entry if plan.is_request else None
            cause = cause_of_input(record, about, external=self.player.is_external(record.topic))
            cause_id, saga = cause.id, cause.correlation_id
        judged = (
            self._doubtful.trusts(plan.source, key) and self._judges and (self._sagas is None or saga in self._sagas)
        )
        if plan.has_deadlines and self.code_differs and not waited:
            until_ms = record.timestamp_ms - self._context.patience_ms
            in_time = not self._context.patience_ms or self._is_in_time(record)
            entry = self._deadlines.fallen_due(decider, key, entry, until_ms, judged=judged and in_time)
        state, now, failure = decide_now(plan, entry.state, record, event, answers=judged)
        player, then = self.player, _NOTHING
        if player.outputs and (found := player.claim((plan.source, key, record.event_id), cause_id, decider.name)):
            then = self._context.window.read(found, now)
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
                why = "" if self.code_differs else SAME_CODE
                decision = Decision(plan.handler, key, self.player.at_ms, input_of(record, event), then, now, why=why)
                self._context.differs(decision, failure)
        change = change_by(plan, entry.state, state, record, saga, then)
        if change is not None:
            memory = _ANSWERED if plan.is_request and entry.memory is NO_MEMORY else entry.memory
            plan.entries.put(key, KeyedState(state, 0, *change, None, memory))

    def _tell(self, plan: Plan, saga: str, state: Any, given: Item, then: Sequence[Item]) -> None:
        record, event = given
        if self._tap is not None and isinstance(event, Event):
            name = plan.source, plan.decider, key_text(record), saga
            self._tap(Taken(*name, self.player.at_ms, state, event, "", record.meta(), then))


_NOTHING: Sequence[Any] = ()
_ANSWERED = KeyMetadata(answered={"": ""})


def _lost(decider: Decider[Any], state: object, emitted: object) -> Exception | None:
    """Return the error for a state that evolve loses after an event that was emitted; None when it does not."""
    if state is None and not decider.may_forget and isinstance(emitted, Event):
        return decider.lost(emitted)
    return None


class DoubtfulStates:
    """The states of one task that are not known, by decider (`service/decider`) and key: nothing in them is compared.

    `lacks` is set while a transaction is replayed of which some outputs are damaged: whose they were cannot be known.
    """

    def __init__(self, service: Service, partition: int, context: ReplayContext) -> None:
        self._service = service
        self._partition = partition
        self._context = context
        self._keys = set[tuple[str, str | None]]()
        self.lacks = False

    @property
    def all_known(self) -> bool:
        """Whether there are none."""
        return not self._keys

    def trusts(self, source: str, key: str) -> bool:
        """Return whether a key's state depends on nothing that is damaged; where outputs are, it does from now on."""
        if self.lacks:
            self._keys.add((source, key))
        return not self._keys or self._keys.isdisjoint([(source, key), (source, None)])

    def lose(self, handler: str, source: str, key: str) -> None:
        """Trust no state of a key any more: an input or an output of it cannot be read since a schema is damaged."""
        self._keys.add((source, key))
        tally = self._context.tally
        tally.damaged.update(map(str, self._context.log.codec.registry.damaged))
        tally.notes[f"{handler} is not compared where a schema is damaged, nor what follows under the same key"] = None

    def take(self, run: Consumed) -> None:
        """Trust no state any more of deciders that handled a damaged input of a run: of which key, cannot be known."""
        for offset in self._context.window.damaged_in((run.topic, self._partition)):
            if not run.first <= offset <= run.last:
                continue
            for decider in self._service.deciders:
                is_refused = offset == run.last and decider.name in run.refused
                if not is_refused and any(contract_of(each).topic.name == run.topic for each in decider.handlers):
                    source = f"{self._service.emits_as}/{decider.name}"
                    self._keys.add((source, None))
                    place = f"{run.topic}/{self._partition}/{offset}"
                    note = f"{source} is compared in partition {self._partition} up to {place}, which is damaged"
                    self._context.tally.notes[note] = None


def has_lost(emitted: Sequence[Item]) -> bool:
    """Return whether the schema of one of these events is damaged."""
    return any(isinstance(event, LostSchema) for _, event in emitted)
