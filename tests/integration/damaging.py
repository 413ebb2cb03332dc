"""Damage a log's file, and see what of the small shop's is still there."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from eventlib import EventLog
from eventlib.log.reading import SkippingReader
from eventlib.model.record import Record
from eventlib.runtime.records import JournalEntry, Step
from tests.apps.small_shop import Ordered
from tests.in_rows import change_row, in_rows

KEYS = [str(number) for number in range(8)]
BEYOND_PROOF = "UPDATE records SET value = x'00', checksum = 1 WHERE position = ?"


def change(path: Path, sql: str, *values: object) -> None:
    change_row(in_rows(path) if "records" in sql else path, sql, *values)


@contextmanager
def hurt(directory: Path, position: int, sql: str = BEYOND_PROOF) -> Iterator[Path]:
    """Damage one record of a copy of a log, and return the copy's file."""
    shutil.copytree(directory, copy := directory.with_name("hurt"))
    try:
        change(copy / "log.db", sql, position)
        yield copy / "log.db"
    finally:
        shutil.rmtree(copy)


def topics_in(directory: Path) -> dict[int, str]:
    """Give each record of a log a row of its own, and return their topics by their positions."""
    with closing(sqlite3.connect(in_rows(directory / "log.db"))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        topics = dict(connection.execute("SELECT number, topic FROM partitions"))
        return {position: topics[position >> 40] for (position,) in connection.execute("SELECT position FROM records")}


async def order(log: EventLog, *keys: str) -> None:
    for key in keys:
        await log.publish(Ordered(order_id=key, cents=5), idempotency_key=key)


async def everything(log: EventLog, topic: str) -> list[Record]:
    port = SkippingReader(log.port)
    partitions = (await port.topics())[topic].partitions
    found = list[Record]()
    for partition in range(partitions):
        offset = 0
        while records := await port.read(topic, partition, offset, 1_000):
            found += records
            offset = records[-1].offset + 1
    return found


async def steps(log: EventLog) -> list[Step]:
    found = [log.codec.decode(JournalEntry, each.value or b"") for each in await everything(log, "orders.journal")]
    return [step for entry in found for step in entry.steps]


async def charged(log: EventLog) -> set[str]:
    return {each.key.decode() for each in await everything(log, "charges") if each.type == "Charged" and each.key}
