"""A GlobalTable that is kept in a file begins where it was, if the file is of this log and fresh."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path

import pytest

from eventlib import EventLog, GlobalTable, open_log
from eventlib.errors import TailLost
from eventlib.log.base import TopicPartition
from eventlib.state.table_snapshot import TableFile, Values
from eventlib.values import now_ms
from tests.contract.catalogue import CATALOGUE, GOODS, Delisted, Listed, Opened, Renamed, listed


def folds(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> dict[TopicPartition, int]:
    """Return where folding has begun, by partition, once it has."""
    found, newest = dict[TopicPartition, int](), type(log.port).newest

    async def watched(
        port: object, place: TopicPartition, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None
    ) -> int:
        found[place] = offset
        return await newest(port, place, offset, kept, kind)  # type: ignore[arg-type]  # it is this class's own

    monkeypatch.setattr(type(log.port), "newest", watched)
    return found


async def kept_at(log: EventLog, path: Path) -> dict[TopicPartition, int]:
    """Keep a table of the log as it is, and return where its partitions end."""
    async with GlobalTable(log, Listed, path) as goods:
        assert goods
    return {(name, p): await log.port.end(name, p) for name in ["goods.latest"] for p in range(GOODS.partitions)}


async def test_a_kept_table_begins_where_it_was(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tables" / "goods"
    async with opened() as log, asyncio.timeout(120):
        await log.publish_many(listed(range(12_000), 1))
        ends = await kept_at(log, path)
        await log.publish(Listed(sku="S1", cents=2))
        await log.publish(Delisted(sku="S2"))
        await log.publish(Renamed(sku="S3", name="three"))
        began = folds(log, monkeypatch)
        async with GlobalTable(log, Listed, path) as goods:
            assert began == ends
            assert len(goods) == 11_998
            assert (goods["S1"].cents, goods["S11999"].cents) == (2, 1)
            assert goods.keys().isdisjoint({"S2", "S3"})
    assert [each.name for each in path.parent.iterdir()] == ["goods"]


async def test_a_kept_table_of_something_else_counts_for_nothing(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "goods"
    async with opened() as log, open_log("memory://", CATALOGUE) as other, asyncio.timeout(120):
        await log.publish(Listed(sku="A", cents=1))
        await other.publish(Listed(sku="B", cents=1))
        await other.publish(Renamed(sku="C", name="c"))
        for make in (GlobalTable(other, Listed, path), GlobalTable(log, Renamed, path)):
            async with make:
                pass
            began = folds(log, monkeypatch)
            async with GlobalTable(log, Listed, path) as goods:
                assert list(goods) == ["A"]
                assert set(began.values()) == {0}


async def test_a_table_kept_too_long_ago_counts_for_nothing_and_one_beyond_the_end_is_told(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "goods"
    async with opened() as log, asyncio.timeout(120):
        await log.publish(Listed(sku="A", cents=1))
        await kept_at(log, path)
        began = folds(log, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr("eventlib.state.table_snapshot.now_ms", lambda: now_ms() + 20 * 3_600_000)
            async with GlobalTable(log, Listed, path):
                assert set(began.values()) == {0}
        file = TableFile(path, [log.port.log_id, "goods.latest", "Listed"])
        beyond = {("goods.latest", p): 9 for p in range(GOODS.partitions)}
        gone = Values()
        gone[b"gone"] = b"x"
        for _ in file.write(gone, beyond):
            pass
        with pytest.raises(TailLost, match="goods has seen it up to 9: acknowledged records are missing"):
            await GlobalTable(log, Listed, path).__aenter__()
