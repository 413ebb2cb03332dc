"""Every log and every store of this library passes the public suite."""

import asyncio
from pathlib import Path

import pytest

from eventlib.errors import ContractError, LogReadOnly, OwnershipLost
from eventlib.log.base import Log
from eventlib.log.memory import MemoryLog
from eventlib.log.overlay import OverlayLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.state.base import Stores
from eventlib.state.memory import MemoryStores
from eventlib.state.rocksdb import RocksStores
from eventlib.state.sqlite import SqliteStores
from eventlib.testing.log_contract import LogContract
from eventlib.testing.log_fixture import flipped, record
from eventlib.testing.ownership_contract import until_owns
from eventlib.testing.reading_contract import ReadingContract
from eventlib.testing.store_contract import StoreContract
from tests.in_rows import change_row


class TestMemoryLog(LogContract):
    durable = False
    can_be_damaged = False

    async def open_log(self, place: Path) -> Log:
        return MemoryLog(f"memory://{place.name}")


class TestOverlayLog(ReadingContract):
    """What is written over another log that is empty."""

    durable = False

    async def open_log(self, place: Path) -> Log:
        return OverlayLog(MemoryLog(f"memory://{place.name}"))


async def test_an_overlay_goes_on_where_the_other_log_was_and_leaves_it_as_it_is() -> None:
    below = MemoryLog()
    await below.create_topics([Topic("a", partitions=2), Topic("b", partitions=1)])
    await below.append([record("a", b"%d" % n) for n in range(5)])
    over = OverlayLog(below)
    await over.create_topics([Topic("new", partitions=1)])
    assert await over.append([record("a", b"5"), record("new", b"0"), record("a", b"6")]) == [5, 0, 6]
    await below.append([record("a", b"late")])
    assert [await each.end("a", 0) for each in (below, over)] == [6, 7]
    for first in range(8):
        for limit in (1, 2, 3, 100):
            found = [each.value for each in await over.read("a", 0, first, limit)]
            assert found == [b"%d" % n for n in range(first, 7)][:limit]
    assert [each.value for each in over.written] == [b"5", b"0", b"6"]
    times = {n: (await over.read("a", 0, n, 1))[0].timestamp_ms for n in range(7)}
    for at in (times[0], times[4], times[5], times[6] + 1):
        expected = next((n for n, time in times.items() if time >= at), 7)
        assert await over.offset_at("a", 0, at) == expected
    assert [await over.offset_at(*place, 0) for place in (("a", 1), ("b", 0), ("new", 0))] == [0, 0, 0]
    assert {*await over.topics()} - {*await below.topics()} == {"new"}
    await over.delete_topics(["b"])
    assert ("b" in await over.topics(), "b" in await below.topics()) == (False, True)
    with pytest.raises(ContractError, match="no topic 'b'"):
        await over.read("b", 0, 0, 1)
    await over.create_topics([Topic("b", partitions=1)])
    assert await over.append([record("b", b"0")]) == [0]
    claim = await over.seize("s", 0)
    await over.seize("s", 0)
    with pytest.raises(OwnershipLost):
        await over.append([record("a", b"x")], claim)
    with pytest.raises(LogReadOnly):
        await over.join("s", 2)
    reader = over.reader({("a", 0): 7, ("new", 0): 1})
    waits = asyncio.ensure_future(reader.poll(10, 60))
    await asyncio.sleep(0)
    await over.append([record("new", b"1")])
    assert [each.value for each in await waits] == [b"1"]


class TestSqliteLog(LogContract):
    async def open_log(self, place: Path) -> Log:
        return await SqliteLog.open(place / "log.db")

    async def test_owners_are_those_of_one_service(self, log: Log) -> None:
        first, second = await log.join("first", 2), await log.join("second", 1)
        held = await until_owns(first, {}, {0, 1})
        await until_owns(second, {}, {0})
        assert set(await log.owners("first") or ()) == {0, 1}
        assert set(await log.owners("second") or ()) == {0}
        assert await log.owners("third") == {}
        await first.leave()
        assert await log.owners("first") == {}
        with pytest.raises(OwnershipLost):
            await log.append([record("a", b"x")], held[0])
        await second.leave()

    async def change(self, written: Record, bits: int) -> None:
        changed = flipped(written.value or b"", bits)
        change_row(
            self.place / "log" / "log.db", "UPDATE records SET value = ? WHERE value = ?", changed, written.value
        )


class TestMemoryStores(StoreContract):
    durable = False

    def open_stores(self, place: Path) -> Stores:  # noqa: ARG002  the memory has no place
        return MemoryStores()


class TestSqliteStores(StoreContract):
    def open_stores(self, place: Path) -> Stores:
        return SqliteStores(place / "stores")


class TestRocksStores(StoreContract):
    def open_stores(self, place: Path) -> Stores:
        return RocksStores(place / "stores")
