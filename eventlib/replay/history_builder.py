"""Builds the history of one key from its task's journal.

Outputs come from the log and only `evolve` is called: a handler changed since then has no influence, and no effect
runs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.replay.journal_steps import (
    Act,
    Answered,
    DeadlinePassed,
    Done,
    EffectDiscarded,
    EffectReleased,
    Refusal,
    Stalled,
)
from eventlib.replay.outputs import EmittedEvents
from eventlib.replay.steps import HistoryStep, Kind, RecordedEvent
from eventlib.runtime.bootstrap import NO_PAST, InputStart, mark_of
from eventlib.runtime.emit import (
    Cause,
    Emission,
    RecordBuilder,
    cause_of_deadline,
    cause_of_input,
    entry_after,
    meta_of_deadline,
)
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.processor import body_hash
from eventlib.values import from_ms

_EMPTY = KeyedState()
_NO_META = Meta("")
_REFUSED: dict[str, Kind] = {"drop": "dropped", "park": "parked", "discard": "discarded"}


class ConsumedInput(NamedTuple):
    """An input as its decider consumed it: for the first time, or again after it was parked.

    `edited` names who replaced its data, and why; `input.event` has the edited data.
    """

    input: RecordedEvent
    refused: Refusal | None
    was_parked: bool
    edited: str = ""


class StateTakenOver(NamedTuple):
    """A key's state in a rerun when its service took that over; None if it had none. `why` names who did it, and why."""

    record: Record | None
    why: str


class _StepResult(NamedTuple):
    """The result of an act; `entry` is None if the key is unchanged."""

    kind: Kind
    input: RecordedEvent | None = None
    emitted: Sequence[RecordedEvent] = ()
    entry: KeyedState | None = None
    meta: Meta = _NO_META
    deadline: str | None = None
    reason: str = ""


class KeyHistoryBuilder:
    """Builds the steps of one key of a decider from its task's transactions."""

    def __init__(self, log: EventLog, decider: Decider[Any], key: str, emitted: EmittedEvents) -> None:
        service = log.choreography.service_of(decider)
        topics = {topic.name: service.output_topic(topic) for topic in log.choreography.topics}
        self._decider = decider
        self._codec = log.codec
        self._key = key
        self._emitted = emitted
        self._builder = RecordBuilder(decider, service.emits_as, topics, log.codec)
        self._external = log.external.topics
        self._mark = mark_of(service.emits_as) if service.effects == "new" else ()
        self._past_ends: dict[str, int] = {}
        self._first_ms = 0
        self._entry = _EMPTY
        self._requests: dict[str, RecordedEvent] = {}

    def step(self, done: Done, act: Act | ConsumedInput | StateTakenOver) -> HistoryStep[Any] | None:
        """Apply the next act of a transaction; None if it is no step of this key."""
        result = self._apply(done.at_ms, act)
        if result is None:
            return None
        before = self._entry
        after = result.entry or before
        self._entry = _EMPTY if after.is_gone else after
        self._requests.update({each.id: each for each in result.emitted if type(each.event) in self._decider.effects})
        return HistoryStep(
            kind=result.kind,
            at=from_ms(done.at_ms),
            input=result.input,
            emitted=tuple(result.emitted),
            entry_before=before,
            entry_after=after,
            deadline=result.deadline,
            reason=result.reason,
            was_parked=isinstance(act, ConsumedInput) and act.was_parked,
            edited=act.edited if isinstance(act, ConsumedInput) else "",
            meta=result.meta,
            code_version=done.code_version,
            offset=done.offset,
        )

    def _apply(self, at_ms: int, act: Act | ConsumedInput | StateTakenOver) -> _StepResult | None:  # noqa: PLR0911  one return for each kind
        match act:
            case InputStart():
                self._begin(at_ms, act)
                return None
            case ConsumedInput(refused=Refusal(kind, reason)):
                return _StepResult(_REFUSED[kind], act.input, meta=act.input.meta, reason=reason)
            case ConsumedInput():
                return self._handle(at_ms, act.input)
            case StateTakenOver():
                return self._replace(at_ms, act)
            case DeadlinePassed():
                return self._pass_deadline(at_ms, act)
            case Answered(request_id=request_id):
                return self._answer(at_ms, request_id)
            case Stalled(request_id=request_id, reason=reason):
                return _StepResult("stalled", self._requests.get(request_id), reason=reason)
            case EffectReleased(request_id=request_id):
                return _StepResult("retried", self._requests.get(request_id))
            case EffectDiscarded(request_id=request_id, why=why):
                return _StepResult("discarded", self._requests.get(request_id), reason=why)
            case _:
                return None

    def _begin(self, at_ms: int, beginning: InputStart) -> None:
        if not self._past_ends and beginning.detail != NO_PAST:
            self._first_ms = at_ms
        self._past_ends[beginning.topic] = beginning.past_end

    def _handle(self, at_ms: int, consumed: RecordedEvent) -> _StepResult:
        record, event, entry = self._marked(consumed.record), consumed.event, self._entry
        if event is None:
            raise ContractError(
                f"{self._decider.name} handled {consumed.type} {consumed.id} under key {self._key!r}, and the current code "
                f"cannot read it: {consumed.error}"
            )
        contract = contract_of(type(event))
        is_request = contract.request
        cause = cause_of_input(record, entry if is_request else None, external=record.topic in self._external)
        emission = self._builder.emission(self._key, entry.sequence, cause, at_ms)
        emitted = self._emitted.of(emission)
        before = self._decider.initial if entry.state is None else entry.state
        state = self._with_emitted(self._evolved(before, event, record.meta()), emitted, emission)
        if is_request:
            answered = record.event_id, body_hash(record), at_ms, contract.once_for
            memory, _ = entry.memory.with_answered(*answered).bounded(at_ms)
            entry = entry.replace(memory=memory)
        elif not emitted and (state is before or (state is None and entry.state is None)):
            return _StepResult("handled", consumed, meta=record.meta())
        changed = entry_after(entry, self._decider, cause, state, [each.record for each in emitted])
        return _StepResult("handled", consumed, emitted, changed, record.meta())

    def _pass_deadline(self, at_ms: int, passed: DeadlinePassed) -> _StepResult:
        entry, name = self._entry, passed.name
        mark = self._mark if passed.due_ms < self._first_ms else ()
        cause = cause_of_deadline((self._decider.name, self._key), name, passed.due_ms, entry, mark)
        meta = meta_of_deadline(cause, at_ms, self._builder.source, self._key)
        if passed.refused is not None:
            return _StepResult("parked", meta=meta, deadline=name, reason=passed.refused.reason)
        emission = self._builder.emission(self._key, entry.sequence, cause, at_ms)
        emitted = self._emitted.of(emission)
        state = None if name == FORGET else self._with_emitted(entry.state, emitted, emission)
        entry = entry.replace(memory=entry.memory.with_passed(name, passed.due_ms))
        changed = entry_after(entry, self._decider, cause, state, [each.record for each in emitted])
        return _StepResult("deadline", None, emitted, changed, meta, deadline=name)

    def _answer(self, at_ms: int, request_id: str) -> _StepResult:
        """Record an effect's answer: the state changes when its decider consumes it from the log."""
        entry = self._entry
        cause = Cause(request_id, request_id, "", None)
        emitted = self._emitted.of(self._builder.emission(self._key, entry.sequence, cause, at_ms))
        return _StepResult(
            "answered", self._requests.get(request_id), emitted, entry.replace(sequence=entry.sequence + 1)
        )

    def _replace(self, at_ms: int, replaced: StateTakenOver) -> _StepResult | None:
        """Take over a rerun's state; the key's event count continues."""
        emitted = self._emitted.at(at_ms)
        try:
            known = _EMPTY if replaced.record is None else entry_of(replaced.record, self._decider, self._codec)
        except UnknownSchema as error:
            raise ContractError(
                f"the state of {self._key!r} that was taken over from a rerun is lost: {error}"
            ) from error
        entry = known.replace(sequence=self._entry.sequence + len(emitted))
        if not emitted and entry == self._entry:
            return None
        return _StepResult("switched", None, emitted, entry, reason=replaced.why)

    def _marked(self, record: Record) -> Record:
        """Return an input as its handler saw it: records older than the service's first start are marked."""
        is_past = record.offset < self._past_ends.get(record.topic, 0)
        return record.replace(headers=record.headers + self._mark) if is_past else record

    def _with_emitted(self, state: Any, emitted: Sequence[RecordedEvent], emission: Emission) -> Any:
        for ordinal, each in enumerate(emitted):
            if each.event is not None:
                state = self._evolved(state, each.event, emission.meta((), ordinal))
        return state

    def _evolved(self, state: Any, event: Event, meta: Meta) -> Any:
        known = self._decider.initial if state is None else state
        try:
            return self._decider.evolved(known, event, meta)
        except Exception as error:
            raise ContractError(
                f"the current evolve of {self._decider.name} raises on {type(event).__name__} {meta.id}, which was handled "
                f"before: {kept_reason(error, personal=self._decider.is_personal)}"
            ) from error
