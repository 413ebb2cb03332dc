"""Transactions that the tasks of a process share: a task takes part in one at a time."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventlib.log.base import Batch, Claim, Log, Share, TopicPartition
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.local_chain import LocalChain
from tests import compiled_core
from tests.apps.small_shop import Noted

NOTES = ("notes", 0)


class Member:
    """A task that emits one event where it leads, and notes which transactions it is asked to follow into."""

    def __init__(self, number: int, inputs: Sequence[TopicPartition] = ()) -> None:
        self.claim, self.inputs = Claim("s", number, 1), inputs
        emitted = [] if inputs else [Noted(order_id="1", count=number)]
        records = [Record(*NOTES, -1, number, b"1", b"") for _ in emitted]
        closed = SimpleNamespace(changes=(), journal=())
        self.task = cast("Any", SimpleNamespace(at_ms=number, events=records, emitted=emitted, close=lambda: closed))
        self.followed = list[int]()
        self.taken = list[Record]()

    def at_rest(self) -> bool:
        return True

    def lead(self) -> None: ...

    def follow(self, at_ms: int) -> bool:
        self.followed.append(at_ms)
        self.task.at_ms = at_ms
        return True

    def take(self, record: Record, event: Event | None) -> bool:  # noqa: ARG002  as the protocol has it
        self.taken.append(record)
        return True

    def worth_appending(self) -> bool:
        return True

    def settle(self, transaction: object, offsets: Sequence[int]) -> None: ...

    def skip(self) -> None: ...

    def roll_back(self, *, alone: bool = False) -> None: ...


class Open(Batch):
    """A transaction that appends once it may."""

    is_full = False

    def __init__(self) -> None:
        self.may_close = asyncio.Event()
        self.appends = 0

    def enter(self, claim: Claim) -> None: ...

    async def append(self, records: Sequence[Record]) -> list[int]:
        self.appends += 1
        if self.appends > 1:  # the first one has what others take up, the next one what is left
            await self.may_close.wait()
        return [*range(len(records))]


@pytest.mark.skipif(compiled_core.runs(), reason="what is compiled takes no task but its own")
async def test_a_task_that_takes_part_in_a_transaction_is_not_taken_into_another_before_that_has_ended() -> None:
    shares = list[Share]()

    def enlist(share: Share, claim: Claim) -> bool:  # noqa: ARG001  as a log has it
        shares.append(share)
        return True

    chain = LocalChain(cast("Log", SimpleNamespace(enlist=enlist)))
    first, second, reader = Member(1), Member(2), Member(3, [NOTES])
    chain.join(reader)
    batch, committing = Open(), asyncio.create_task(chain.commit(first))
    await asyncio.sleep(0)
    writing = asyncio.create_task(shares[0].write(batch))
    await asyncio.sleep(0.01)
    assert reader.followed == [1]

    also, waiting = Open(), asyncio.create_task(chain.commit(second))
    also.may_close.set()
    await asyncio.sleep(0)
    await shares[1].write(also)
    assert reader.followed == [1], "its transaction is open"
    assert len(reader.taken) == 1
    shares[1].committed()

    batch.may_close.set()
    await writing
    shares[0].committed()
    async with asyncio.timeout(10):
        assert await committing
        assert await waiting
        await chain.until_free(reader)
