"""A task: one partition of a service, as a synchronous machine from inputs to one transaction.

It does no I/O except on its local store, reads no clock and awaits nothing, so that the runtime, the replay and the
simulator run the same code. The committer around it reads inputs, appends transactions, and reports the outcome.
"""

from collections.abc import Sequence

from eventlib.eventlog import EventLog
from eventlib.model.event import Event
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.instrumentation import Clock, InstrumentedProcessor
from eventlib.runtime.keyed_state import KeyLocation
from eventlib.runtime.processor import MAX_EMITTED, InputProcessor
from eventlib.runtime.records import POSITION_KEY, RESET, Positions, Step
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Inputs, Passed, ProcessingSpan, ResetClock, Transaction
from eventlib.runtime.transaction_builder import ANY_TIME_MS, TransactionBuilder


class Task:
    """Partition `partition` of a service.

    A transaction is opened with inputs, may take more, and is closed when it is to be appended. Guarantee: it changes
    nothing until `committed`; after `rolled_back` the same inputs can be handled again. No record that is dated more than
    `ahead_ms` ahead of the clock sets its time: an input is parked then. A rerun follows the past, and has no bound.
    """

    def __init__(  # noqa: PLR0913  named, all but four
        self,
        service: Service,
        partition: int,
        log: EventLog,
        state: TaskState,
        *,
        positions: Positions,
        code_version: str,
        ahead_ms: int = ANY_TIME_MS,
    ) -> None:
        self.service = service
        self.partition = partition
        self.state = state
        self.positions = positions
        self.processor = InputProcessor(service, partition, log, state, code_version)
        self._log = log
        self._ahead_ms = ahead_ms
        self._code_version = code_version
        self._sources = {name: builder.source for name, builder in self.processor.builders.items()}
        self._parked_topic = service.parked.name
        self._changelog, self._journal = service.changelog.name, service.journal.name
        self._inputs = self.processor.inputs
        self._passed: Sequence[Step] = ()
        self._opened = Inputs(0)
        self._begin(0)

    def observe(self, clock: Clock) -> None:
        """Record processing spans from now on, timed by a clock; call it before the first transaction."""
        version = self._code_version
        self.processor = InstrumentedProcessor(self.service, self.partition, self._log, self.state, version, clock)
        self._inputs = self.processor.inputs
        self.state.count_dues()

    def _begin(self, at_ms: int) -> None:
        self._draft = self.processor.draft = TransactionBuilder(at_ms, self.positions, self._passed)
        self._handled = self._answered = self._took = 0
        self._takes_more = False

    def handle(self, inputs: Inputs) -> Transaction:
        """Open a transaction with inputs, and close it. Raises: as `open` does."""
        self.open(inputs)
        return self.close()

    def open(self, inputs: Inputs) -> None:  # noqa: C901  one kind of transaction after the other
        """Open a transaction, and process inputs up to its size.

        Raises: UnknownSchema when the codec has to be refreshed; then roll back and open it again.
        """
        records = timed = inputs.records
        if inputs.release is not None:
            records = () if inputs.release.control is None else (inputs.release.control,)
            # When the repaired ones were parked, their times could not be read.
            timed = (*records, *inputs.release.repaired.values())
        external = self._inputs.external
        timed = [record for record in timed if record.topic not in external] if external else timed  # others' clocks!
        is_reset = bool(inputs.acts) and any(isinstance(act, ResetClock) for act in inputs.acts)
        before_ms = 0 if is_reset else self.positions.at_ms
        latest_ms = max(inputs.now_ms + self._ahead_ms, before_ms)
        newest = max((r.timestamp_ms for r in timed if r.timestamp_ms <= latest_ms), default=0)
        at_ms = max(inputs.now_ms, newest, before_ms)
        # Looked for in the text first: few tasks have ever been reset, and all open transactions.
        self._begin(self.positions.clock.unused(at_ms) if RESET in self.positions.topics else at_ms)
        self._draft.latest_ms = latest_ms
        self._opened = inputs
        self._inputs.schemas_known = inputs.schemas_known
        for act in inputs.acts:
            self.processor.act_on(act)
        self._answered = len(inputs.answers)
        for answer in inputs.answers:
            self.processor.take_answer(answer)
        if inputs.release is not None:
            self._handled = len(records)
            for record in records:
                self._draft.steps.took(record)
            self.processor.release(inputs.release)
        elif inputs.unhandled:
            self._handled = len(records)
            self.processor.park_unhandled(records, inputs.due_ms, inputs.unhandled)
        elif inputs.damaged is not None:
            self._took = inputs.damaged.resume_at - inputs.damaged.offset
            self.processor.take_damaged(inputs.damaged)
        elif inputs.beginnings:
            self._draft.begin(inputs.beginnings)
        elif inputs.losses:
            self._draft.lose(inputs.losses)
        else:
            self._take_records(records)
            self._takes_more = self._handled == len(records) and not inputs.acts
            if inputs.due_ms is not None and self._handled == len(records):
                self.processor.pass_deadlines(inputs.due_ms, inputs.most_due)

    def take(self, record: Record, event: Event | None, read_to: int = 0) -> bool:
        """Handle one more input in the transaction that is open; `event` is what its record holds.

        False, and nothing is done, when it is not the next one of its topic here, or has to wait for a transaction
        with a later time or more room. Up to `read_to` there is nothing more: logs have offsets without a record.
        """
        draft = self._draft
        expected = max(draft.next_of(record.topic), read_to)
        if not self._takes_more or record.offset != expected or record.timestamp_ms > draft.at_ms:
            return False
        if len(draft.events) >= MAX_EMITTED:
            return False
        self._took += 1
        if draft.emitted_count and self._inputs.deciders_of(record) is not None:
            draft.cut(self._code_version)
        self.processor.take(record, event)
        return True

    @property
    def at_ms(self) -> int:
        """The time of the open transaction, and of all records in it."""
        return self._draft.at_ms

    @property
    def taken(self) -> int:
        """How many inputs the open transaction has consumed."""
        return self._handled + self._took

    @property
    def matters(self) -> bool:
        """Whether the open transaction does more than advance positions past inputs that change nothing."""
        return bool(self._draft.events or self._draft.steps.acts or self.state.is_changed)

    @property
    def spans(self) -> Sequence[ProcessingSpan]:
        """Processing spans of the open transaction; empty if unobserved."""
        return self._draft.spans

    @property
    def events(self) -> list[Record]:
        """The records that the open transaction has emitted so far."""
        return self._draft.events

    @property
    def emitted(self) -> list[Event | None]:
        """The event in each record of `events`, or None."""
        return self._draft.emitted

    def close(self) -> Transaction:
        """Return the open transaction, ready to be appended."""
        draft, positions = self._draft, self._draft.positions()
        changes = self.state.records(KeyLocation(self._changelog, self.partition, draft.at_ms), self._sources)
        changes.append(self._own_record(self._changelog, POSITION_KEY.encode(), positions))
        journal = [self._own_record(self._journal, None, entry) for entry in draft.entries(self._code_version)]
        passed = Passed(self._handled, self._answered, self._took)
        emitted, requested = draft.emitted, draft.requested
        return Transaction(
            draft.events,
            emitted,
            changes,
            journal,
            positions,
            passed,
            draft.parks,
            requested,
            draft.spans,
            draft.failures,
        )

    def without_unfit_states(self, refused: tuple[int, str] | None = None) -> Transaction:
        """Handle what the open transaction was opened with once more, and close it: what leads to an unfit state is parked.

        For a transaction that could not be closed or appended, and in which no other task takes part. `refused` is a size
        from which on the log has refused records, and its error.
        """
        self.rolled_back()
        self.processor.check_sizes(checks=True, refused=refused)
        try:
            return self.handle(self._opened)
        finally:
            self.processor.check_sizes(checks=False)

    def committed(self, transaction: Transaction, offsets: Sequence[int]) -> None:
        """Apply a transaction that was appended; `offsets` are those of its records."""
        if transaction.parks:
            ends = (o for r, o in zip(transaction.events, offsets, strict=False) if r.topic == self._parked_topic)
            self.processor.parked_end = max(ends) + 1
        self._log.remember(transaction.events, offsets, transaction.emitted)
        last_change = offsets[len(transaction.events) + len(transaction.changes) - 1]
        self.state.commit(transaction.changes, last_change + 1)
        self.positions = transaction.positions
        self._passed = ()
        if self.processor.pauses.is_changed:
            self.processor.pauses.load()
            self.state.look_at_deadlines()

    def skip(self) -> Passed:
        """Skip the inputs of the open transaction, which changes nothing, without appending it.

        Where another has handled them, the next transaction's journal entry begins with them: whether an input makes
        no difference depends on when it is handled, so a replay has to know.
        """
        self.state.roll_back()
        self.positions = self._draft.positions()
        if self._draft.is_met:
            self._passed = self._draft.steps.all()
        return Passed(self._handled, self._answered, self._took)

    def rolled_back(self) -> None:
        """Discard a transaction that was not appended."""
        self.state.roll_back()

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return a lower bound (ms) of the next due time, exact once it has passed; None without deadlines."""
        return self.state.due_from(now_ms, self.processor.waits)

    def _take_records(self, records: Sequence[Record]) -> None:
        for record in records:
            if len(self._draft.events) >= MAX_EMITTED:
                break
            self._handled += 1
            self.processor.take(record, None)

    def _own_record(self, topic: str, key: bytes | None, content: object) -> Record:
        value = self._log.codec.encode(content)
        return Record(topic, self.partition, -1, self._draft.at_ms, key, value, type=wire_name_of(type(content)))
