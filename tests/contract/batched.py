"""A log of several kinds of topics, its rows and batches, and what a careful reader reads of it."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from eventlib.errors import DamagedRecord
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic

NOW = 1_700_000_000_000
ROWS = SqliteOptions(batch_from=1 << 30)
TOPICS = (
    Topic("a", partitions=2),
    Topic("hour", partitions=1, retention=timedelta(hours=1)),
    Topic("bytes", partitions=1, retention_bytes=1_000),
    Topic("compact", partitions=1, compacted=True),
)


async def opened(path: Path, options: SqliteOptions | None = None) -> SqliteLog:
    log = await SqliteLog.open(path, options=options or SqliteOptions(clock=lambda: NOW))
    await log.create_topics(TOPICS)
    return log


def numbered(topic: str, count: int, *, first: int = 0, size: int = 20) -> list[Record]:
    return [
        Record(
            topic,
            0,
            -1,
            NOW + n,
            b"k%d" % (n % 7),
            b"%d" % n + b"x" * size,
            f"id-{n}",
            "Paid",
            headers=(("n", b"%d" % n),),
        )
        for n in range(first, first + count)
    ]


def placed(records: Sequence[Record], first: int = 0) -> list[Record]:
    return [each.replace(offset=first + n) for n, each in enumerate(records)]


def rows(path: Path) -> list[tuple[int, int]]:
    """Return each row's offset, and how many records it has, by the view that people read."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute('SELECT "offset", records FROM log ORDER BY topic, partition, "offset"').fetchall()


async def read_all(path: Path, topic: str, limit: int = 7) -> tuple[list[Record], list[DamagedRecord]]:
    log = await SqliteLog.open(path)
    found, damaged, offset = list[Record](), list[DamagedRecord](), 0
    while offset < await log.end(topic, 0):
        try:
            records = await log.read(topic, 0, offset, limit)
        except DamagedRecord as error:
            damaged.append(error)
            offset = max(error.resume_at, offset + 1)
        else:
            found += records
            offset = records[-1].offset + 1 if records else 1 << 30
    await log.close()
    return found, damaged
