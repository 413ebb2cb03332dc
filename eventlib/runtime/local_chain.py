"""Lets the tasks of one process take up what they emit to each other before it is committed, all in one transaction.

An order's way through four services is a dozen hops. One commit and one look at the log for each of them is most of
the cost of an order under a light load. So when a task commits, the events that it emits go at once to those tasks in
this process that have nothing else at hand; their own events follow in the same way; and all of their transactions are
committed as one, or none is. No reader outside sees a part of it. A task that is busy, or elsewhere, reads the events
later from the log as usual: nothing depends on the chain, and a log that cannot do this works without it.

On Kafka that takes a request to the brokers for each wave of hops, while the members' own loops run. So a task that takes
part waits with its next turn until the transaction has ended (`until_free`), and takes only the event known to be next:
a reader that has come to an offset has been given all before it, and no reader gets beyond an open transaction.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.log.base import Batch, Claim, Log, Share, TopicPartition
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Transaction

_ONE_TIME_MS = 50
"""How far behind the clock a round may be that waits for another process to have written."""


class ChainedTask(Protocol):
    """A member of the chain: the worker of a task."""

    task: Task
    claim: Claim

    @property
    def inputs(self) -> Sequence[TopicPartition]:
        """The topics and partitions that it reads."""

    def at_rest(self) -> bool:
        """Tell whether it waits with nothing at hand."""

    def lead(self) -> None:
        """Take note that its open transaction is being written now."""

    def follow(self, at_ms: int) -> bool:
        """Open a transaction for what others are saying; False when something else is at hand."""

    def take(self, record: Record, event: Event | None) -> bool:
        """Handle one more input in the open transaction, if it is the next one there."""

    def worth_appending(self) -> bool:
        """Tell whether the open transaction has to be appended; if not, it is skipped."""

    def settle(self, transaction: Transaction, offsets: Sequence[int]) -> None:
        """Take note that the closed transaction is on the log."""

    def skip(self) -> None:
        """Go past the inputs of the open transaction."""

    def roll_back(self, *, alone: bool = False) -> None:
        """Forget the open transaction; `alone` it is to be tried again."""


class LocalChain:
    """The tasks of one process that hand on to each other what they emit."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._members: dict[TopicPartition, list[ChainedTask]] = {}
        self._round: _Round | None = None
        self._taking_part: dict[ChainedTask, _Round] = {}

    def join(self, member: ChainedTask) -> None:
        """Let a member be handed what it reads."""
        for topic_partition in member.inputs:
            self._members.setdefault(topic_partition, []).append(member)

    async def leave(self, member: ChainedTask) -> None:
        """Hand nothing more to a member, and wait until what it has a part in is over."""
        for topic_partition in member.inputs:
            self._members[topic_partition].remove(member)
        if self._round is not None:
            self._round.forget(member)
        await self.until_free(member)

    async def until_free(self, member: ChainedTask) -> bool:
        """Wait until a member has a part in nothing; False when it had none. Until then its task is not its own."""
        if member not in self._taking_part:
            return False
        while (taken := self._taking_part.get(member)) is not None:
            await taken.ended.wait()
        return True

    def time(self, now_ms: int) -> int:
        """Return the time for a transaction that is opened now: those that are committed together have one time.

        Otherwise an event that is handed on late in a round would have an earlier time than the one before it.
        """
        if self._round is None or self._round.is_over or now_ms - self._round.at_ms > _ONE_TIME_MS:
            return now_ms
        return self._round.at_ms

    async def commit(self, member: ChainedTask) -> bool:
        """Commit a member's open transaction, and with it what follows from it here; False: this log cannot do that.

        The member has to settle it, or to roll it back, as are all that took part.
        Raises: OwnershipLost when it is not the owner any more; LogUnavailable when it has to try again, alone.
        """
        if self._round is None or self._round.is_over:
            begun = _Round(self._members, self._taking_part)
            if not self._log.enlist(begun, member.claim):
                return False
            self._round = begun
        await self._round.lead(member)
        return True


class _Part:
    """One member's transaction in a round."""

    __slots__ = ("member", "offsets", "transaction")

    def __init__(self, member: ChainedTask) -> None:
        self.member = member
        self.offsets: list[int] = []
        self.transaction: Transaction | None = None

    def emitted(self) -> Iterable[tuple[Record, Event | None]]:
        """Yield what the member has emitted that is not in the log's transaction yet."""
        task, placed = self.member.task, len(self.offsets)
        return zip(task.events[placed:], task.emitted[placed:], strict=True)


_Inputs = dict[ChainedTask, list[tuple[Record, Event | None]]]


class _Round(Share):
    """One transaction of the log: of those who lead, and of those who follow, wave by wave."""

    def __init__(
        self, members: Mapping[TopicPartition, Sequence[ChainedTask]], taking_part: "dict[ChainedTask, _Round]"
    ) -> None:
        self.is_over = False
        self.at_ms = 0
        self.ended = asyncio.Event()
        self._members = members
        self._taking_part = taking_part
        self._leading: dict[ChainedTask, asyncio.Future[None]] = {}
        self._parts: dict[ChainedTask, _Part] = {}

    def lead(self, member: ChainedTask) -> asyncio.Future[None]:
        """Take in a member with an open transaction; the future is done when that is settled."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leading[member] = future
        self.at_ms = max(self.at_ms, member.task.at_ms)
        return future

    def forget(self, member: ChainedTask) -> None:
        """Leave out a member that waits no more, if nothing was written yet."""
        if not self.is_over and self._leading.pop(member, None) is not None:
            member.roll_back()

    async def write(self, batch: Batch) -> None:
        """See `Share.write`."""
        self.is_over = True
        for member, future in self._leading.items():
            if future.done():  # its waiter was cancelled
                member.roll_back()
                continue
            try:
                self._enter(member, batch)
                member.lead()
            except OwnershipLost as error:
                member.roll_back()
                future.set_exception(error)
        handed = await self._emit(self._parts.values(), batch)
        while handed and not batch.is_full:
            took = [self._take(member, inputs, batch) for member, inputs in handed.items()]
            handed = await self._emit([part for part in took if part is not None], batch)
        await self._close(batch)

    def committed(self) -> None:
        """See `Share.committed`."""
        for member, part in self._parts.items():
            if part.transaction is None:
                member.skip()
            else:
                member.settle(part.transaction, part.offsets)
        self._end()
        for future in self._leading.values():
            if not future.done():
                future.set_result(None)

    def failed(self, error: Exception) -> None:
        """See `Share.failed`."""
        self.is_over = True
        for member in self._parts.keys() - self._leading.keys():
            member.roll_back()
        for member, future in self._leading.items():
            if not future.done() or member in self._parts:
                member.roll_back(alone=True)
            if not future.done():
                future.set_exception(LogUnavailable(f"this transaction did not succeed: {error}"))
        self._end()

    def _end(self) -> None:
        for member in self._parts:
            del self._taking_part[member]
        self.ended.set()

    def _enter(self, member: ChainedTask, batch: Batch) -> _Part:
        batch.enter(member.claim)  # before anything is done: whether it is still the owner
        part = self._parts[member] = _Part(member)
        self._taking_part[member] = self
        return part

    async def _emit(self, parts: Iterable[_Part], batch: Batch) -> _Inputs:
        """Append what members have emitted since, and return the part that is handled here; if none is, it can wait."""
        emitted = [(part, record, event) for part in parts for record, event in part.emitted()]
        consumers = [self._consumers(record, event) for _, record, event in emitted]
        if not any(consumers):
            return {}
        offsets = await batch.append([record for _, record, _ in emitted])
        handed: _Inputs = {}
        for (part, record, event), offset, readers in zip(emitted, offsets, consumers, strict=True):
            part.offsets.append(offset)
            for reader in readers:
                handed.setdefault(reader, []).append((record.placed(offset), event))
        return handed

    def _consumers(self, record: Record, event: Event | None) -> list[ChainedTask]:
        readers = () if event is None else self._members.get(record.topic_partition, ())
        return [reader for reader in readers if reader in self._parts or reader.at_rest()]

    def _take(self, member: ChainedTask, inputs: Sequence[tuple[Record, Event | None]], batch: Batch) -> _Part | None:
        part = self._parts.get(member) or self._follower(member, batch)
        # A member with an earlier time would emit something behind what has a later one already.
        if part is None or member.task.at_ms != self.at_ms:
            return None
        for record, event in inputs:
            member.take(record, event)
        return part

    def _follower(self, member: ChainedTask, batch: Batch) -> _Part | None:
        if member in self._taking_part or not member.follow(self.at_ms):
            return None
        try:
            return self._enter(member, batch)
        except OwnershipLost:  # it learns that by itself
            member.roll_back()
            return None

    async def _close(self, batch: Batch) -> None:
        """Append what is left of all, at once."""
        left = list[tuple[_Part, list[Record]]]()
        for member, part in self._parts.items():
            if member in self._leading or member.worth_appending():
                emitted = [record for record, _ in part.emitted()]
                part.transaction = member.task.close()
                left.append((part, [*emitted, *part.transaction.changes, *part.transaction.journal]))
        offsets = iter(await batch.append([record for _, records in left for record in records]))
        for part, records in left:
            part.offsets += islice(offsets, len(records))
