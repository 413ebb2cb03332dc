"""A log with whatever a log can hold: records of every form, and gaps before, between and after them."""

import os
from datetime import timedelta

from eventlib.log.base import Log
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.registry.records import SCHEMAS
from eventlib.values import now_ms

LONG_AGO_MS = 1_200_000_000_000
TOPICS = [
    Topic("facts", partitions=3),
    Topic("newest", partitions=2, compacted=True),
    Topic("brief", partitions=2, retention=timedelta(hours=1)),
    Topic("twice", partitions=1, latest=True),
    Topic("twice.latest", partitions=1, compacted=True),
    Topic("till.changelog", partitions=3, compacted=True, max_event_bytes=8_000_000),
    Topic("till.journal", partitions=3, max_event_bytes=8_000_000),
    Topic("untouched", partitions=2),
    SCHEMAS,
]
GOES_ON = [topic for topic in TOPICS if not topic.compacted]
DENSE = {"till.changelog", "twice.latest", SCHEMAS.name}


async def fill(log: SqliteLog) -> None:
    """Put on a log whatever a log can hold: records of every form, and gaps before, between and after them."""
    await log.create_topics(TOPICS)
    full = Record(
        "facts", 0, -1, now_ms(), b"k", b"v", "id", "Type", "till/desk", "subj\u00e9ct", 7, "corr", "cause", "00-ab"
    )
    await log.append(
        [full, full.replace(headers=(("task", b'{"a": 1}'), ("x", b"\xff\x00"))), full.replace(partition=1)]
    )
    plain = Record("facts", 0, -1, LONG_AGO_MS, None, None)
    await log.append([plain, plain.replace(value=b""), plain.replace(key=b"", value=b"\x00" * 100)])
    await log.append([Record("facts", 2, -1, now_ms() + i, b"%d" % i, os.urandom(i % 700)) for i in range(5_000)])
    for each in (400, 3, 1):  # newest of each key, so that what was before leaves gaps
        await log.append([Record("newest", i % 2, -1, now_ms(), b"k%d" % (i % each), b"%d" % i) for i in range(700)])
    await log.append([Record("brief", 0, -1, LONG_AGO_MS, b"old", b"old") for _ in range(1_500)])
    await log.append([Record("brief", 1, -1, LONG_AGO_MS, b"old", b"old") for _ in range(2)])
    await log.append([Record("brief", 0, -1, now_ms(), b"new", b"new")])
    states = [Record("till.changelog", i % 3, -1, now_ms(), b"s%d" % (i % 50), b"%d" % i) for i in range(2_000)]
    await log.append([*states, Record("till.changelog", 1, -1, now_ms(), b"huge", os.urandom(5_000_000))])
    await log.append(
        [Record("twice", 0, -1, now_ms(), b"k", b"1"), Record("twice.latest", 0, -1, now_ms(), b"k", b"1")]
    )
    await log.append([Record(SCHEMAS.name, 0, -1, now_ms(), b"schema", b"{}")])
    await log.compact()
    await log.append([Record("till.changelog", 0, -1, now_ms(), b"s0", None)])
    assert await log.start("brief", 0) == 1_500
    assert await log.start("brief", 1) == await log.end("brief", 1) == 2


async def everything(log: Log, topic: Topic, partition: int) -> list[Record]:
    found = list[Record]()
    while records := await log.read(topic.name, partition, found[-1].offset + 1 if found else 0, 10_000):
        found += records
    return found


async def check_same(source: SqliteLog, target: str) -> None:
    copied = await KafkaLog.open(target)
    try:
        assert await copied.topics() == await source.topics()
        for topic in TOPICS:
            for partition in range(topic.partitions):
                here, there = [await everything(log, topic, partition) for log in (source, copied)]
                if topic.name in DENSE:
                    here = [record.replace(offset=offset) for offset, record in enumerate(here)]
                else:
                    assert await copied.end(topic.name, partition) == await source.end(topic.name, partition)
                    assert await copied.start(topic.name, partition) == await source.start(topic.name, partition)
                assert there == here, f"{topic.name}/{partition}"
    finally:
        await copied.close()
