"""The commit protocol of one owner of a task; it has no clock, and waits only for the log.

The loop around it waits, tells the time and runs effects; the simulator does all three as its schedule has it. What a
transaction is made of, when a deadline may pass and what follows from a commit is decided here, for both.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eventlib.codec.base import UnknownSchema
from eventlib.errors import DamagedRecord, OwnershipLost, RetryableError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, Reader, TopicPartition
from eventlib.log.record import Record
from eventlib.model.event import Event
from eventlib.runtime.bootstrap import beginnings
from eventlib.runtime.inputs import repaired_among
from eventlib.runtime.instrumentation import Observer
from eventlib.runtime.local_chain import LocalChain
from eventlib.runtime.parking.control import amendment_in, edit_at, request_in
from eventlib.runtime.parking.releasing import WaitingInputs
from eventlib.runtime.records import EFFECT, ParkedKey
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Edit, Inputs, Passed, Release, Transaction

_log = logging.getLogger(__name__)

StartEffect = Callable[[Record, Event | None], None]


class TaskCommitter:
    """Feeds a task its inputs under a claim, commits its transactions, and starts the effects that follow.

    Whoever drives it puts what was read into `inbox`, an input that cannot be read into `damaged`, and what effects came
    back with into `answers`, and calls `turn`.
    While `at_rest` says that it waits with nothing at hand, a relay may hand it what others emit.
    Guarantee: an input's position, the state change, the journal entry and the events emitted are committed together or
    not at all; whatever interrupts it, the next owner goes on from the last commit.
    """

    def __init__(
        self,
        task: Task,
        claim: Claim,
        log: EventLog,
        start_effect: StartEffect,
        *,
        skipped_inputs: int,
        chain: LocalChain | None = None,
    ) -> None:
        self.task = task
        self.claim = claim
        self.inbox: list[Record] = []
        self.answers: list[Answer] = []
        self.damaged: DamagedRecord | None = None
        self.transactions = 0
        self.at_rest: Callable[[], bool] = lambda: False
        self._log = log
        self._chain = chain
        self._read_to: Mapping[str, int] = {}
        self.observer: Observer | None = None
        self._append_began_ns = 0
        self._appends_alone = False
        self._start_effect = start_effect
        self._most_skipped = skipped_inputs
        self._skipped = 0
        self._waiting = WaitingInputs(log.port, (task.service.parked.name, task.partition))
        self._control = task.service.control.name
        self.inputs: list[TopicPartition] = [(topic.name, task.partition) for topic in task.service.inputs]
        """The partitions that it reads, without its control topic."""
        self._reader: Reader | None = None
        self._barrier: tuple[int, Mapping[TopicPartition, int]] | None = None

    async def begin(self, now_ms: int) -> bool:
        """Commit the starts of topics that the task has not read before; False when there are none."""
        found = await beginnings(self._log.port, self.task.service, self.task.partition, self.task.positions)
        if found:
            await self._commit(Inputs(now_ms, beginnings=found))
        return bool(found)

    def open(self) -> Reader:
        """Return the reader that fills the inbox; it starts where the last transaction ended."""
        read = [*self.inputs, (self._control, self.task.partition)]
        self._reader = self._log.port.reader({each: self.task.positions.next[each[0]] for each in read})
        return self._reader

    def start_pending(self) -> None:
        """Start the pending effects that are not parked."""
        for request in self.task.state.committed(EFFECT):
            if not request.headers:
                self._start_effect(request, None)

    async def turn(self, now_ms: int) -> None:
        """Commit one transaction of what is ready: the inbox, answers, and deadlines that are due.

        Raises: OwnershipLost when another owner took over; another RetryableError when the log cannot take it now, and
        then the next turn handles the same; TerminalError when the log or the code needs a person.
        """
        if self._chain is not None:
            await self._until_free(self._chain)
            now_ms = self._chain.time(now_ms)
        if self.damaged is not None and not self.inbox:
            await self._commit(Inputs(now_ms, damaged=self.damaged))
            return
        if self.inbox and self.inbox[0].topic == self._control:
            await self._commit(Inputs(now_ms, release=await self._release(self.inbox[0])))
            return
        self._waiting.forget()
        records = self._before_control()
        due_ms = await self._due(now_ms, len(records) == len(self.inbox))
        if records or self.answers or due_ms is not None:
            await self._commit(Inputs(now_ms, records, list(self.answers), due_ms))

    @property
    def has_skipped(self) -> bool:
        """Whether the task has skipped inputs since its last commit."""
        return self._skipped > 0

    async def finish(self, now_ms: int) -> None:
        """Commit the remaining answers and the positions of skipped inputs. Raises: as `turn` does."""
        if self._chain is not None:
            await self._until_free(self._chain)
        await self._commit(Inputs(now_ms, answers=list(self.answers)), always=True)

    def _before_control(self) -> list[Record]:
        for index, record in enumerate(self.inbox):
            if record.topic == self._control:
                return self.inbox[:index]
        return self.inbox

    async def _due(self, now_ms: int, takes_all: bool) -> int | None:
        """Return the time up to which deadlines may pass: all inputs of before that time are processed."""
        due = self.task.next_due_ms(now_ms)
        if due is None or due > now_ms:
            return None
        assert self._reader is not None  # noqa: S101  opened before the first turn
        if self._barrier is None:
            self._barrier = (now_ms, await self._reader.ends())
        at, ends = self._barrier
        if not takes_all or any(self._reader.position(topic_partition) < end for topic_partition, end in ends.items()):
            return None
        self._barrier = None
        return at

    async def _commit(self, inputs: Inputs, *, always: bool = False) -> None:
        await self._open(inputs)
        task, skipped = self.task, self._skipped + self.task.taken
        if task.matters or skipped >= self._most_skipped or (always and skipped):
            await self._append()
        else:
            self.skip()

    async def _open(self, inputs: Inputs) -> None:
        try:
            self.task.open(inputs)
        except UnknownSchema:
            self.task.rolled_back()
        else:
            return
        await self._log.codec.refresh()
        self.task.open(replace(inputs, schemas_known=True))

    async def _append(self) -> None:
        if self.observer is not None:
            self._append_began_ns = self.observer.clock()
        if self._chain is None or self._appends_alone or not await self._chain.commit(self):
            transaction = self.task.close()
            try:
                offsets = await self._log.port.append(transaction.records, self.claim)
            except OwnershipLost:
                raise
            except RetryableError:
                self.roll_back()
                raise
            self.settle(transaction, offsets)

    # --- what the relay does with a transaction that is open

    async def _until_free(self, chain: LocalChain) -> None:
        """Wait for the shared transaction that this task takes part in, and drop the inputs it processed there."""
        if await chain.until_free(self):
            handled = self.task.positions.next
            self.inbox = [record for record in self.inbox if record.offset >= handled.get(record.topic, 0)]

    def lead(self) -> None:
        """Advance the inputs past those of the open transaction, which is being appended."""
        self._read_to = self._ahead() if self.task.taken == len(self.inbox) else {}

    def follow(self, at_ms: int) -> bool:
        """Open a transaction for what other tasks of this process emit now; False when an input is waiting."""
        due = self.task.next_due_ms(at_ms)
        if not self.at_rest() or (due is not None and due <= at_ms):
            return False
        self._read_to = self._ahead()
        self.task.open(Inputs(at_ms))
        return True

    def _ahead(self) -> Mapping[str, int]:
        """Return the offset up to which each input is known to be consumed."""
        reader = self._reader
        return (
            {}
            if reader is None
            else {topic_partition[0]: reader.position(topic_partition) for topic_partition in self.inputs}
        )

    def take(self, record: Record, event: Event | None) -> bool:
        """Process one more input in the open transaction, if it is the next of its partition."""
        return self.task.take(record, event, self._read_to.get(record.topic, 0))

    def worth_appending(self) -> bool:
        """Tell whether the open transaction has to be appended; if not, `skip` it."""
        return self.task.matters or self._skipped + self.task.taken >= self._most_skipped

    def settle(self, transaction: Transaction, offsets: Sequence[int]) -> None:
        """Apply the closed transaction, which is on the log now, and start the effects that follow."""
        due = self.task.state.due_bound
        self.task.committed(transaction, offsets)
        self.transactions += 1
        self._skipped = 0
        self._appends_alone = False
        self._advance(transaction.passed, due)
        for request, event in transaction.requested:
            self._start_effect(request, event)
        if self.observer is not None:
            self.observer.committed(self.task.service, self.task.partition, transaction, self._append_began_ns)
            self._append_began_ns = 0

    def skip(self) -> None:
        """Skip the inputs of the open transaction, which changes nothing, without appending it."""
        self._skipped += self.task.taken
        if self.observer is not None and self.task.spans:
            self.observer.passed_by(self.task.service, self.task.partition, self.task.spans)
        self._advance(self.task.skip(), self.task.state.due_bound)

    def roll_back(self, *, alone: bool = False) -> None:
        """Discard the open transaction; the next one is appended `alone`, to find which task fails."""
        self.task.rolled_back()
        self._appends_alone = self._appends_alone or alone

    def _advance(self, passed: Passed, due_before: int | None) -> None:
        self.inbox = self.inbox[passed.records :]
        self.answers = self.answers[passed.answers :]
        if self.damaged is not None and self.task.positions.next[self.damaged.topic] > self.damaged.offset:
            self.damaged = None
        if passed.more and self._reader is not None:
            for topic, offset in self.task.positions.next.items():
                topic_partition = topic, self.task.partition
                if self._reader.position(topic_partition) < offset:
                    self._reader.seek(topic_partition, offset)
            due = self.task.state.due_bound
            waits_less = due is not None and (due_before is None or due < due_before)
            if waits_less or self.task.state.wants_flush:
                self._reader.wake()  # a task that waits there has something to do

    async def _release(self, control: Record) -> Release:
        """Collect what a command is about: parked inputs, or a parked effect."""
        try:
            request = await request_in(control, self._log.codec)
        except UndecodableRecord as error:
            _log.warning("%s: nothing is done about it", error)
            return Release(control)
        amendment = amendment_in(request, control.offset)
        parked = self.task.processor.parked.get(request.decider, request.key)
        if parked is None:
            return Release(control, effect_id=request.key, amendment=amendment)
        waiting = await self._waiting.behind(parked)
        amendment = amendment or await self._edited_before(parked)
        return Release(control, waiting, amendment=amendment, repaired=await repaired_among(waiting, self._log.port))

    async def _edited_before(self, parked: ParkedKey) -> Edit | None:
        """Return the edit with which a key's first input was tried before."""
        topic_partition = self._control, self.task.partition
        return None if parked.edited < 0 else await edit_at(self._log, topic_partition, parked.edited)
