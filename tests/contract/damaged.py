"""A log of numbered records, each in a row of its own, whose bytes tests change."""

from pathlib import Path

from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic

COUNT = 40
ROWS = SqliteOptions(batch_from=COUNT + 1)
"""Each record in a row of its own; the damage of batches is in test_sqlite_batches.py."""


def written(offset: int, topic: str = "orders") -> Record:
    key = f"order-{offset}".encode()
    attributes = (f"id-{offset}", "OrderPlaced", "order/order", f"order-{offset}", offset + 1, "cause", "cause", None)
    return Record(*(topic, 0, offset, 1_700_000_000_000 + offset, key, b"\x00" + b"%d" % offset, *attributes, ()))


async def made(path: Path, *topics: str, compacted: bool = False) -> None:
    log = await SqliteLog.open(path, options=ROWS)
    await log.create_topics([Topic(name, partitions=1, compacted=compacted) for name in topics or ("orders",)])
    for name in topics or ("orders",):
        await log.append([written(offset, name) for offset in range(COUNT)])
    await log.close()
