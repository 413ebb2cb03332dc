"""A process keeps the copies that its membership names, whatever it has owned before, and lets go of all at its end."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Never, cast

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.errors import LogCorrupt
from eventlib.log.base import Claim, Membership, Reader, TopicPartition
from eventlib.runtime import runner
from eventlib.state.base import Store
from eventlib.state.memory import MemoryStores
from tests.integration.counting import COUNTING, TASKS, Heard
from tests.waiting import until


class Assigned(Membership):
    """A member that gets what a test says."""

    def __init__(self) -> None:
        self._claims: Mapping[int, Claim] = {}
        self._copies: Collection[int] = ()
        self._change = asyncio.Condition()

    async def assign(self, claims: Mapping[int, Claim], copies: Collection[int] = ()) -> None:
        async with self._change:
            self._claims, self._copies = claims, copies
            self._change.notify_all()

    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        async with self._change:
            await self._change.wait_for(lambda: self._claims != held)
            return self._claims

    async def stands_by(self, held: Collection[int]) -> Collection[int]:
        async with self._change:
            await self._change.wait_for(lambda: {*self._copies} != {*held})
            return self._copies

    async def leave(self) -> None: ...


class WatchedStores(MemoryStores):
    """Remembers the copies that are open, and those that were when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = dict[int, Store]()
        self.left: Collection[int] | None = None

    def open_copy(self, service: str, partition: int, log_id: str) -> Store:
        copy = self.copies[partition] = super().open_copy(service, partition, log_id)
        close = copy.close

        def closed() -> None:
            del self.copies[partition]
            close()

        copy.close = closed  # type: ignore[method-assign]  # this copy only
        return copy

    def close(self) -> None:
        self.left = [*self.copies]
        super().close()


@asynccontextmanager
async def opened(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[EventLog, Assigned]]:
    """Give a log with an input for each task, and the one member of its service."""
    member = Assigned()

    async def join(*_: object) -> Membership:
        return member

    async with open_log("memory://", COUNTING) as log:
        monkeypatch.setattr(log.port, "join", join)
        for number in range(10):
            await log.publish(Heard(key=f"{number}"))
        async with asyncio.timeout(60):
            yield log, member


async def all_counted(log: EventLog, member: Assigned, runtime: Runtime) -> Mapping[int, int]:
    """Have all tasks run until all is counted; return where their changelogs end."""
    await member.assign({each: await log.port.seize("count", each) for each in range(TASKS)})
    await runtime.idle()
    return {each: await log.port.end("count.changelog", each) for each in range(TASKS)}


async def are_copied(stores: WatchedStores, ends: Mapping[int, int]) -> None:
    await until(lambda: {each: copy.checkpoint for each, copy in stores.copies.items()} == ends)


async def test_a_process_copies_what_it_has_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = WatchedStores()
    async with opened(monkeypatch) as (log, member), Runtime(log, stores=stores) as runtime:
        ends = await all_counted(log, member, runtime)
        assert min(ends.values()) > 0
        await member.assign({}, copies=[*ends])
        await are_copied(stores, ends)


async def test_copies_are_closed_before_their_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = WatchedStores()
    async with opened(monkeypatch) as (log, member):
        right = log.port.reader

        def slow_to_close(positions: Mapping[TopicPartition, int]) -> Reader:
            reader = right(positions)
            if any(topic != "count.changelog" for topic, _ in positions):
                return reader  # of a task

            async def close() -> None:  # as one takes its time that has a connection
                await asyncio.sleep(0.05)
                await reader.close()

            return cast("Reader", SimpleNamespace(poll=reader.poll, position=reader.position, close=close))

        monkeypatch.setattr(log.port, "reader", slow_to_close)
        async with Runtime(log, stores=stores) as runtime:
            ends = await all_counted(log, member, runtime)
            await member.assign({}, copies=[*ends])
            await are_copied(stores, ends)
        assert stores.left == []


async def test_a_task_that_damage_has_stopped_is_no_longer_this_process_s_when_it_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def corrupt(*_: object) -> Never:
        raise LogCorrupt("a hole")

    monkeypatch.setattr(runner, "restored", corrupt)
    async with opened(monkeypatch) as (log, member), Runtime(log) as runtime:
        await member.assign({1: await log.port.seize("count", 1)})
        await until(lambda: bool(runtime.damage.stopped))
        assert runtime.damage.stopped == {("count", 1): "a hole"}
        await member.assign({})
        await until(lambda: not runtime.tasks)
        assert not runtime.damage.stopped
