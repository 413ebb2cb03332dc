"""Rows of an SQLite log are packed into batches later, also from an older format, and killed meanwhile."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from zstandard import ZstdCompressor

from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.integrity import prove
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.packing import MOST, contents
from tests import forked
from tests.contract.batched import ROWS, numbered, opened, placed, read_all, rows
from tests.in_rows import change_row


async def test_rows_are_packed_and_stay_what_they_are(tmp_path: Path) -> None:
    """Beside a damaged one, and one of another process that reads and compacts; a second time does nothing."""
    log = await opened(path := tmp_path / "log.db", ROWS)
    await log.append([*numbered("a", 300), *numbered("compact", 100)])
    reader = await opened(path)
    change_row(path, "UPDATE records SET value = x'00', subject = 'x' WHERE id = 'id-150' AND position < 2 << 40")
    before = await read_all(path, "a"), await reader.read("compact", 0, 0, 1_000)
    done = await log.pack()
    assert (done.seen, done.packed) == (400, 399)
    assert (await read_all(path, "a"), await reader.read("compact", 0, 0, 1_000)) == before
    again = await log.pack()
    assert (again.seen, again.packed) == (1, 0)
    assert max(count for _, count in rows(path)) == MOST
    await reader.compact()
    assert [each.offset for each in await log.read("compact", 0, 0, 100)] == [*range(93, 100)]
    await log.shrink()
    await log.append(numbered("a", 1, first=300))
    assert (await read_all(path, "a"))[0][-1].offset == 300
    for each in (log, reader):
        await each.close()


WRITES = """
import asyncio, sys
from pathlib import Path
from tests.contract.batched import ROWS, numbered, opened
async def main():
    log = await opened(Path(sys.argv[1]), ROWS if sys.argv[2] == "pack" else None)
    print("begun", flush=True)
    while sys.argv[2] == "append":
        await log.append([*numbered("a", 50), *numbered("compact", 10)])
    await log.pack(lambda _: print("step", flush=True))
asyncio.run(main())
"""


def kill_one_that_writes(path: Path, what: str, after_s: float) -> None:
    command = [sys.executable, "-c", WRITES, str(path), what]
    with forked.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if what == "pack":
            process.stdout.readline()  # it has packed something
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["append", "pack"])
async def test_a_kill_leaves_whole_transactions(tmp_path: Path, what: str) -> None:
    """In the middle of appends, and of packing, which another time finishes."""
    path, dice = tmp_path / "log.db", random.Random(1)
    log = await opened(path, ROWS)
    if what == "pack":
        for first in range(0, 30_000, 5_000):
            await log.append(numbered("a", 5_000, first=first))
    await log.close()
    for _ in range(3):
        kill_one_that_writes(path, what, dice.random() * 0.1)
        found, damaged = await read_all(path, "a", limit=1_000)
        assert not damaged
        if what == "append":
            assert [each.replace(offset=-1) for each in found] == numbered("a", 50) * (len(found) // 50)
        else:
            assert found == placed(numbered("a", 30_000))
        with closing(connect(path)) as connection:
            assert not prove(connection).damages
    log = await opened(path)
    done = await log.pack()
    await log.close()
    assert done.packed < 30_000 or what == "append"
    assert sum(count for _, count in rows(path) if count == 1) < 8 or what == "append"
    assert await read_all(path, "a", limit=1_000) == (found, [])


async def test_a_file_of_the_second_format_is_upgraded_when_it_is_opened_and_packed(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent.parent / "golden" / "sqlite-format-2.sql").read_text("utf-8"))
        connection.execute("PRAGMA journal_mode=WAL")
    log, reader = await SqliteLog.open(path), await SqliteLog.open(path)
    before = await log.read("orders", 0, 0, 100)
    with closing(connect(path)) as connection:
        proof = prove(connection)
        assert (proof.damages, proof.records) == ([], len(before) == 10 and 10)
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert (await log.pack()).packed == 10
    assert await reader.read("orders", 0, 0, 100) == before
    await reader.append([before[0]])
    assert rows(path) == [(0, 10), (10, 1)]
    with closing(connect(path)) as connection:
        assert not prove(connection).damages
    for each in (log, reader):
        await each.close()


@pytest.mark.parametrize(
    "value",
    [b"", b"no frame", ZstdCompressor().compress(b"no batch"), ZstdCompressor().compress(msgspec.msgpack.encode(7))],
    ids=["empty", "no frame", "another content", "another type"],
)
def test_what_is_no_batch_is_refused_as_one(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"it (is not a batch of records|has another size)"):
        contents(7, value)
