"""Lets the tasks of one process take up what they say to each other before it is committed, all in one transaction.

An order's way through four services is a dozen hops. One commit and one look at the log for each of them is most of
what an order costs while there is little to do. So when a task commits, what it says goes at once to those tasks in
this process that have nothing else at hand; what they say goes on in the same way; and all of their transactions are
committed as one, or none is. Nobody outside sees a part of it, and a task that is busy, or elsewhere, reads it later
from the log as ever: so nothing depends on it, and a log that cannot do this goes without.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.event import Event
from eventlib.log.port import Batch, Claim, Log, Record, Share, TopicPartition
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Transaction

_ONE_TIME_MS = 50
"""How far behind the clock a round may be that waits for another process to have written."""


class Member(Protocol):
    """Who takes part: the worker of a task."""

    task: Task
    claim: Claim

    @property
    def places(self) -> Sequence[TopicPartition]:
        """What it reads."""

    def follow(self, at_ms: int) -> bool:
        """Open a transaction for what others are saying; False when something else is at hand."""

    def worth_appending(self) -> bool:
        """Tell whether the open transaction has to be appended; if not, it is skipped."""

    def settle(self, transaction: Transaction, offsets: Sequence[int]) -> None:
        """Take note that the closed transaction is on the log."""

    def skip(self) -> None:
        """Go past the inputs of the open transaction."""

    def roll_back(self, *, alone: bool = False) -> None:
        """Forget the open transaction; `alone` it is to be tried again."""


class Relay:
    """The tasks of one process that hand on to each other what they say."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._members: dict[TopicPartition, list[Member]] = {}
        self._round: _Round | None = None

    def join(self, member: Member) -> None:
        """Let a member be handed what it reads."""
        for place in member.places:
            self._members.setdefault(place, []).append(member)

    def leave(self, member: Member) -> None:
        """Hand nothing more to a member."""
        for place in member.places:
            self._members[place].remove(member)

    def time(self, now_ms: int) -> int:
        """Return the time for a transaction that is opened now: those that are committed together have one time.

        Otherwise what is handed on late in a round would have an earlier time than what stands before it.
        """
        if self._round is None or self._round.is_over or now_ms - self._round.at_ms > _ONE_TIME_MS:
            return now_ms
        return self._round.at_ms

    async def commit(self, member: Member) -> bool:
        """Commit a member's open transaction, and with it what follows from it here; False: this log cannot do that.

        The member is told to settle it, or to roll it back, as are all that took part.
        Raises: OwnershipLost when it is not the owner any more; LogUnavailable when it has to try again, alone.
        """
        if self._round is None or self._round.is_over:
            self._round = _Round(self._members)
            if not self._log.enlist(self._round):
                self._round = None
                return False
        await self._round.lead(member)
        return True


class _Part:
    """One member's transaction in a round."""

    __slots__ = ("member", "offsets", "transaction")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.offsets: list[int] = []
        self.transaction: Transaction | None = None


class _Round(Share):
    """One transaction of the log: of those who lead, and of those who follow."""

    def __init__(self, members: Mapping[TopicPartition, Sequence[Member]]) -> None:
        self.is_over = False
        self.at_ms = 0
        self._members = members
        self._leading: dict[Member, asyncio.Future[None]] = {}
        self._parts: dict[Member, _Part] = {}
        self._waiting: deque[tuple[Member, list[tuple[Record, Event | None]]]] = deque()
        self._inputs: dict[Member, list[tuple[Record, Event | None]]] = {}

    def lead(self, member: Member) -> asyncio.Future[None]:
        """Take in a member with an open transaction; the future is done when that is settled."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leading[member] = future
        self.at_ms = max(self.at_ms, member.task.at_ms)
        return future

    def write(self, batch: Batch) -> None:
        """See `Share.write`."""
        self.is_over = True
        for member, future in self._leading.items():
            if future.done():  # whoever waited for it was cancelled
                member.roll_back()
                continue
            try:
                self._say(self._part(member, batch), batch)
            except OwnershipLost as error:
                member.roll_back()
                future.set_exception(error)
        while self._waiting and not batch.is_full:
            member, inputs = self._waiting.popleft()
            del self._inputs[member]
            part = self._parts.get(member) or self._follower(member, batch)
            # A member with an earlier time would say something behind what has a later one already.
            if part is not None and member.task.at_ms == self.at_ms:
                for record, event in inputs:
                    member.task.take(record, event)
                self._say(part, batch)
        for part in self._parts.values():
            self._close(part, batch)

    def committed(self) -> None:
        """See `Share.committed`."""
        for member, part in self._parts.items():
            if part.transaction is None:
                member.skip()
            else:
                member.settle(part.transaction, part.offsets)
        for future in self._leading.values():
            if not future.done():
                future.set_result(None)

    def failed(self, error: Exception) -> None:
        """See `Share.failed`."""
        self.is_over = True
        for member in self._parts.keys() - self._leading.keys():
            member.roll_back()
        for member, future in self._leading.items():
            if not future.done():
                member.roll_back(alone=True)
                future.set_exception(LogUnavailable(f"nothing of this transaction was written: {error}"))

    def _part(self, member: Member, batch: Batch) -> _Part:
        batch.append((), member.claim)  # before anything is done: whether it is still the owner
        part = self._parts[member] = _Part(member)
        return part

    def _follower(self, member: Member, batch: Batch) -> _Part | None:
        if not member.follow(self.at_ms):
            return None
        try:
            return self._part(member, batch)
        except OwnershipLost:  # it learns that by itself
            member.roll_back()
            return None

    def _say(self, part: _Part, batch: Batch) -> None:
        """Append what a member has said since, and hand it on."""
        task, placed = part.member.task, len(part.offsets)
        records, said = task.events[placed:], task.said[placed:]
        if not records:
            return
        offsets = batch.append(records, part.member.claim)
        part.offsets += offsets
        for record, offset, event in zip(records, offsets, said, strict=True):
            readers = self._members.get(record[:2])
            if readers and event is not None:
                placed_record = record.placed(offset)
                for reader in readers:
                    self._hand(reader, placed_record, event)

    def _hand(self, reader: Member, record: Record, event: Event) -> None:
        inputs = self._inputs.get(reader)
        if inputs is None:
            inputs = self._inputs[reader] = []
            self._waiting.append((reader, inputs))
        inputs.append((record, event))

    def _close(self, part: _Part, batch: Batch) -> None:
        member = part.member
        if member in self._leading or member.worth_appending():
            part.transaction = member.task.close()
            rest = [*part.transaction.changes, *part.transaction.journal]
            part.offsets += batch.append(rest, member.claim)
