"""A task: one partition of a service, as a synchronous machine from inputs to one transaction.

It does no I/O beside its local store, reads no clock and awaits nothing, so that the worker, the replay and the
simulator run the same code. The worker around it reads, hands inputs over, appends, and says how that ended.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from eventlib.decider import Decider
from eventlib.errors import ContractError, UndecodableRecord
from eventlib.event import Event, Meta, contract_of
from eventlib.eventlog import EventLog, latest_copy
from eventlib.log.port import Record, key_text
from eventlib.runtime.acts import Move, Skip
from eventlib.runtime.causes import Cause, cause_of_deadline, cause_of_input, entry_after, meta_of_deadline
from eventlib.runtime.entry import Entry, Place
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.journal import Steps
from eventlib.runtime.parking import WAITS_BEHIND, ParkedKeys, deadline_copy, original_of, parked_copy
from eventlib.runtime.past import Beginning, mark_of, past_of, reason_of
from eventlib.runtime.records import (
    POSITION_KEY,
    JournalEntry,
    ParkedKey,
    Positions,
    Step,
    effect_key,
)
from eventlib.runtime.saying import Speaker, Turn
from eventlib.runtime.skipping import SkippedInputs
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Answer, Inputs, Passed, Release, Transaction
from eventlib.service import Service

HANDLER_ATTEMPTS = 3
"""How often a handler that raises is tried before its input is parked."""

MAX_SAID = 5_000
"""How many events a transaction may hold before it takes no further input."""


_NOTHING: list[Record] = []


class Task:
    """Partition `partition` of a service.

    A transaction is opened with inputs, may take more, and is closed when it is to be appended. Guarantee: it changes
    nothing until `committed`; after `rolled_back` the same inputs can be handled again.
    """

    def __init__(
        self,
        service: Service,
        partition: int,
        log: EventLog,
        state: TaskState,
        *,
        positions: Positions,
        code_version: str,
    ) -> None:
        self.service = service
        self.partition = partition
        self.state = state
        self.positions = positions
        self.parked = ParkedKeys(state, log.codec)
        self.skips = SkippedInputs(state, log.codec)
        self.parked_end = 0
        self._log = log
        self._code_version = code_version
        topics = {topic.name: service.said_on(topic) for topic in log.choreography.topics}
        self.speakers = {d.name: Speaker(d, service.speaks_as, topics, log.codec) for d in service.deciders}
        self._sources = {name: speaker.source for name, speaker in self.speakers.items()}
        self._parked_topic = service.parked.name
        self._changelog, self._journal = service.changelog.name, service.journal.name
        self._inputs = InputReader(log, service)
        self._foreign = self._inputs.foreign
        self._mark = mark_of(service.speaks_as) if service.effects == "new" else ()
        self._passed: Sequence[Step] = ()
        self._begin(0)

    def _begin(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self._steps = Steps(self._passed)
        self._handled = self._answered = self._took = 0
        self._takes_more = False
        self._met = False
        self._said_count = 0
        self._entries: list[JournalEntry] = []
        self._events: list[Record] = []
        self._said: list[Event | None] = []
        self._past: Mapping[str, int] = self.positions.past
        self._first_ms = self.positions.first_ms
        self._requested: list[tuple[Record, Event | None]] = []
        self._parks = False

    def handle(self, inputs: Inputs) -> Transaction:
        """Open a transaction with inputs, and close it. Raises: as `open` does."""
        self.open(inputs)
        return self.close()

    def open(self, inputs: Inputs) -> None:
        """Begin a transaction, and handle inputs up to its size.

        Raises: UnknownSchema when the codec has to be refreshed; then roll back and open it again.
        """
        records = inputs.records
        if inputs.release is not None:
            records = () if inputs.release.control is None else (inputs.release.control,)
        timed = [r for r in records if r.topic not in self._foreign] if self._foreign else records  # others' clocks!
        newest = max((record.timestamp_ms for record in timed), default=0)
        self._begin(max(inputs.now_ms, newest, self.positions.at_ms))
        self._inputs.schemas_known = inputs.schemas_known
        for act in inputs.acts:
            self._act_on(act)
        self._answered = len(inputs.answers)
        for answer in inputs.answers:
            self._take_answer(answer)
        if inputs.release is not None:
            self._handled = len(records)
            for record in records:
                self._steps.took(record)
            self._release(inputs.release)
        elif inputs.beginnings:
            self._take_beginnings(inputs.beginnings)
        else:
            self._take_records(records)
            self._takes_more = self._handled == len(records) and not inputs.acts
            if inputs.due_ms is not None and self._handled == len(records):
                self._pass_deadlines(inputs.due_ms)

    def take(self, record: Record, event: Event | None) -> bool:
        """Handle one more input in the transaction that is open; `event` is what its record holds.

        False, and nothing is done, when it is not the next one of its topic here, or has to wait for a transaction
        with a later time or more room.
        """
        topic = record.topic
        expected = self._steps.next.get(topic)
        if expected is None:
            expected = self.positions.next[topic]
        if not self._takes_more or record.offset != expected or record.timestamp_ms > self._at_ms:
            return False
        if len(self._events) >= MAX_SAID:
            return False
        self._took += 1
        if self._said_count and self._inputs.deciders_of(record) is not None:
            # Others have taken up what was said so far, perhaps to say this: only what came before can tell it again.
            self._end_entry()
        self._take(record, event)
        return True

    def _end_entry(self) -> None:
        self._entries.append(JournalEntry(self._code_version, self._at_ms, self._steps.cut(), self._said_count))
        self._said_count = 0

    @property
    def at_ms(self) -> int:
        """The time of the open transaction, and of all that it says."""
        return self._at_ms

    @property
    def taken(self) -> int:
        """How many inputs the open transaction has gone past."""
        return self._handled + self._took

    @property
    def matters(self) -> bool:
        """Whether the open transaction does more than to move positions past inputs that make no difference."""
        return bool(self._events or self._steps.acts or self.state.is_changed)

    @property
    def events(self) -> list[Record]:
        """What the open transaction has said so far."""
        return self._events

    @property
    def said(self) -> list[Event | None]:
        """The event in each record of `events`, or None."""
        return self._said

    def committed(self, transaction: Transaction, offsets: Sequence[int]) -> None:
        """Make a transaction that was appended the truth; `offsets` are those of its records."""
        if transaction.parks:
            ends = (o for r, o in zip(transaction.events, offsets, strict=False) if r.topic == self._parked_topic)
            self.parked_end = max(ends) + 1
        self._log.remember(transaction.events, offsets, transaction.said)
        last_change = offsets[len(transaction.events) + len(transaction.changes) - 1]
        self.state.commit(transaction.changes, last_change + 1)
        self.positions = transaction.positions
        self._passed = ()

    def skip(self) -> Passed:
        """Go past the inputs of the open transaction, which does not matter, without appending it.

        Where somebody has handled them, the next transaction's journal entry begins with them: whether an input makes
        no difference depends on when it is handled, so a replay has to know.
        """
        self.state.roll_back()
        self.positions = self._positions()
        if self._met:
            self._passed = self._steps.all()
        return Passed(self._handled, self._answered, self._took)

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return a time (ms) before which nothing falls due, exact once it has come; None: there is nothing."""
        return self.state.due_from(now_ms, lambda decider, key: self.parked.get(decider, key) is not None)

    def rolled_back(self) -> None:
        """Forget a transaction that was not appended."""
        self.state.roll_back()

    def _take_records(self, records: Sequence[Record]) -> None:
        for record in records:
            if len(self._events) >= MAX_SAID:
                break
            self._handled += 1
            self._take(record, None)

    def _take(self, record: Record, event: Event | None) -> None:
        self._steps.took(record)
        deciders = self._inputs.deciders_of(record)
        if deciders is None:
            return
        self._met = True
        if self._past and self._mark and record.offset < self._past.get(record.topic, 0):
            record = record._replace(headers=record.headers + self._mark)
        if self.skips.any and self._is_skipped(record, deciders):
            return
        try:
            if event is None:
                record, event = self._inputs.read(record)
        except UndecodableRecord as error:
            for decider in deciders:
                self._park(decider, record, error.reason)
            return
        key = key_text(record)
        for decider in deciders:
            if self.parked.any and self.parked.get(decider.name, key) is not None:
                self._park(decider, record, WAITS_BEHIND)
            elif failure := self._decide(decider, key, record, event):
                self._park(decider, record, failure)

    def _is_skipped(self, record: Record, deciders: Sequence[Decider[Any]]) -> bool:
        why = self.skips.why(record.event_id)
        if why is None:
            return False
        for decider in deciders:
            self._drop(decider, record, why)
        self.skips.passed(record.event_id)
        return True

    def _decide(self, decider: Decider[Any], key: str, record: Record, event: Event) -> str:
        """Handle one input for one decider; return why it could not be, or an empty string."""
        entry = self.state.entry(decider, key)
        is_request = contract_of(type(event)).request
        if is_request and (known := entry.memory.answered.get(record.event_id)) is not None:
            detail = "duplicate" if known == body_hash(record) else "conflict"
            self._drop(decider, record, detail)
            return ""
        cause = cause_of_input(record, entry if is_request else None, foreign=record.topic in self._foreign)
        meta = record.meta() if decider.wants_meta(type(event)) else Meta(cause.id)
        before = decider.initial if entry.state is None else entry.state
        turn = self.speakers[decider.name].turn(key, entry.sequence, cause, self._at_ms)
        failure = ""
        for _ in range(HANDLER_ATTEMPTS):
            try:
                state, said = decider.decide(before, event, meta, turn.meta)
                records = turn.records(said) if said else _NOTHING
            except Exception as error:  # noqa: BLE001  whatever a handler raises, its input is parked and others go on
                failure = f"{type(error).__name__}: {error}"
                continue
            if is_request:
                entry = entry._replace(memory=entry.memory.with_answered(record.event_id, body_hash(record)))
            elif not said and (state is before or (state is None and entry.state is None)):
                return ""
            self._apply(turn, entry, state, said, records)
            return ""
        return failure

    def _take_answer(self, answer: Answer) -> None:
        pending = self.state.get(effect_key(answer.request_id))
        if pending is None:
            return
        speaker = self.speakers[(pending.source or "").partition("/")[2]]
        decider, key = speaker.decider, pending.subject or ""
        if answer.event is None:
            self._stall(pending, decider, answer.reason)
            return
        entry = self.state.entry(decider, key)
        cause = Cause(answer.request_id, answer.request_id, pending.correlation_id or "", pending.traceparent)
        try:
            records = speaker.turn(key, entry.sequence, cause, self._at_ms).records([answer.event])
        except ContractError as error:
            self._stall(pending, decider, f"its answer cannot be said: {error}")
            return
        self._say(records, [answer.event])
        # The state changes when the decider reads the answer from the log, as everybody does; here only the count.
        self.state.set_entry(decider, key, entry._replace(sequence=entry.sequence + 1))
        self.state.put(effect_key(answer.request_id), None)
        self._act(Step("answer", decider=decider.name, key=key, request=answer.request_id))

    def _stall(self, pending: Record, decider: Decider[Any], reason: str) -> None:
        self.state.put(effect_key(pending.event_id), stalled(pending, reason))
        self._act(_stall(pending, decider, reason))

    def _pass_deadlines(self, due_ms: int) -> None:
        for at, decider_name, name, key in self.state.due_by(due_ms, MAX_SAID):
            decider = self.speakers[decider_name].decider
            entry = self.state.entry(decider, key)
            if entry.due.get(name) == at and self.parked.get(decider_name, key) is None:
                self._pass_deadline(decider, key, name, at, entry)

    def _pass_deadline(self, decider: Decider[Any], key: str, name: str, at: int, entry: Entry) -> None:
        speaker = self.speakers[decider.name]
        past = self._mark if at < self.positions.first_ms else ()
        cause = cause_of_deadline((decider.name, key), name, at, entry, past)
        meta = meta_of_deadline(cause, self._at_ms, speaker.source, key)
        turn = speaker.turn(key, entry.sequence, cause, self._at_ms)
        self._act(Step("deadline", first=at, last=at, decider=decider.name, key=key, detail=name))
        try:
            state, said = decider.pass_deadline(name, entry.state, meta, turn.meta)
            records = turn.records(said)
        except Exception as error:  # noqa: BLE001  whatever it raises, its key is parked and others go on
            waiting = deadline_copy(name, key, self.partition, at)
            self._park(decider, waiting, f"{name}: {type(error).__name__}: {error}")
            return
        passed = entry._replace(memory=entry.memory.with_passed(name, at))
        self._apply(turn, passed, state, said, records)

    def _park(self, decider: Decider[Any], record: Record, reason: str) -> None:
        key = key_text(record)
        parked = ParkedKey(decider.name, key, self.parked_end, 1, self._at_ms, reason)
        self.parked.add(parked)
        self._events.append(parked_copy(record, parked, self._parked_topic))
        self._said.append(None)
        self._parks = True
        self._act(Step("park", record.topic, record.offset, record.offset, decider.name, key, reason))

    def _drop(self, decider: Decider[Any], record: Record, why: str) -> None:
        self._act(Step("drop", record.topic, record.offset, record.offset, decider.name, key_text(record), why))

    def _act_on(self, act: Skip | Move) -> None:
        match act:
            case Skip(event_id, why):
                self.skips.add(act)
                self._act(Step("skip", detail=why, request=event_id))
            case Move(topic, to, why):
                self._act(Step("reset", topic, self.positions.next[topic], to, detail=why))
                self._steps.next[topic] = to

    def _release(self, release: Release) -> None:
        waits = self.state.get(effect_key(release.effect_id)) if release.effect_id else None
        if waits is not None and waits.headers:
            again = waits._replace(headers=())
            self.state.put(effect_key(release.effect_id), again)
            self._requested.append((again, None))
            decider_name, key = (again.source or "").partition("/")[2], again.subject or ""
            self._act(Step("release", decider=decider_name, key=key, request=release.effect_id))
        for position, parked in enumerate(release.waiting):
            facts, record = original_of(parked)
            decider = self.speakers[facts["decider"]].decider
            key = key_text(record)
            if position == 0:
                self.parked.remove(decider.name, key)
                self.state.look_at_deadlines()
            if not record.topic:
                continue  # a deadline: it falls due again by itself, now that its key goes on
            self._act(Step("release", self.service.parked.name, parked.offset, parked.offset, decider.name, key))
            if self.skips.any and self._is_skipped(record, [decider]):
                continue
            failure = self._decide_again(decider, record)
            if failure:
                since = int(facts["since_ms"])
                waiting = len(release.waiting) - position
                self.parked.add(ParkedKey(decider.name, key, parked.offset, waiting, since, failure))
                self._act(Step("park", record.topic, record.offset, record.offset, decider.name, key, failure))
                return

    def _decide_again(self, decider: Decider[Any], record: Record) -> str:
        try:
            record, event = self._inputs.read(record)
        except UndecodableRecord as error:
            return error.reason
        if type(event) not in decider.handlers:
            return ""
        return self._decide(decider, key_text(record), record, event)

    def _apply(self, turn: Turn, entry: Entry, state: Any, said: Sequence[Event], records: list[Record]) -> None:
        decider, cause = turn.speaker.decider, turn.cause
        changed = entry_after(entry, decider, cause, state, records)
        self.state.set_entry(decider, turn.key, changed)
        if records:
            self._say(records, said)
        if records and decider.effects:
            for record, event in zip(records, said, strict=True):
                if type(event) in decider.effects:
                    self._request(decider, record, event)

    def _request(self, decider: Decider[Any], record: Record, event: Event) -> None:
        """Let an effect run once this is committed; one that follows from the past waits for a person."""
        pending = record._replace(headers=()) if record.headers else record
        if not (record.headers and self._mark):
            self._requested.append((pending, event))
            self.state.put(effect_key(record.event_id), pending)
            return
        reason = reason_of(past_of(record.headers))
        self.state.put(effect_key(record.event_id), stalled(pending, reason))
        self._act(_stall(record, decider, reason))

    def _take_beginnings(self, beginnings: Sequence[Beginning]) -> None:
        for topic, first, past_end in beginnings:
            self._act(Step("begin", topic, first, past_end))
            self._steps.next[topic] = first
            self._past = {**self._past, topic: past_end}
        if not self.positions.next:
            self._first_ms = self._at_ms

    def _say(self, records: list[Record], said: Sequence[Event]) -> None:
        self._events += records
        self._said += said
        self._said_count += len(records)
        for record, event in zip(records, said, strict=True):
            contract = contract_of(type(event))
            if contract.topic.latest:
                self._events.append(latest_copy(record, tombstone=contract.tombstone))
                self._said.append(None)

    def _act(self, step: Step) -> None:
        self._steps.act(step)

    def _positions(self) -> Positions:
        next_offsets = {**self.positions.next, **self._steps.next}
        past = {topic: end for topic, end in self._past.items() if next_offsets[topic] < end} if self._past else {}
        return Positions(next_offsets, self._at_ms, self._first_ms, past)

    def close(self) -> Transaction:
        """Return the open transaction as it has to be appended."""
        positions = self._positions()
        changes = self.state.records(Place(self._changelog, self.partition, self._at_ms), self._sources)
        changes.append(self._own_record(self._changelog, POSITION_KEY.encode(), positions))
        self._end_entry()
        journal = [self._own_record(self._journal, None, entry) for entry in self._entries]
        return Transaction(
            self._events,
            self._said,
            changes,
            journal,
            positions,
            Passed(self._handled, self._answered, self._took),
            self._parks,
            self._requested,
        )

    def _own_record(self, topic: str, key: bytes | None, content: object) -> Record:
        value = self._log.codec.encode(content)
        return Record(topic, self.partition, -1, self._at_ms, key, value, type=type(content).__name__)


def body_hash(record: Record) -> str:
    """Return what tells two requests with one id apart (16 hex digits)."""
    return blake2b(record.value or b"", digest_size=8).hexdigest()


def stalled(pending: Record, reason: str) -> Record:
    """Return a pending effect as one that is parked."""
    return pending._replace(headers=(("parked_reason", reason.encode()),))


def _stall(request: Record, decider: Decider[Any], reason: str) -> Step:
    return Step("stall", decider=decider.name, key=request.subject or "", detail=reason, request=request.event_id)
