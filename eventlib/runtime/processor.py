"""Processes one input, answer, deadline or parked record of a task.

It decides, and writes what comes of that into the open transaction: what is emitted, what changes, what was done.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from eventlib.errors import ContractError, DamagedRecord, LogUnavailable, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.rules import stored_bytes
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.kept_error import KeptError, kept_reason
from eventlib.model.personal import is_personal
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.runtime.answered import AnsweredRequests
from eventlib.runtime.bootstrap import mark_of, past_of, reason_of
from eventlib.runtime.emit import (
    Cause,
    Emission,
    RecordBuilder,
    cause_of_deadline,
    cause_of_input,
    entry_after,
    meta_of_deadline,
)
from eventlib.runtime.inputs import InputReader, damaged_input
from eventlib.runtime.keyed_state import KeyedState, KeyLocation, MovedRequest
from eventlib.runtime.parking.parked import (
    PAUSED,
    WAITS_BEHIND,
    ParkedKeys,
    SkippedInputs,
    dated,
    deadline_copy,
    is_own_failure,
    parked_copy,
    why_ahead,
)
from eventlib.runtime.parking.pauses import Pauses
from eventlib.runtime.parking.releasing import released
from eventlib.runtime.records import ParkedKey, Positions, Step, effect_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Answer, Release, ResetClock, SeekOffset, SkipInput
from eventlib.runtime.transaction_builder import TransactionBuilder

HANDLER_ATTEMPTS = 3
"""How often a handler that raises is tried before its input is parked."""

MAX_EMITTED = 5_000
"""How many events a transaction may hold before it takes no further input."""


_NOTHING: list[Record] = []
_UNMOVED: Sequence[MovedRequest] = ()


class InputProcessor:
    """Handles one thing after the other for a task, into `draft`. Raises: UnknownSchema from whatever reads records."""

    def __init__(self, service: Service, partition: int, log: EventLog, state: TaskState, code_version: str) -> None:
        self.state = state
        self.partition = partition
        self.parked_topic, self.control_topic = service.parked.name, service.control.name
        self.parked = ParkedKeys(state, log.codec)
        self.skips = SkippedInputs(state, log.codec)
        self.pauses = Pauses(service, state, log.codec)
        self.answered = AnsweredRequests(state)
        self.inputs = InputReader(log, service)
        topics = {topic.name: service.output_topic(topic) for topic in log.choreography.topics}
        self.builders = {d.name: RecordBuilder(d, service.emits_as, topics, log.codec) for d in service.deciders}
        self.parked_end = 0
        self.draft = TransactionBuilder(0, Positions(), ())
        self._log = log
        self._changelog = service.changelog
        self._refused: tuple[int, str] | None = None
        self.checks_states = False
        """Whether a state that cannot be written parks its input: it takes a second encoding, so only once one was found."""
        self._code_version = code_version
        self._mark = mark_of(service.emits_as) if service.effects == "new" else ()

    def check_sizes(self, *, checks: bool, refused: tuple[int, str] | None = None) -> None:
        """Park what leads to a record or a state that the log does not take, or end that.

        `refused` is a size from which on the log has refused one, and its error.
        """
        self.checks_states, self._refused = checks, refused
        for builder in self.builders.values():
            builder.checks_sizes, builder.refused = checks, refused

    def take(self, record: Record, event: Event | None) -> None:  # noqa: C901  on the hot path, and one case after the other
        """Handle an input; `event` is what its record holds, as far as that is known."""
        draft, inputs = self.draft, self.inputs
        draft.steps.took(record)
        deciders = (
            inputs.by_type.get(record.type) if record.type and not inputs.external else inputs.deciders_of(record)
        )
        if deciders is None:
            return
        draft.is_met = True
        past = draft.past
        if past and self._mark and record.offset < past.get(record.topic, 0):
            record = record.replace(headers=record.headers + self._mark)
        if (self.skips.any or record.value is None) and self.is_skipped(record, deciders):
            return
        if record.timestamp_ms > draft.latest_ms and record.topic not in inputs.external:
            for decider in deciders:
                self.park_ahead(decider, record)
            return
        try:
            if event is None:
                record, event = inputs.read(record)
        except UndecodableRecord as error:
            for decider in deciders:
                self.park(decider, record, KeptError(error.reason))
            return
        key = key_text(record)
        for decider in deciders:
            waits = self._why_waits(decider.name, key) if self.parked.any or self.pauses.any else None
            if failure := waits or self.decide(decider, key, record, event):
                self.park(decider, record, failure)

    def _why_waits(self, decider: str, key: str) -> KeptError | None:
        """Return why a key's next input is not to be handled now; None when it is."""
        if self.parked.get(decider, key) is not None:
            return KeptError(WAITS_BEHIND)
        pause = self.pauses.of_key(decider, key)
        return None if pause is None else KeptError(f"{PAUSED}{pause.why}")

    def park_ahead(self, decider: Decider[Any], record: Record) -> None:
        """Park an input that is dated too far ahead of the clock; a retry handles it, dated by when it came."""
        self.park(decider, dated(record, self.draft.at_ms), KeptError(why_ahead(record.timestamp_ms, self.draft.at_ms)))

    def take_damaged(self, damaged: DamagedRecord) -> None:
        """Park an input that is not what was written, or is gone, for each decider that reads its topic."""
        steps, last = self.draft.steps, damaged.resume_at - 1
        steps.went_past(damaged.topic, damaged.offset, last)
        self.draft.is_met = True
        if damaged.topic == self.control_topic:
            steps.act(Step("refuse", damaged.topic, damaged.offset, last, detail=str(damaged)))
        record = damaged_input(damaged, self._log, self.draft.at_ms)
        for decider in self.inputs.readers_of(damaged.topic):
            self.park(decider, record, KeptError(str(damaged)))

    def park_unhandled(self, records: Sequence[Record], due_ms: int | None, reason: str) -> None:
        """Park inputs, and the first deadline that is due, without handling them: their owners were lost while they did."""
        for record in records:
            self.draft.steps.took(record)
            self.draft.is_met = True
            self._park_unhandled(record, KeptError(reason))
        for at, decider, name, key in [] if due_ms is None else self.state.due_by(due_ms, 1, self.waits):
            self.draft.steps.act(Step("deadline", first=at, last=at, decider=decider, key=key, detail=name))
            waiting = deadline_copy(name, key, self.partition, at)
            self.park(self.builders[decider].decider, waiting, KeptError(f"{name}: {reason}"))

    def _park_unhandled(self, record: Record, failure: KeptError) -> None:
        deciders = self.inputs.deciders_of(record) or ()
        if (self.skips.any or record.value is None) and self.is_skipped(record, deciders):
            return
        if record.topic in self.inputs.external:
            try:
                record, _ = self.inputs.read(record)
            except UndecodableRecord as error:
                failure = KeptError(error.reason)
        for decider in deciders:
            self.park(decider, record, self._why_waits(decider.name, key_text(record)) or failure)

    def is_skipped(self, record: Record, deciders: Sequence[Decider[Any]]) -> bool:
        """Pass over an input that an operator has decided to skip, or that means nothing; False when it is neither."""
        why = self.skips.why(record.event_id) or self.inputs.why_passed_over(record)
        if why is None:
            return False
        for decider in deciders:
            self.drop(decider, record, why)
        self.skips.passed(record.event_id)
        return True

    def decide(self, decider: Decider[Any], key: str, record: Record, event: Event) -> KeptError | None:  # noqa: C901  as above
        """Handle one input for one decider; return why it could not be, or None."""
        entry = self.state.entry(decider, key)
        contract = contract_of(type(event))
        is_request = contract.request
        if is_request:
            known = self.answered.find(decider, key, entry.memory, record.event_id, self.draft.at_ms)
            if known is not None:
                self.drop(decider, record, "duplicate" if known == body_hash(record) else "conflict")
                return None
        cause = cause_of_input(record, entry if is_request else None, external=record.topic in self.inputs.external)
        wants_meta = decider.evolve_wants_meta or decider.handlers[type(event)].wants_meta
        meta = record.meta() if wants_meta else Meta(cause.id)
        before = decider.initial if entry.state is None else entry.state
        emission = Emission(self.builders[decider.name], key, entry.sequence, cause, self.draft.at_ms)
        failure, moved = None, _UNMOVED
        for attempt in range(1, HANDLER_ATTEMPTS + 1):
            try:
                state, emitted = decider.decide(before, event, meta, emission.meta)
                if not (emitted or is_request) and (state is before or (state is None and entry.state is None)):
                    return None
                records = emission.records(emitted) if emitted else _NOTHING
                handled = entry
                if is_request:
                    answered = record.event_id, body_hash(record), self.draft.at_ms, contract.once_for
                    memory, moved = entry.memory.with_answered(*answered).bounded(self.draft.at_ms)
                    handled = entry.replace(memory=memory)
                changed = entry_after(handled, decider, cause, state, records)
                if self.checks_states:
                    self._check(emission, changed)
            except LogUnavailable:
                raise
            except Exception as error:  # noqa: BLE001  whatever a handler raises, its input is parked and others go on
                if attempt == HANDLER_ATTEMPTS:
                    failure = KeptError.of(error, personal=decider.is_personal)
                continue
            self._apply(emission, changed, emitted, records)
            if moved:
                self.answered.move(decider, key, moved, self.draft.at_ms)
            return None
        return failure

    def take_answer(self, answer: Answer) -> None:
        """Say what an effect came back with, or park the effect."""
        pending = self.state.get(effect_key(answer.request_id))
        if pending is None:
            return
        builder = self.builders[(pending.source or "").partition("/")[2]]
        decider, key = builder.decider, pending.subject or ""
        if answer.event is None:
            self._stall(pending, decider, answer.reason)
            return
        entry = self.state.entry(decider, key)
        cause = Cause(answer.request_id, answer.request_id, pending.correlation_id or "", pending.traceparent)
        try:
            records = builder.emission(key, entry.sequence, cause, self.draft.at_ms).records([answer.event])
        except LogUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever is wrong with an answer, its effect is parked and others go on
            why = kept_reason(error, personal=is_personal(type(answer.event)))
            self._stall(pending, decider, f"its answer cannot be emitted: {why}")
            return
        self.draft.emit(records, [answer.event], copies=builder.copies)
        # The state changes when the decider reads the answer from the log, as everybody does; here only the count.
        self.state.set_entry(decider, key, entry.replace(sequence=entry.sequence + 1))
        self.state.put(effect_key(answer.request_id), None)
        self.draft.steps.act(Step("answer", decider=decider.name, key=key, request=answer.request_id))

    def _stall(self, pending: Record, decider: Decider[Any], reason: str) -> None:
        self.state.put(effect_key(pending.event_id), stalled(pending, reason, self._code_version))
        self.draft.steps.act(_stall(pending, decider, reason))

    def pass_deadlines(self, due_ms: int, most: int | None = None) -> None:
        """Let pass what is due, or the first `most` of it, but for keys that are parked or paused."""
        for at, decider_name, name, key in self.state.due_by(due_ms, most or MAX_EMITTED, self.waits):
            decider = self.builders[decider_name].decider
            entry = self.state.entry(decider, key)
            if entry.due.get(name) == at and not self.waits(
                decider_name, name, key
            ):  # one before it may have parked the key
                self._pass_deadline(decider, key, name, at, entry)

    def waits(self, decider: str, name: str, key: str) -> bool:
        """Tell whether a key's deadline waits, since it is parked or paused.

        No key is forgotten while the decider has a damaged input that may be about any of them.
        """
        if self.parked.get(decider, key) is not None or (name == FORGET and self.parked.has_nameless(decider)):
            return True
        return self.pauses.any and self.pauses.holds_deadline(decider, key)

    def _pass_deadline(self, decider: Decider[Any], key: str, name: str, at: int, entry: KeyedState) -> None:
        builder = self.builders[decider.name]
        past = self._mark if at < self.draft.first_ms else ()
        cause = cause_of_deadline((decider.name, key), name, at, entry, past)
        meta = meta_of_deadline(cause, self.draft.at_ms, builder.source, key)
        emission = builder.emission(key, entry.sequence, cause, self.draft.at_ms)
        self.draft.steps.act(Step("deadline", first=at, last=at, decider=decider.name, key=key, detail=name))
        try:
            state, emitted = decider.pass_deadline(name, entry.state, meta, emission.meta)
            records = emission.records(emitted)
            passed = entry.replace(memory=entry.memory.with_passed(name, at))
            changed = entry_after(passed, decider, cause, state, records)
            if self.checks_states:
                self._check(emission, changed)
        except LogUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever it raises, its key is parked and others go on
            waiting = deadline_copy(name, key, self.partition, at)
            self.park(decider, waiting, KeptError.of(error, personal=decider.is_personal, during=name))
            return
        self._apply(emission, changed, emitted, records)

    def park(self, decider: Decider[Any], record: Record, failure: KeptError) -> None:
        """Let an input wait, and what comes later for its key."""
        failure = failure.shortened
        parked = ParkedKey(decider.name, key_text(record), self.parked_end, 1, self.draft.at_ms, failure.reason)
        self.draft.park(parked_copy(record, parked, self.parked_topic))
        self.wait(parked, record, failure)

    def wait(self, parked: ParkedKey, record: Record, failure: KeptError) -> None:
        """Park a key from one of its inputs on; the input is written to the parked topic."""
        self.parked.add(replace(parked, code_version=self._code_version, traceback=failure.traceback))
        if is_own_failure(failure.reason):
            self.draft.failures.append((parked.decider, parked.key, failure))
        place = record.topic, record.offset, record.offset
        self.draft.steps.act(Step("park", *place, parked.decider, parked.key, failure.reason))

    def drop(self, decider: Decider[Any], record: Record, why: str) -> None:
        """Take note that an input was not handled, since there is nothing to do about it."""
        self.draft.steps.act(
            Step("drop", record.topic, record.offset, record.offset, decider.name, key_text(record), why)
        )

    def act_on(self, act: SkipInput | SeekOffset | ResetClock) -> None:
        """Take note of an input to skip, read a topic from somewhere else, or go on at another time."""
        match act:
            case SkipInput(event_id, why):
                self.skips.add(act)
                self.draft.steps.act(Step("skip", detail=why, request=event_id))
            case SeekOffset(topic, to, why):
                self.draft.move(topic, to, why)
            case ResetClock(first_ms, last_ms, why):
                self.draft.reset_clock(first_ms, last_ms, why)

    def release(self, release: Release) -> None:
        """Handle what was parked again, until something cannot be handled again."""
        released(self, release)

    def _check(self, emission: Emission, changed: KeyedState) -> None:
        decider, state = emission.builder.decider, changed.state
        if state is not None and not isinstance(state, decider.state):
            what = f"{type(state).__name__}, and the state is a {decider.state.__name__}, or None to forget the key"
            raise ContractError(f"evolve of decider {decider.name} returned a {what}")
        place = KeyLocation(self._changelog.name, self.partition, self.draft.at_ms)
        kept = changed.record((decider.name, emission.key), place, emission.builder.source, self._log.codec)
        size, most = stored_bytes(kept), self._changelog.max_event_bytes
        if self._refused is not None and size >= self._refused[0]:
            raise ContractError(f"the state of {decider.name} for this key has {size:,} bytes: {self._refused[1]}")
        if size > most:
            sizes = f"{size:,} bytes with the key and what is remembered, and the changelog accepts at most {most:,}"
            raise ContractError(f"the state of {decider.name} for this key has {sizes}: keep less in it")

    def _apply(self, emission: Emission, changed: KeyedState, emitted: Sequence[Event], records: list[Record]) -> None:
        decider = emission.builder.decider
        self.state.set_entry(decider, emission.key, changed)
        if not records:
            return
        self.draft.emit(records, emitted, copies=emission.builder.copies)
        if decider.effects:
            for record, event in zip(records, emitted, strict=True):
                if type(event) in decider.effects:
                    self._request(decider, record, event)

    def _request(self, decider: Decider[Any], record: Record, event: Event) -> None:
        """Let an effect run once this is committed; one that follows from the past waits for a person."""
        pending = record.replace(headers=()) if record.headers else record
        if not (record.headers and self._mark):
            self.draft.requested.append((pending, event))
            self.state.put(effect_key(record.event_id), pending)
            return
        reason = reason_of(past_of(record.headers))
        self.state.put(effect_key(record.event_id), stalled(pending, reason, self._code_version))
        self.draft.steps.act(_stall(record, decider, reason))


def body_hash(record: Record) -> str:
    """Return a hash that distinguishes two requests with one id (16 hex digits)."""
    return blake2b(record.value or b"", digest_size=8).hexdigest()


def stalled(pending: Record, reason: str, code_version: str) -> Record:
    """Return a pending effect as one that is parked, by code of a version."""
    return pending.replace(headers=(("parked_reason", reason.encode()), ("parked_code", code_version.encode())))


def _stall(request: Record, decider: Decider[Any], reason: str) -> Step:
    return Step("stall", decider=decider.name, key=request.subject or "", detail=reason, request=request.event_id)
