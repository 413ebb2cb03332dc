"""Folds what a task did under one key into the steps of its history.

What was said comes from the log, and only `evolve` is called: a handler that was changed since makes no difference
to what was, and no effect ever runs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import Record
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.replay.journal_steps import (
    Act,
    Answered,
    Begun,
    DeadlinePassed,
    Done,
    EffectDiscarded,
    EffectReleased,
    Refusal,
    Stalled,
)
from eventlib.replay.outputs import EmittedEvents
from eventlib.replay.steps import HistoryStep, Kind, RecordedEvent
from eventlib.runtime.bootstrap import mark_of
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


class Taken(NamedTuple):
    """An input as its decider met it: for the first time, or again after it was parked.

    `edited` says who had it handled with other data than its record has, and why; `input` has that as its event.
    """

    input: RecordedEvent
    refused: Refusal | None
    was_parked: bool
    edited: str = ""


class Replaced(NamedTuple):
    """What a rerun knew of the key when its service took that over; None for nothing. `why` says who did it and why."""

    record: Record | None
    why: str


class _Happened(NamedTuple):
    """What an act came to; `entry` is None where it left the key as it was."""

    kind: Kind
    input: RecordedEvent | None = None
    said: Sequence[RecordedEvent] = ()
    entry: KeyedState | None = None
    meta: Meta = _NO_META
    deadline: str | None = None
    reason: str = ""


class KeyFold:
    """Follows one key of a decider through its task's transactions."""

    def __init__(self, log: EventLog, decider: Decider[Any], key: str, said: EmittedEvents) -> None:
        service = log.choreography.service_of(decider)
        topics = {topic.name: service.said_on(topic) for topic in log.choreography.topics}
        self._decider = decider
        self._codec = log.codec
        self._key = key
        self._said = said
        self._speaker = RecordBuilder(decider, service.speaks_as, topics, log.codec)
        self._foreign = log.foreigners.topics
        self._mark = mark_of(service.speaks_as) if service.effects == "new" else ()
        self._past: dict[str, int] = {}
        self._first_ms = 0
        self._entry = _EMPTY
        self._requests: dict[str, RecordedEvent] = {}

    def step(self, done: Done, act: Act | Taken | Replaced) -> HistoryStep[Any] | None:
        """Take the next thing that a transaction did; None when it is no step of this key."""
        happened = self._happened(done.at_ms, act)
        if happened is None:
            return None
        before = self._entry
        after = happened.entry or before
        self._entry = _EMPTY if after.is_gone else after
        self._requests.update({said.id: said for said in happened.said if type(said.event) in self._decider.effects})
        return HistoryStep(
            kind=happened.kind,
            at=from_ms(done.at_ms),
            input=happened.input,
            said=tuple(happened.said),
            entry_before=before,
            entry_after=after,
            deadline=happened.deadline,
            reason=happened.reason,
            was_parked=isinstance(act, Taken) and act.was_parked,
            edited=act.edited if isinstance(act, Taken) else "",
            meta=happened.meta,
            code_version=done.code_version,
            offset=done.offset,
        )

    def _happened(self, at_ms: int, act: Act | Taken | Replaced) -> _Happened | None:  # noqa: PLR0911  one return for each kind
        match act:
            case Begun(beginning=(topic, _, past_end)):
                self._past[topic] = past_end
                self._first_ms = self._first_ms or at_ms
                return None
            case Taken(refused=Refusal(kind, reason)):
                return _Happened(_REFUSED[kind], act.input, meta=act.input.meta, reason=reason)
            case Taken():
                return self._handle(at_ms, act.input)
            case Replaced():
                return self._replace(at_ms, act)
            case DeadlinePassed():
                return self._pass_deadline(at_ms, act)
            case Answered(request_id=request_id):
                return self._answer(at_ms, request_id)
            case Stalled(request_id=request_id, reason=reason):
                return _Happened("stalled", self._requests.get(request_id), reason=reason)
            case EffectReleased(request_id=request_id):
                return _Happened("retried", self._requests.get(request_id))
            case EffectDiscarded(request_id=request_id, why=why):
                return _Happened("discarded", self._requests.get(request_id), reason=why)
            case _:
                return None

    def _handle(self, at_ms: int, taken: RecordedEvent) -> _Happened:
        record, event, entry = self._marked(taken.record), taken.event, self._entry
        if event is None:
            raise ContractError(
                f"{self._decider.name} has handled {taken.type} {taken.id} under key {self._key!r}, and today's code "
                f"cannot read it: {taken.error}"
            )
        is_request = contract_of(type(event)).request
        cause = cause_of_input(record, entry if is_request else None, foreign=record.topic in self._foreign)
        turn = self._speaker.turn(self._key, entry.sequence, cause, at_ms)
        said = self._said.in_turn(turn)
        before = self._decider.initial if entry.state is None else entry.state
        state = self._with_said(self._evolved(before, event, record.meta()), said, turn)
        if is_request:
            entry = entry._replace(memory=entry.memory.with_answered(record.event_id, body_hash(record)))
        elif not said and (state is before or (state is None and entry.state is None)):
            return _Happened("handled", taken, meta=record.meta())
        changed = entry_after(entry, self._decider, cause, state, [each.record for each in said])
        return _Happened("handled", taken, said, changed, record.meta())

    def _pass_deadline(self, at_ms: int, passed: DeadlinePassed) -> _Happened:
        entry, name = self._entry, passed.name
        past = self._mark if passed.due_ms < self._first_ms else ()
        cause = cause_of_deadline((self._decider.name, self._key), name, passed.due_ms, entry, past)
        meta = meta_of_deadline(cause, at_ms, self._speaker.source, self._key)
        if passed.refused is not None:
            return _Happened("parked", meta=meta, deadline=name, reason=passed.refused.reason)
        turn = self._speaker.turn(self._key, entry.sequence, cause, at_ms)
        said = self._said.in_turn(turn)
        state = None if name == FORGET else self._with_said(entry.state, said, turn)
        entry = entry._replace(memory=entry.memory.with_passed(name, passed.due_ms))
        changed = entry_after(entry, self._decider, cause, state, [each.record for each in said])
        return _Happened("deadline", None, said, changed, meta, deadline=name)

    def _answer(self, at_ms: int, request_id: str) -> _Happened:
        """Count an effect's answer: the state changes when its decider reads it from the log, as everybody does."""
        entry = self._entry
        cause = Cause(request_id, request_id, "", None)
        said = self._said.in_turn(self._speaker.turn(self._key, entry.sequence, cause, at_ms))
        return _Happened("answered", self._requests.get(request_id), said, entry._replace(sequence=entry.sequence + 1))

    def _replace(self, at_ms: int, replaced: Replaced) -> _Happened | None:
        """Take over what a rerun knew; the events said under the key are counted on."""
        said = self._said.at(at_ms)
        try:
            known = _EMPTY if replaced.record is None else entry_of(replaced.record, self._decider, self._codec)
        except UnknownSchema as error:
            raise ContractError(
                f"what was known of {self._key!r} when a rerun was taken over is lost: {error}"
            ) from error
        entry = known._replace(sequence=self._entry.sequence + len(said))
        if not said and entry == self._entry:
            return None
        return _Happened("switched", None, said, entry, reason=replaced.why)

    def _marked(self, record: Record) -> Record:
        """Return an input as its handler saw it: what stood there before the service's first start is marked."""
        is_past = record.offset < self._past.get(record.topic, 0)
        return record._replace(headers=record.headers + self._mark) if is_past else record

    def _with_said(self, state: Any, said: Sequence[RecordedEvent], turn: Emission) -> Any:
        for ordinal, each in enumerate(said):
            if each.event is not None:
                state = self._evolved(state, each.event, turn.meta((), ordinal))
        return state

    def _evolved(self, state: Any, event: Event, meta: Meta) -> Any:
        known = self._decider.initial if state is None else state
        try:
            return self._decider.evolved(known, event, meta)
        except Exception as error:
            raise ContractError(
                f"today's evolve of {self._decider.name} raises on {type(event).__name__} {meta.id}, which was handled "
                f"once: {type(error).__name__}: {error}"
            ) from error
