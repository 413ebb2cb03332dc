"""The commit protocol of one owner of a task; it has no clock, and waits only for the log.

The loop around it waits, gives the time and runs effects; the simulator does all three by its schedule. For both, this
module decides what a transaction is made of, when a deadline may pass and what follows from a commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord, OwnershipLost, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, Reader, TopicPartition
from eventlib.log.rules import TooLargeForLog, stored_bytes
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import FirstServices, beginnings
from eventlib.runtime.instrumentation import Observer
from eventlib.runtime.local_chain import LocalChain
from eventlib.runtime.losses import Gaps, losses_of, tell, with_ids
from eventlib.runtime.lost_owners import Suspects
from eventlib.runtime.parking.causes import NewCauses
from eventlib.runtime.parking.requests import OperatorRequests
from eventlib.runtime.pending import PendingEffects
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Inputs, Loss, Passed, Transaction

StartEffect = Callable[[Record, Event | None], bool]
"""Starts an effect; False when it waits at a limit."""


class TaskCommitter:
    """Feeds a task its inputs under a claim, commits its transactions, and starts the effects that follow.

    Its loop puts the records that it reads into `inbox`, an input that cannot be read into `damaged` and the answers of
    effects into `answers`, and calls `turn`.
    While `at_rest` returns that it waits with nothing at hand, a local chain may hand it what others emit.
    Guarantee: an input's position, the state change, the journal entry and the events emitted are committed together or
    not at all; whatever interrupts it, the next owner continues from the last commit.
    """

    def __init__(  # noqa: PLR0913  each is optional, and given by its name
        self,
        task: Task,
        claim: Claim,
        log: EventLog,
        start_effect: StartEffect,
        *,
        skipped_inputs: int,
        chain: LocalChain | None = None,
        first_services: FirstServices | None = None,
        was_lost: bool = False,
        lost_owners: int = 0,
    ) -> None:
        self.task = task
        self.claim = claim
        self.inbox: list[Record] = []
        self.answers: list[Answer] = []
        self.damaged: DamagedRecord | None = None
        self.gaps: Gaps = {}
        self.compares_topics = False
        """Whether a topic may be another one by now: its identity is compared before the next transaction."""
        self.transactions = 0
        self.at_rest: Callable[[], bool] = lambda: False
        self._log = log
        self._chain = chain
        self._first_services = first_services or FirstServices(log)
        self._read_to: Mapping[str, int] = {}
        self.observer: Observer | None = None
        self.causes: NewCauses | None = None
        self._append_began_ns = 0
        self._appends_alone = False
        self._most_skipped = skipped_inputs
        self._skipped = 0
        self._requests = OperatorRequests(task, log)
        self._control = task.service.control.name
        self.inputs: list[TopicPartition] = [(topic.name, task.partition) for topic in task.service.inputs]
        """The partitions that it reads while nothing is paused, without its control topic."""
        self._reads = self.inputs
        self._pauses = task.processor.pauses
        self._held: frozenset[str] = frozenset()
        self._seen_pauses = self._pauses.all
        self.suspects = Suspects(self, log, lost_owners, start_effect)
        self.pending = PendingEffects(task.state, self.suspects.start, self.holds_effect)
        self._was_lost: bool | None = was_lost
        self._reader: Reader | None = None
        self._barrier: tuple[int, Mapping[TopicPartition, int]] | None = None

    async def begin(self, now_ms: int) -> bool:
        """Commit the starts of topics that the task has not read before; False when there are none.

        As well, False when there are none, that inputs are gone: it is called until there is nothing left to commit.
        Requests of operators that wait by then are put into the inbox, so that a pause holds from the first input on.
        """
        task = self.task
        new = [name for name in (*(name for name, _ in self.inputs), self._control) if name not in task.positions.next]
        if new:  # before their offsets: who reads an older id than that learns so at the next look
            task.positions = with_ids(task.positions, await self._log.port.identities(new))
        found = await beginnings(self._log, self._first_services, task.service, task.partition, task.positions)
        if found:
            await self._commit(Inputs(now_ms, beginnings=found))
            return True
        if await self._pass_losses(now_ms):
            return True
        if self._was_lost is not None:
            inputs = [*(name for name, _ in self.inputs if name not in self._pauses.topics), self._control]
            await self.suspects.count(now_ms, inputs, was_lost=self._was_lost)
            self._was_lost = None
        await self.look_for_requests()
        return False

    async def _pass_losses(self, now_ms: int) -> bool:
        """Commit that inputs are gone, and go on behind them; False when none are."""
        port, partition = self._log.port, self.task.partition
        identities = await port.identities(self.task.positions.next)
        self.task.positions = with_ids(self.task.positions, identities)
        losses = await losses_of(port, partition, self.task.positions, self.gaps, identities)
        if losses:
            await self._commit(Inputs(now_ms, losses=losses))
            tell(f"{self.task.service.name}/{partition}", losses)
        self.gaps, self.compares_topics = {}, False
        for loss in losses:
            self._go_on(loss)
        return bool(losses)

    def _go_on(self, loss: Loss) -> None:
        """Read on behind a loss, and drop what was read of a topic that is another one now."""
        place, is_another = (loss.topic, self.task.partition), loss.to < loss.first
        self.inbox = [
            record
            for record in self.inbox
            if record.topic != loss.topic or (record.offset >= loss.to and not is_another)
        ]
        reader = self._reader if place in self._reads or loss.topic == self._control else None
        if reader is not None and (is_another or reader.position(place) < loss.to):
            reader.seek(place, loss.to)

    async def look_for_requests(self) -> None:
        """Put requests of operators that wait into the inbox, which is empty, and let nothing else be read before them."""
        self.inbox = await self._requests.waiting()
        if self.inbox and self._reader is not None:
            self._reader.seek((self._control, self.task.partition), self.inbox[-1].offset + 1)

    def open(self) -> Reader:
        """Return the reader that fills the inbox; it starts where the last transaction ended.

        What is paused is not read. When that changes, the reader is to be replaced: see `reopens`.
        """
        self._seen_pauses, self._held = self._pauses.all, self._pauses.topics
        self._reads = [each for each in self.inputs if each[0] not in self._held]
        self.inbox = [record for record in self.inbox if record.topic == self._control]
        self.damaged = self._barrier = None
        positions = {each: self.task.positions.next[each[0]] for each in self._reads}
        control = self._control, self.task.partition
        positions[control] = self.inbox[-1].offset + 1 if self.inbox else self.task.positions.next[self._control]
        self._reader = self._log.port.reader(positions)
        return self._reader

    @property
    def reopens(self) -> bool:
        """Whether what is paused has changed since `open`: it has to be called again, and then `pending.start`."""
        return self._pauses.all is not self._seen_pauses

    @property
    def unread(self) -> list[TopicPartition]:
        """The inputs that are not read, since they are paused."""
        return [each for each in self.inputs if each[0] in self._held]

    def holds_effect(self, request: Record) -> bool:
        """Tell whether an effect is paused."""
        return self._pauses.any and self._pauses.holds_effect(request)

    async def turn(self, now_ms: int) -> None:
        """Commit one transaction of what is ready: the inbox, answers, and deadlines that are due.

        Raises: OwnershipLost when another owner took over; another RetryableError when the log cannot take it now, and
        then the next turn handles the same; TerminalError when the log or the code needs a person.
        """
        if self._chain is not None:
            await self._until_free(self._chain)
            now_ms = self._chain.time(now_ms)
        if self.gaps or self.compares_topics:
            await self._pass_losses(now_ms)
        if self.suspects.is_careful:
            await self.suspects.turn(now_ms)
            return
        inputs = await self.next_inputs(now_ms)
        if inputs is not None:
            await self._commit(inputs)

    async def next_inputs(self, now_ms: int) -> Inputs | None:
        """Return what is ready for a transaction; None: nothing is."""
        if self.damaged is not None and not self.inbox:
            return Inputs(now_ms, damaged=self.damaged)
        if self.inbox and self.inbox[0].topic == self._control:
            return Inputs(now_ms, release=await self._requests.release(self.inbox[0]))
        self._requests.forget()
        records = self._before_control()
        due_ms = await self._due(now_ms, len(records) == len(self.inbox))
        is_ready = records or self.answers or due_ms is not None
        return Inputs(now_ms, records, list(self.answers), due_ms) if is_ready else None

    async def commit_alone(self, inputs: Inputs) -> None:
        """Commit a transaction that no other task takes part in, whatever comes of it."""
        self._appends_alone = True
        await self._commit(inputs, always=True)

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
            try:
                appended = await self._appended(self.task.close())
            except (ContractError, WiringError):
                appended = None  # a state in it may be unfit: then the input that leads to it is parked
            self.settle(*(appended or await self._appended_fit()))

    async def _appended_fit(self) -> tuple[Transaction, Sequence[int]]:
        """Append the transaction without what is unfit; where the log refuses a size, without the largest, until it takes it."""
        refused: tuple[int, str] | None = None
        while True:
            transaction = self.task.without_unfit_states(refused)
            try:
                return await self._appended(transaction)
            except TooLargeForLog as error:
                emitted = zip(transaction.events, transaction.emitted, strict=True)
                made = [record for record, event in emitted if event is not None]
                largest = max(map(stored_bytes, [*made, *transaction.changes]))
                if refused is not None and largest >= refused[0]:
                    raise
                refused = largest, str(error)

    async def _appended(self, transaction: Transaction) -> tuple[Transaction, Sequence[int]]:
        try:
            return transaction, await self._log.port.append(transaction.records, self.claim)
        except OwnershipLost:
            raise
        except RetryableError:
            self.roll_back()
            raise

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
        if self.suspects.is_careful or not self.at_rest() or (due is not None and due <= at_ms):
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
            else {topic_partition[0]: reader.position(topic_partition) for topic_partition in self._reads}
        )

    def take(self, record: Record, event: Event | None) -> bool:
        """Process one more input in the open transaction, if it is the next of its partition."""
        if self._held and record.topic in self._held:
            return False
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
        if self.causes is not None:
            for decider, key, failure in transaction.failures:
                self.causes.tell(self.task.service.name, decider, key, failure, failure.traceback)
        for request, event in transaction.requested:
            if not self.holds_effect(request):
                self.suspects.start(request, event)
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
                if topic in self._held:
                    continue
                if self._reader.position(topic_partition) < offset:
                    self._reader.seek(topic_partition, offset)
            due = self.task.state.due_bound
            waits_less = due is not None and (due_before is None or due < due_before)
            if waits_less or self.task.state.wants_flush:
                self._reader.wake()  # a task that waits there has something to do
