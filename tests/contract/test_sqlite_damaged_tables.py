"""Small tables of an SQLite log whose bytes have changed: their partition stops, and nothing else."""

from datetime import timedelta
from pathlib import Path

import pytest

from eventlib.errors import LogCorrupt
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.topic import Topic
from tests.contract.batched import read_all
from tests.contract.damaged import COUNT, made, written
from tests.in_rows import change_row


@pytest.mark.parametrize("setting", ["retention_ms = 64", "compacted = 1"])
async def test_a_changed_setting_of_a_topic_keeps_everything(tmp_path: Path, setting: str) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, f"UPDATE topics SET {setting}")  # noqa: S608
    log = await SqliteLog.open(path)
    topic = (await log.topics())["orders"]
    assert (topic.retention, topic.compacted) == (None, False)
    assert await log.append([written(COUNT)]) == [COUNT]
    await log.close()


async def test_a_log_whose_id_has_changed_says_so_in_it(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, "UPDATE meta SET value = 'a' || value WHERE name = 'log_id'")
    log = await SqliteLog.open(path)
    assert "damaged: a row of table meta" in log.log_id
    assert len(await log.read("orders", 0, 0, 100)) == COUNT
    await log.close()


async def test_an_identity_whose_bytes_are_no_text_is_not_known(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, "UPDATE meta SET value = CAST(x'62ff37' AS TEXT) WHERE name = 'topic_id/orders'")
    log = await SqliteLog.open(path)
    assert (await log.identities(["orders"]))["orders"].id == ""
    assert len(await log.read("orders", 0, 0, 100)) == COUNT
    await log.close()


async def test_a_partition_that_cannot_be_trusted_stops_nothing_else(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db", "orders", "stock")
    change_row(path, "UPDATE partitions SET next_offset = 3, digest = 4 WHERE topic = 'orders'")
    log = await SqliteLog.open(path)
    with pytest.raises(LogCorrupt, match=r"orders/0 .*eventlib repair"):
        await log.read("orders", 0, 0, 10)
    with pytest.raises(LogCorrupt, match="orders/0"):
        await log.append([written(40)])
    assert len(await log.read("stock", 0, 0, 100)) == COUNT
    assert await log.append([written(40, "stock")]) == [COUNT]
    await log.close()


@pytest.mark.parametrize("change_of_name", ["partition = 77", "topic = 'p'", "topic = CAST(x'6fff64' AS TEXT)"])
async def test_a_partition_whose_row_has_another_name_is_not_begun_again(tmp_path: Path, change_of_name: str) -> None:
    """Also when its topic is declared anew: its records are there, and only its row does not say so."""
    await made(path := tmp_path / "log.db", "orders", "payments", "parcels")
    change_row(path, f"UPDATE partitions SET {change_of_name}, checksum = 5 WHERE topic = 'orders'")  # noqa: S608
    log = await SqliteLog.open(path)
    await log.create_topics([Topic("orders", partitions=1, retention=timedelta(days=1)), Topic("new", partitions=1)])
    for asked in (log.end("orders", 0), log.read("orders", 0, 0, 9), log.append([written(0)])):
        with pytest.raises(LogCorrupt, match=r"orders/0 .*`eventlib repair`"):
            await asked
    assert await log.end("payments", 0) == await log.end("parcels", 0) == COUNT
    assert len(await log.append([written(0, "payments"), written(0, "new")])) == 2
    await log.close()


@pytest.mark.parametrize("change_of_row", ["name = CAST(x'6fff64' AS TEXT)", "name = 'or ders'", "partitions = 'many'"])
async def test_a_topic_whose_row_is_none_any_more_is_there_again_once_it_is_declared(
    tmp_path: Path, change_of_row: str
) -> None:
    await made(path := tmp_path / "log.db", "orders", "payments")
    change_row(path, f"UPDATE topics SET {change_of_row}, checksum = 5 WHERE name = 'orders'")  # noqa: S608
    log = await SqliteLog.open(path)
    assert [*await log.topics()] == ["payments"]
    assert await log.end("payments", 0) == COUNT
    await log.create_topics([Topic("orders", partitions=1)])
    assert await log.append([written(COUNT)]) == [COUNT]
    await log.close()
    assert (await read_all(path, "orders")) == ([written(offset) for offset in range(COUNT + 1)], [])
