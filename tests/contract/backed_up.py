"""A log and its backups: written, made, compared and deleted."""

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.backup.manifest import Backup
from eventlib.operations.backup.write import back_up

ORDERS = Topic("orders", partitions=2)
_TABLES = ("meta", "topics", "partitions", "records", "milestones", "owners")


def made(log: Path, to: Path, *, full: bool = False) -> Backup:
    return back_up(log, f"sqlite:///{log}", to, full=full, progress=lambda *_: None)


def numbered(topic: str, count: int, first: int = 0, partitions: int = 1) -> list[Record]:
    return [
        Record(topic, n % partitions, -1, n, b"key-%d" % (n % 5), b"%d" % n, headers=(("n", b"%d" % n),))
        for n in range(first, first + count)
    ]


def incompressible(records: Sequence[Record]) -> list[Record]:
    draw = random.Random(3)
    return [each.replace(value=draw.randbytes(80)) for each in records]


async def opened(path: Path, *topics: Topic, now: int = 1_000) -> SqliteLog:
    log = await SqliteLog.open(path, options=SqliteOptions(compact_floor=5, clock=lambda: now))
    await log.create_topics(topics or [ORDERS])
    return log


def content(path: Path) -> Mapping[str, list[tuple[object, ...]]]:
    with closing(connect(path)) as connection:
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in _TABLES}  # noqa: S608  names of this file


def beside(path: Path) -> list[str]:
    return [each.name for each in path.parent.glob(f"{path.name}*")]


def cleared(path: Path) -> None:
    """Delete a log, and all files beside it."""
    for each in path.parent.glob(f"{path.name}*"):
        if each.is_file():
            each.unlink()
