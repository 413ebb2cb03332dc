"""A task's loop: read, decide, commit, and again."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Annotated

from pydantic import Field

from eventlib.codec.port import UnknownSchema
from eventlib.errors import EventlibError, OwnershipLost, Retryable
from eventlib.eventlog import EventLog
from eventlib.log.port import Claim, Reader, Record, TopicPartition
from eventlib.runtime.breaker import Breaker, BreakerConfig
from eventlib.runtime.effects import EffectRunner
from eventlib.runtime.parking import ParkedRetryRequested, is_waiting
from eventlib.runtime.past import beginnings
from eventlib.runtime.records import EFFECT, POSITION_KEY, Positions
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Inputs, Release, Transaction
from eventlib.service import Service
from eventlib.store.port import Stores
from eventlib.times import now_ms

_log = logging.getLogger(__name__)

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """How a runtime uses its machine; the defaults suit one machine.

    `batch` is how many inputs a transaction takes at most, `cached_entries` how many states a task keeps decoded,
    `pending_effects` how many requests a task leaves open before it takes no more input, `concurrent_effects` how
    many attempts a service has out at once, `grace_s` how long a stopping service waits for attempts that are out.
    `breaker_failures` in a row stop the calls to a port (0: they never do), for `breaker_pause_s` seconds at first,
    and for `breaker_longest_pause_s` at most when it stays away; requests wait meanwhile, and use up no attempts.
    `state_dir` is where local stores are kept when the log is not a file on this machine.
    """

    batch: Count = 500
    cached_entries: Count = 1_000
    pending_effects: Count = 500
    concurrent_effects: Count = 200
    grace_s: Seconds = 5.0
    restore_chunk: Count = 2_000
    skipped_inputs: Count = 5_000
    retry_pause_s: Seconds = 0.2
    flush_s: Seconds = 5.0
    breaker_failures: Annotated[int, Field(ge=0)] = 20
    breaker_pause_s: Seconds = 1.0
    breaker_longest_pause_s: Seconds = 5.0
    state_dir: str = "var/state"

    def breaker(self, port: str) -> Breaker:
        """Return a new circuit breaker for a port."""
        return Breaker(port, BreakerConfig(self.breaker_failures, self.breaker_pause_s, self.breaker_longest_pause_s))


@dataclass(frozen=True, slots=True)
class Host:
    """What a process gives to every task that it runs."""

    log: EventLog
    stores: Stores
    ports: Mapping[str, object]
    breakers: Mapping[str | None, Breaker]
    config: RuntimeConfig
    code_version: str


class TaskLoop:
    """Runs one task of a service under a claim, until it is stopped or loses the claim.

    Guarantee: an input's position, the state change, the journal entry and the events said are committed together or
    not at all; whatever interrupts it, the next owner goes on from the last commit.
    """

    def __init__(self, service: Service, claim: Claim, host: Host, slots: asyncio.Semaphore) -> None:
        self.service = service
        self.claim = claim
        self.transactions = 0
        self._host = host
        self._config = host.config
        self._log = host.log
        self._port = host.log.port
        self._effects = EffectRunner(service, host.log, host.ports, host.breakers, slots, self._take_answer)
        self._answers: list[Answer] = []
        self._inbox: list[Record] = []
        self._skipped = 0
        self._flushed_at = monotonic()
        self._stopping = False
        self._woken = asyncio.Event()
        self._barrier: tuple[int, Mapping[TopicPartition, int]] | None = None
        self._reader: Reader | None = None

    def stop(self) -> None:
        """Ask the loop to end after the transaction at hand."""
        self._stopping = True
        self._woken.set()
        if self._reader is not None:
            self._reader.wake()

    async def run(self) -> None:
        """Restore the task, then handle its inputs until stopped.

        Raises: OwnershipLost when another owner took over; Terminal when the log or the code needs a person.
        """
        task = await self._restored()
        try:
            if await self._begin(task):
                await self._handle_inputs(task)
        finally:
            self._close(task)

    async def _handle_inputs(self, task: Task) -> None:
        self._reader = self._port.reader(self._first_offsets(task))
        try:
            for request in task.state.committed(EFFECT):
                if not request.headers:
                    self._effects.start(request, None)
            while not self._stopping:
                await self._turn(task)
            await self._effects.stop(self._config.grace_s)
            await self._commit(task, Inputs(now_ms(), answers=self._answers), always=True)
        finally:
            await self._effects.stop(0)
            await self._reader.close()

    def _close(self, task: Task) -> None:
        try:
            task.state.close()
        except OwnershipLost:
            _log.debug("%s/%s: the store has another owner already", self.service.name, self.claim.partition)

    async def is_idle(self) -> bool:
        """Tell whether there is nothing to handle: every input read and handled, no effect and no answer open."""
        if self._reader is None or self._inbox or self._answers or len(self._effects):
            return False
        ends = await self._reader.ends()
        return not self._inbox and all(self._reader.position(place) >= end for place, end in ends.items())

    # --- one turn

    async def _turn(self, task: Task) -> None:
        now = now_ms()
        due = task.next_due_ms(now)
        if not self._inbox:
            await self._fill_inbox(self._patience_s(due, now))
        if self._inbox and self._inbox[0].topic == self.service.control.name:
            await self._commit(task, Inputs(now_ms(), release=await self._release(task, self._inbox[0])))
            return
        records = self._before_control()
        due_ms = await self._due(due, now, len(records) == len(self._inbox))
        if records or self._answers or due_ms is not None:
            await self._commit(task, Inputs(now_ms(), records, list(self._answers), due_ms))

    def _patience_s(self, due: int | None, now: int) -> float | None:
        if self._answers or (due is not None and due <= now):
            return 0
        return None if due is None else (due - now) / 1000

    async def _fill_inbox(self, timeout_s: float | None) -> None:
        assert self._reader is not None  # noqa: S101  opened before the first turn
        if len(self._effects) >= self._config.pending_effects:
            # Input waits until the outside world has answered: what is pending stays bounded.
            await self._sleep_until_woken(timeout_s)
            return
        self._inbox = await self._reader.poll(self._config.batch, timeout_s)

    async def _sleep_until_woken(self, timeout_s: float | None) -> None:
        self._woken.clear()
        if not self._answers and not self._stopping and timeout_s != 0:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
            except TimeoutError:
                return

    def _before_control(self) -> list[Record]:
        control = self.service.control.name
        for index, record in enumerate(self._inbox):
            if record.topic == control:
                return self._inbox[:index]
        return self._inbox

    async def _due(self, due: int | None, now: int, takes_all: bool) -> int | None:
        """Return the time up to which deadlines may pass now: all that was on the inputs at that time is handled."""
        assert self._reader is not None  # noqa: S101  opened before the first turn
        if due is None or due > now:
            return None
        if self._barrier is None:
            self._barrier = (now, await self._reader.ends())
        at, ends = self._barrier
        if not takes_all or any(self._reader.position(place) < end for place, end in ends.items()):
            return None
        self._barrier = None
        return at

    async def _commit(self, task: Task, inputs: Inputs, *, always: bool = False) -> None:
        transaction = await self._handled(task, inputs)
        self._skipped = 0 if transaction.matters else self._skipped + transaction.handled
        if transaction.matters or self._skipped >= self._config.skipped_inputs or (always and self._skipped):
            offsets = await self._appended(task, transaction)
            if offsets is None:
                return
            task.committed(transaction, offsets)
            self._flush_sometimes(task)
            self.transactions += 1
            self._skipped = 0
        else:
            task.skipped(transaction)
        self._inbox = self._inbox[transaction.handled :]
        if inputs.answers:
            self._answers = self._answers[len(inputs.answers) :]
        for request, event in transaction.requested:
            self._effects.start(request, event)

    def _flush_sometimes(self, task: Task) -> None:
        now = monotonic()
        if now - self._flushed_at >= self._config.flush_s:
            self._flushed_at = now
            task.state.flush()

    async def _handled(self, task: Task, inputs: Inputs) -> Transaction:
        try:
            return task.handle(inputs)
        except UnknownSchema:
            task.rolled_back()
            await self._log.codec.refresh()
            return task.handle(replace(inputs, schemas_known=True))

    async def _appended(self, task: Task, transaction: Transaction) -> list[int] | None:
        """Append a transaction; None when the log cannot take it now, and the same inputs come again."""
        try:
            return await self._port.append(transaction.records, self.claim)
        except OwnershipLost:
            raise
        except Retryable as error:
            task.rolled_back()
            _log.warning("%s/%s cannot commit, tries again: %s", self.service.name, self.claim.partition, error)
            await asyncio.sleep(self._config.retry_pause_s)
            return None

    def _take_answer(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._woken.set()
        if self._reader is not None:
            self._reader.wake()

    async def _release(self, task: Task, control: Record) -> Release:
        """Collect what a retry request is about: the parked inputs that wait, or a parked effect."""
        try:
            request = self._log.codec.decode(ParkedRetryRequested, control.value or b"")
        except EventlibError as error:
            _log.warning("control record %s is not a retry request: %s", control.event_id, error)
            return Release(control)
        parked = task.parked.get(request.decider, request.key)
        if parked is None:
            return Release(control, effect_id=request.key)
        waiting = list[Record]()
        offset = parked.first
        while records := await self._port.read(self.service.parked.name, self.claim.partition, offset, 1_000):
            offset = records[-1].offset + 1
            waiting += [r for r in records if is_waiting(r, request.decider, request.key)]
        return Release(control, waiting)

    # --- the beginning

    async def _restored(self) -> Task:
        partition = self.claim.partition
        store = self._host.stores.open(self.service.name, partition, self.claim.epoch, self._port.log_id)
        deciders = {decider.name: decider for decider in self.service.deciders}
        state = TaskState(store, self._log.codec, deciders, self._config.cached_entries)
        changelog = self.service.changelog.name
        end = await self._port.end(changelog, partition)
        if store.checkpoint > end:
            store.clear()
        while store.checkpoint < end:
            records = await self._port.read(changelog, partition, store.checkpoint, self._config.restore_chunk)
            state.restore(records, records[-1].offset + 1 if records else end)
        task = Task(
            self.service,
            partition,
            self._log,
            state,
            positions=await self._positions(state),
            code_version=self._host.code_version,
        )
        task.parked_end = await self._port.end(self.service.parked.name, partition)
        return task

    async def _positions(self, state: TaskState) -> Positions:
        record = state.get(POSITION_KEY)
        if record is None:
            return Positions()
        try:
            return self._log.codec.decode(Positions, record.value or b"")
        except UnknownSchema:
            await self._log.codec.refresh()
            return self._log.codec.decode(Positions, record.value or b"")

    async def _begin(self, task: Task) -> bool:
        """Settle where the task begins on topics that it has never read; False when it is stopped before that."""
        while found := await beginnings(self._port, self.service, task.partition, task.positions):
            if self._stopping:
                return False
            await self._commit(task, Inputs(now_ms(), beginnings=found))
        return True

    def _first_offsets(self, task: Task) -> dict[TopicPartition, int]:
        topics = (*self.service.inputs, self.service.control)
        return {(topic.name, task.partition): task.positions.next[topic.name] for topic in topics}
