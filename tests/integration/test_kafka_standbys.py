"""Copies of tasks on a real broker: who takes a task over from a copy reads nothing of its changelog again.

The states are those of one history, whoever has run the tasks, and whatever copies were kept meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlib import EventLog, Publication, Runtime, RuntimeConfig, open_log
from eventlib.cli.run_process import restoring_lines
from eventlib.model.record import Record
from eventlib.runtime.context import RestoreProgress
from eventlib.runtime.records import STATE
from eventlib.state.base import Store
from eventlib.state.rocksdb import RocksStores
from tests.counted import counted_reads
from tests.integration.counting import COUNTING, TASKS, Count, Heard
from tests.waiting import until

KEYS = 200


class WatchedStores(RocksStores):
    """Remembers the copies that it has opened."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.copies = dict[int, Store]()

    def open_copy(self, service: str, partition: int, log_id: str) -> Store:
        copy = self.copies[partition] = super().open_copy(service, partition, log_id)
        return copy


@dataclass
class Process:
    """What one process would be."""

    log: EventLog
    runtime: Runtime
    stores: WatchedStores
    restored: Counter[str]


@asynccontextmanager
async def process(url: str, place: Path, standbys: int) -> AsyncIterator[Process]:
    async with open_log(url, COUNTING) as log:
        restored, stores = counted_reads(log), WatchedStores(place)
        async with Runtime(log, stores=stores, config=RuntimeConfig(standbys=standbys, flush_s=0.1)) as runtime:
            yield Process(log, runtime, stores, restored)


async def publish(log: EventLog, at: int) -> None:
    events = [Heard(key=f"k{number}", at=at) for number in range(KEYS)]
    await log.publish_many([Publication(event, idempotency_key=f"{event.key}/{at}") for event in events])


async def times(log: EventLog) -> set[int]:
    """Return what the states say, of every key."""
    kept = dict[bytes, bytes]()
    for partition in range(TASKS):
        await log.port.newest(("count.changelog", partition), 0, kept, None)
    states = [log.codec.decode(Count, value) for key, value in kept.items() if key.decode().startswith(STATE)]
    assert len(states) == KEYS
    return {state.times for state in states}


async def is_copied(of: Process, tasks: int) -> bool:
    ends = {partition: await of.log.port.end("count.changelog", partition) for partition in of.stores.copies}
    return len(ends) == tasks and all(of.stores.copies[each].checkpoint == end for each, end in ends.items())


@pytest.mark.parametrize("standbys", [0, 1])
async def test_a_takeover_reads_only_what_there_is_no_copy_of(kafka_url: str, tmp_path: Path, standbys: int) -> None:
    async with process(kafka_url, tmp_path / "b", standbys) as second:
        async with process(kafka_url, tmp_path / "a", standbys) as first:
            await until(lambda: _shares(first, second))
            await publish(first.log, 1)
            await publish(first.log, 2)
            await until(lambda: _all_handled(first, second))
            if standbys:  # all is handled, so that nothing comes after what is copied
                await until(lambda: is_copied(second, TASKS // 2))
            second.restored.clear()
        await publish(second.log, 3)
        async with asyncio.timeout(120):
            await second.runtime.idle()
        assert (second.restored["count.changelog"] > KEYS // 4) == (not standbys)
        assert await times(second.log) == {3}


async def test_copies_follow_the_tasks_as_processes_come_and_go(kafka_url: str, tmp_path: Path) -> None:
    """Tasks go back and forth, so that owners become copies and copies owners, with input all the time."""
    at = 0
    async with process(kafka_url, tmp_path / "b", 1) as second:
        for _ in range(3):
            async with process(kafka_url, tmp_path / "a", 1) as first:
                await publish(first.log, at := at + 1)
                await until(lambda: _shares(first, second))
                await publish(first.log, at := at + 1)
            await publish(second.log, at := at + 1)
        async with asyncio.timeout(120):
            await second.runtime.idle()
        assert await times(second.log) == {at}
    async with process(kafka_url, tmp_path / "a", 1) as alone, asyncio.timeout(120):
        await publish(alone.log, at := at + 1)
        await alone.runtime.idle()
        assert await times(alone.log) == {at}


async def _shares(*processes: Process) -> bool:
    return all(len(_tasks(each)) == TASKS // len(processes) for each in processes)


def _tasks(of: Process) -> set[int]:
    return {partition for _, partition in of.runtime._runners}  # noqa: SLF001  which tasks a process has is its own affair


async def _all_handled(*processes: Process) -> bool:
    log = processes[0].log
    return sum([await log.port.end("count.changelog", partition) for partition in range(TASKS)]) > 0 and all(
        [await loop.is_idle() for each in processes for loop in each.runtime._runners.values()]  # noqa: SLF001  as above
    )


def test_how_far_a_restore_is_can_be_read() -> None:
    restoring: Mapping[tuple[str, int], RestoreProgress] = {
        ("count", 0): RestoreProgress(0, 500, 1_000),
        ("count", 3): RestoreProgress(9_000, 9_000, 10_000),
        ("other", 1): RestoreProgress(0, 0, 7),
    }
    assert restoring_lines(restoring) == [
        "count: restoring 2 tasks, 25% of 2,000 changelog records",
        "other: restoring 1 task, 0% of 7 changelog records",
    ]
    assert restoring_lines({}) == []


async def test_a_restore_shows_how_far_it_is(kafka_url: str, tmp_path: Path) -> None:
    async with process(kafka_url, tmp_path / "a", 0) as first:
        await publish(first.log, 1)
        async with asyncio.timeout(120):
            await first.runtime.idle()
    seen = list[tuple[int, int, int]]()
    async with open_log(kafka_url, COUNTING) as log:
        config, stores = RuntimeConfig(restore_chunk=10), RocksStores(tmp_path / "new")
        runtime = Runtime(log, stores=stores, config=config)
        read = log.port.read

        async def watched(topic: str, partition: int, offset: int, limit: int) -> list[Record]:
            if topic == "count.changelog":
                shown = runtime.restoring["count", partition]
                assert shown.at == offset
                seen.append((shown.began, shown.at, shown.end))
            return await read(topic, partition, offset, limit)

        log.port.read = watched  # type: ignore[method-assign]  # this log only
        async with runtime, asyncio.timeout(120):
            await runtime.idle()
            assert not runtime.restoring
    assert len(seen) > KEYS // 10
    assert all(began == 0 <= at < end for began, at, end in seen)
