"""The log as a DataFrame has what was written, row by row, where that is proved; all else is named."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import analytics
from analytics.audit.bytes import DAMAGED, damage_findings
from analytics.rebuilding import How, rebuild
from analytics.schema import UNREADABLE
from analytics.selection import Selection
from analytics.sqlite import Batches, sources
from analytics.verifying import Verifier
from eventlib.errors import EventlibError, LogCorrupt
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import RECORD_FIELDS, Record
from eventlib.values import from_ms, to_ms
from tests.analytics.damages import copied
from tests.in_rows import change_row


async def records_of(url: str) -> list[Record]:
    log = await SqliteLog.open(url.removeprefix("sqlite:///"))
    found = list[Record]()
    for topic in (await log.topics()).values():
        for partition in range(topic.partitions):
            offset, end = 0, await log.end(topic.name, partition)
            while offset < end and (records := await log.read(topic.name, partition, offset, 5_000)):
                found += records
                offset = records[-1].offset + 1
    await log.close()
    return found


def as_record(row: Row) -> Record:
    """Return a row as the record that it came from."""
    attributes = (row[name] for name in RECORD_FIELDS[6:14])
    key = None if row["key"] is None else row["key"].encode()
    value = None if row["value"] is None else bytes(row["value"])
    at_ms = to_ms(row["recorded_at"].replace(tzinfo=UTC))
    headers = tuple((header["name"], bytes(header["value"])) for header in row["headers"])
    return Record(*(row["topic"], row["partition"], row["offset"], at_ms, key, value, *attributes, headers))


async def test_every_record_comes_as_it_stands(spark: SparkSession, shop_log: str) -> None:
    rows = analytics.log(spark, shop_log).collect()
    assert sorted(map(as_record, rows), key=lambda r: r.location) == sorted(
        await records_of(shop_log), key=lambda r: r.location
    )
    avro = [row for row in rows if row["value"] and row["topic"] != "_schemas"]
    assert {(row["schema_id"], bytes(row["value"][1:5])) for row in avro} == {
        (int.from_bytes(row["value"][1:5], "big"), bytes(row["value"][1:5])) for row in avro
    }


async def test_topics_types_and_times_narrow_what_is_read(spark: SparkSession, shop_log: str) -> None:
    records = await records_of(shop_log)
    times = sorted(record.timestamp_ms for record in records)
    since, until = from_ms(times[len(times) // 3]), from_ms(times[2 * len(times) // 3])
    choices: list[tuple[dict[str, Any], list[Record]]] = [
        ({"topics": ["orders", "stock"]}, [r for r in records if r.topic in ("orders", "stock")]),
        ({"types": ["OrderPlaced", "PaymentTaken"]}, [r for r in records if r.type in ("OrderPlaced", "PaymentTaken")]),
        ({"since": since, "until": until}, [r for r in records if since <= from_ms(r.timestamp_ms) < until]),
        ({"topics": ["no such topic"]}, []),
    ]
    for narrowed, expected in choices:
        assert analytics.log(spark, shop_log, **narrowed).count() == len(expected), narrowed


async def appended(path: Path) -> None:
    log = await SqliteLog.open(path)
    await log.append([Record("orders", 0, -1, 0, None, None)])
    await log.close()


def test_what_is_written_later_is_not_in_it(spark: SparkSession, tmp_path: Path, shop_log: str) -> None:
    path = tmp_path / "copy.db"
    with sqlite3.connect(shop_log.removeprefix("sqlite:///")) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    frame = analytics.log(spark, f"sqlite:///{path}", topics=["orders"])
    before = frame.count()
    asyncio.run(appended(path))
    assert frame.count() == before
    assert analytics.log(spark, f"sqlite:///{path}", topics=["orders"]).count() == before + 1


HOLDS_IT = """
import sqlite3, sys, time
holder = sqlite3.connect(sys.argv[1], isolation_level=None)
holder.execute("PRAGMA locking_mode = exclusive")
holder.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(0.3)
"""


def test_who_reads_waits_for_a_lock(tmp_path: Path, shop_log: str) -> None:
    path = copied(shop_log, tmp_path)
    with Popen([sys.executable, "-c", HOLDS_IT, str(path)], stdout=PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with closing(Batches(path)) as batches:
            (found,) = batches.of("SELECT count(*) FROM records", ())
            assert found[0][0].as_py() > 0


@pytest.mark.parametrize("url", ["sqlite:////no/such/file.db", "mysql://x", "shop.db"])
def test_what_is_no_log_is_said_before_anything_runs(spark: SparkSession, url: str) -> None:
    with pytest.raises(EventlibError, match="log"):
        analytics.log(spark, url, until=datetime.now(UTC) + timedelta(days=1))


Place = tuple[str, int, int]
CHANGES = {
    "two bytes of a value": "value = CAST(substr(value, 1, 9) || x'7878' || substr(value, 12) AS BLOB)",
    "a type that is no text": "type = CAST(x'FF41' AS TEXT)",
    "a time that is a text": "recorded_at = 'yesterday'",
    "no checksum": "checksum = NULL",
    "an empty text for none": "traceparent = '', causation_id = ''",
    "one bit of a time": "recorded_at = recorded_at + 1 - 2 * (recorded_at & 1)",
    "one bit of the checksum": "checksum = checksum + 1 - 2 * (checksum & 1)",
}
"""What is done to a record of its own."""
LOST_VALUE = "UPDATE records SET value = x'00' WHERE position = ?"


def read_parts(path: Path, selection: Selection) -> pa.Table:
    """Return what is selected, read by this process."""
    return pa.Table.from_batches([batch for source in sources(path, selection) for batch in source()])


def rows_of(path: Path) -> dict[Place, dict[str, object]]:
    rows = read_parts(path, Selection.of()).to_pylist()
    return {(row["topic"], row["partition"], row["offset"]): row for row in rows}


@pytest.fixture
def log(shop_log: str, tmp_path: Path) -> Path:
    return copied(shop_log, tmp_path)


@pytest.fixture
def orders(log: Path) -> list[tuple[int, Place]]:
    """Positions of some orders' first events, and where they stand."""
    with closing(sqlite3.connect(log)) as connection:
        found = connection.execute(
            "SELECT r.position, p.topic, p.partition, r.position & ((1 << 40) - 1) FROM records r "
            "JOIN partitions p ON p.number = r.position >> 40 WHERE r.type = 'OrderPlaced' AND p.topic = 'orders'"
        ).fetchall()
    return [(position, place) for position, *place_ in found if (place := tuple(place_))]


def test_each_record_is_what_was_written_or_is_named(log: Path, orders: list[tuple[int, Place]]) -> None:
    before = rows_of(log)
    (gone, gone_at), *others = orders
    done = dict(zip(CHANGES, others, strict=False))
    for name, change in CHANGES.items():
        change_row(log, f"UPDATE records SET {change} WHERE position = ?", done[name][0])  # noqa: S608  of this file
    change_row(log, "DELETE FROM records WHERE position = ?", gone)
    after = rows_of(log)
    assert after.keys() == before.keys()
    damaged = {gone_at, *(done[name][1] for name in CHANGES)}
    assert {place for place, row in after.items() if row != before[place]} == damaged
    for place in damaged:
        headers = after[place]["headers"]
        assert isinstance(headers, list)
        assert [header["name"] for header in headers] == [UNREADABLE]
        assert "/".join(map(str, place)) in headers[0]["value"].decode()
        assert after[place]["value"] == b""


def test_one_copy_of_sqlite_at_a_time_has_the_file_open(
    log: Path, orders: list[tuple[int, Place]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whichever closes it first drops the other's locks."""
    ((position, _), *_) = orders
    change_row(log, LOST_VALUE, position)
    read, held, file = Verifier.read, list[list[str]](), f":{log.stat().st_ino} "

    def watched(verifier: Verifier, offsets: Sequence[int]) -> Iterator[Record]:
        locks = Path("/proc/locks").read_text().splitlines()
        held.append([lock for lock in locks if file in lock and f" {os.getpid()} " in lock])
        return read(verifier, offsets)

    monkeypatch.setattr(Verifier, "read", watched)
    rows_of(log)
    assert held == [[]]


def test_what_is_filtered_is_held_to_its_checksum_too(log: Path, orders: list[tuple[int, Place]]) -> None:
    ((position, place), *_) = orders
    change_row(log, LOST_VALUE, position)
    placed = read_parts(log, Selection.of(types=["OrderPlaced"])).to_pylist()
    (found,) = [row for row in placed if row["headers"]]
    assert (found["topic"], found["partition"], found["offset"]) == place


def test_a_partition_whose_row_is_damaged_is_named(log: Path) -> None:
    change_row(log, "UPDATE partitions SET next_offset = next_offset + 3 WHERE topic = 'orders' AND partition = 2")
    with pytest.raises(LogCorrupt, match=r"orders/2 of the log .* is damaged: .*eventlib repair"):
        rows_of(log)


@pytest.mark.parametrize("name", ["'ord ers'", "CAST(x'6FFF' AS TEXT)"], ids=["no topic's", "no text"])
def test_a_partition_whose_row_has_no_name_of_a_topic_is_named(log: Path, name: str) -> None:
    change_row(log, f"UPDATE partitions SET topic = {name} WHERE topic = 'orders' AND partition = 2")  # noqa: S608
    with pytest.raises(LogCorrupt, match=r"o.*/2 of the log .* is damaged: .*eventlib repair"):
        rows_of(log)


def test_the_audit_names_it_and_a_rebuild_leaves_it_out(
    spark: SparkSession, log: Path, orders: list[tuple[int, Place]], tmp_path: Path
) -> None:
    ((position, place), *_) = orders
    change_row(log, LOST_VALUE, position)
    (found,) = damage_findings(f"sqlite:///{log}")
    assert found.rule == DAMAGED.name
    assert "/".join(map(str, place)) in found.sentence
    assert "restore it from a backup" in found.sentence
    how = How(select=("event_order_placed",))
    assert rebuild(spark, f"sqlite:///{log}", tmp_path / "tables", how=how).undecodable == 1
