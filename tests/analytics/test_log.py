"""The log as a DataFrame has what the log has, row by row."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import analytics
from analytics.sqlite import Batches
from eventlib.errors import EventlibError
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import RECORD_FIELDS, Record
from eventlib.values import from_ms, to_ms
from tests.analytics.damages import copied


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
