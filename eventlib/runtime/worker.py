"""One owner's work on a task, without a clock: it waits for nothing but the log.

The loop around it waits, tells the time and runs effects; the simulator does all three as its schedule has it. What a
transaction is made of, when a deadline may pass and what follows from a commit is decided here, for both.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from eventlib.codec.port import UnknownSchema
from eventlib.errors import EventlibError, OwnershipLost, Retryable
from eventlib.event import Event
from eventlib.eventlog import EventLog
from eventlib.log.port import Claim, Reader, Record, TopicPartition
from eventlib.runtime.parking import ParkedRetryRequested, waiting_behind
from eventlib.runtime.past import beginnings
from eventlib.runtime.records import EFFECT
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Inputs, Release, Transaction

_log = logging.getLogger(__name__)

StartEffect = Callable[[Record, Event | None], None]


class Worker:
    """Hands a task its inputs under a claim, commits what it makes of them, and starts the effects that follow.

    Whoever drives it puts what was read into `inbox` and what effects came back with into `answers`, and calls `turn`.
    Guarantee: an input's position, the state change, the journal entry and the events said are committed together or
    not at all; whatever interrupts it, the next owner goes on from the last commit.
    """

    def __init__(
        self, task: Task, claim: Claim, log: EventLog, start_effect: StartEffect, *, skipped_inputs: int
    ) -> None:
        self.task = task
        self.claim = claim
        self.inbox: list[Record] = []
        self.answers: list[Answer] = []
        self.transactions = 0
        self._log = log
        self._start_effect = start_effect
        self._most_skipped = skipped_inputs
        self._skipped = 0
        self._reader: Reader | None = None
        self._barrier: tuple[int, Mapping[TopicPartition, int]] | None = None

    async def begin(self, now_ms: int) -> bool:
        """Settle where the task begins on topics that it has never read; False when there are none."""
        found = await beginnings(self._log.port, self.task.service, self.task.partition, self.task.positions)
        if found:
            await self._commit(Inputs(now_ms, beginnings=found))
        return bool(found)

    def open(self) -> Reader:
        """Return the reader that fills the inbox from now on: it goes on where the last transaction ended."""
        topics = (*self.task.service.inputs, self.task.service.control)
        place = self.task.partition
        self._reader = self._log.port.reader({(t.name, place): self.task.positions.next[t.name] for t in topics})
        return self._reader

    def start_pending(self) -> None:
        """Start the effects that were left pending, but for those that are parked."""
        for request in self.task.state.committed(EFFECT):
            if not request.headers:
                self._start_effect(request, None)

    async def turn(self, now_ms: int) -> None:
        """Commit one transaction from what is there: the inbox, answers, and deadlines whose time has come.

        Raises: OwnershipLost when another owner took over; another Retryable when the log cannot take it now, and
        then the next turn handles the same; Terminal when the log or the code needs a person.
        """
        if self.inbox and self.inbox[0].topic == self.task.service.control.name:
            await self._commit(Inputs(now_ms, release=await self._release(self.inbox[0])))
            return
        records = self._before_control()
        due_ms = await self._due(now_ms, len(records) == len(self.inbox))
        if records or self.answers or due_ms is not None:
            await self._commit(Inputs(now_ms, records, list(self.answers), due_ms))

    async def finish(self, now_ms: int) -> None:
        """Commit the answers that are left, and how far inputs were skipped. Raises: as `turn` does."""
        await self._commit(Inputs(now_ms, answers=list(self.answers)), always=True)

    def _before_control(self) -> list[Record]:
        control = self.task.service.control.name
        for index, record in enumerate(self.inbox):
            if record.topic == control:
                return self.inbox[:index]
        return self.inbox

    async def _due(self, now_ms: int, takes_all: bool) -> int | None:
        """Return the time up to which deadlines may pass now: all that was on the inputs at that time is handled."""
        due = self.task.next_due_ms(now_ms)
        if due is None or due > now_ms:
            return None
        assert self._reader is not None  # noqa: S101  opened before the first turn
        if self._barrier is None:
            self._barrier = (now_ms, await self._reader.ends())
        at, ends = self._barrier
        if not takes_all or any(self._reader.position(place) < end for place, end in ends.items()):
            return None
        self._barrier = None
        return at

    async def _commit(self, inputs: Inputs, *, always: bool = False) -> None:
        transaction = await self._handled(inputs)
        self._skipped = 0 if transaction.matters else self._skipped + transaction.handled
        if transaction.matters or self._skipped >= self._most_skipped or (always and self._skipped):
            offsets = await self._appended(transaction)
            self.task.committed(transaction, offsets)
            self.transactions += 1
            self._skipped = 0
        else:
            self.task.skipped(transaction)
        self.inbox = self.inbox[transaction.handled :]
        if inputs.answers:
            self.answers = self.answers[len(inputs.answers) :]
        for request, event in transaction.requested:
            self._start_effect(request, event)

    async def _handled(self, inputs: Inputs) -> Transaction:
        try:
            return self.task.handle(inputs)
        except UnknownSchema:
            self.task.rolled_back()
            await self._log.codec.refresh()
            return self.task.handle(replace(inputs, schemas_known=True))

    async def _appended(self, transaction: Transaction) -> list[int]:
        try:
            return await self._log.port.append(transaction.records, self.claim)
        except OwnershipLost:
            raise
        except Retryable:
            self.task.rolled_back()
            raise

    async def _release(self, control: Record) -> Release:
        """Collect what a retry request is about: the parked inputs that wait, or a parked effect."""
        try:
            request = self._log.codec.decode(ParkedRetryRequested, control.value or b"")
        except EventlibError as error:
            _log.warning("control record %s is not a retry request: %s", control.event_id, error)
            return Release(control)
        parked = self.task.parked.get(request.decider, request.key)
        if parked is None:
            return Release(control, effect_id=request.key)
        place = self.task.service.parked.name, self.task.partition
        return Release(control, await waiting_behind(parked, place, self._log.port))
