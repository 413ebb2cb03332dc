"""Record batches in an SQLite log: written as one, found by time, dropped, compacted, and named where they have changed."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.integrity import prove
from eventlib.log.sqlite.packing import MOST
from eventlib.log.sqlite.reading import take
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from tests.contract.batched import NOW, ROWS, numbered, opened, placed, read_all, rows
from tests.in_rows import change_row, in_rows


@pytest.mark.parametrize(("offset", "limit", "batches"), [(0, 1, 1), (0, MOST, 1), (MOST - 9, 10, 2), (5, 200, 4)])
def test_no_more_batches_are_inflated_than_the_records_are_in(offset: int, limit: int, batches: int) -> None:
    rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
        SELECT 'a', 0, i * :most - 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, :headers, 0 FROM n
    """
    headers = f'{{"records":{MOST},"offsets":{MOST}}}'
    with closing(sqlite3.connect(":memory:")) as connection:
        taken = take(offset, limit, connection.execute(rows, {"most": MOST, "headers": headers}))
    assert len(taken) == batches


async def test_several_records_of_a_transaction_and_partition_are_one_row(tmp_path: Path) -> None:
    """A few are rows, so are large ones; a batch has a bounded number of records."""
    log = await opened(tmp_path / "log.db")
    for count in (7, 8, MOST + 7, MOST + 8):
        await log.append(numbered("a", count))
    await log.append(numbered("a", 9, size=70_000))
    await log.close()
    sizes = [count for _, count in rows(tmp_path / "log.db")]
    assert sizes == [*[1] * 7, 8, MOST, *[1] * 7, MOST, 8, *[1] * 9]


async def test_rows_and_batches_have_the_same_digests(tmp_path: Path) -> None:
    """So that a log can be packed, and unpacked, and is still the one that a backup was made of."""
    digests = list[object]()
    for options in (None, ROWS):
        log = await opened(path := tmp_path / f"{options is None}.db", options)
        await log.append(numbered("a", 100))
        await log.close()
        with closing(connect(path)) as connection:
            digests.append(connection.execute("SELECT digest FROM partitions ORDER BY number").fetchall())
            assert not prove(connection).damages
    assert digests[0] == digests[1]
    with closing(connect(in_rows(tmp_path / "True.db"))) as connection:
        proof = prove(connection)
    assert (proof.damages, proof.records) == ([], 100)


async def test_look_up_by_time_finds_the_record_in_a_batch(tmp_path: Path) -> None:
    log = await opened(tmp_path / "log.db")
    await log.append(numbered("a", 2_500))
    for offset in (0, 1, 63, 64, 1_023, 1_024, 1_025, 2_499):
        assert await log.offset_at("a", 0, NOW + offset) == offset
    assert await log.offset_at("a", 0, NOW + 2_500) == 2_500
    await log.close()


async def test_retention_cuts_a_batch_at_the_record(tmp_path: Path) -> None:
    """By time and by size, exactly; also on a log that is retired, into which no row can be inserted."""
    now = NOW
    log = await opened(path := tmp_path / "log.db", SqliteOptions(clock=lambda: now))
    await log.append([*numbered("hour", 50), *numbered("bytes", 100, size=8)])
    now = NOW + 3_600_000 + 20
    await log.retire("a test")
    await log.compact()
    assert await log.start("hour", 0) == 20
    assert await log.read("hour", 0, 0, 100) == placed(numbered("hour", 50))[20:]
    kept = await log.read("bytes", 0, 0, 200)
    assert sum(len(each.key or b"") + len(each.value or b"") for each in kept) <= 1_000
    assert kept == placed(numbered("bytes", 100, size=8))[-len(kept) :]
    assert len(kept) > 80
    await log.close()
    with closing(connect(path)) as connection:
        assert not prove(connection).damages


async def test_compaction_leaves_of_batches_what_it_leaves_of_rows(tmp_path: Path) -> None:
    """With random keys, tombstones and appends of any size, several times, and in every process that reads it."""
    dice = random.Random(5)
    logs = [await opened(tmp_path / name, options) for name, options in (("a.db", None), ("b.db", ROWS))]
    readers = [await opened(tmp_path / "a.db"), await opened(tmp_path / "b.db")]
    for _ in range(4):
        for size in (1, 3, 40, 200, 1_200):
            made = [
                Record("compact", 0, -1, NOW - dice.choice((0, 10**9)), dice.choice((b"%d" % dice.randrange(90), None)),
                       dice.choice((b"x", b"y", None)))
                for _ in range(size)
            ]  # fmt: skip
            for log in logs:
                await log.append(made)
        for log in logs:
            await log.compact()
        left, expected = [await log.read("compact", 0, 0, 10_000) for log in readers]
        assert left == expected
        for limit in (1, 10, 64):
            assert await read_all(tmp_path / "a.db", "compact", limit) == (expected, [])
    digests = list[object]()
    for name in ("a.db", "b.db"):
        with closing(connect(tmp_path / name)) as connection:
            proof = prove(connection)
            assert (proof.damages, proof.records) == ([], len(expected))
            digests.append(connection.execute("SELECT digest, kept FROM partitions ORDER BY number").fetchall())
    assert digests[0] == digests[1]
    for log in (*logs, *readers):
        await log.close()


def flip(path: Path, column: str, bit: int, row: int = 1) -> None:
    """Flip a bit in a column of a row: of the second batch, unless another is named."""
    with closing(sqlite3.connect(path)) as connection:
        position, value = connection.execute(
            f"SELECT position, {column} FROM records ORDER BY position LIMIT 1 OFFSET ?",  # noqa: S608
            (row,),
        ).fetchone()
    if isinstance(value, int):
        other: object = value ^ 1 << bit
    else:
        data = bytearray(value.encode() if isinstance(value, str) else value)
        data[bit // 8] ^= 1 << bit % 8
        other = data.decode() if isinstance(value, str) else bytes(data)
    change_row(path, f"UPDATE records SET {column} = ? WHERE position = ?", other, position)  # noqa: S608


BITS = [
    *(("value", bit) for bit in (0, 37, 100, 1_003)),
    *(("headers", bit) for bit in (1, 90, 91, 99, 160)),
    *(("recorded_at", 4), ("sequence", 40), ("checksum", 3), ("position", 33), ("position", 2), ("position", 7)),
]


@pytest.mark.parametrize(("column", "bit"), BITS)
async def test_one_bit_of_a_batch_is_found_wherever_it_is(tmp_path: Path, column: str, bit: int) -> None:
    log = await opened(path := tmp_path / "log.db")
    for first in (0, 20, 40):
        await log.append(numbered("a", 20, first=first))
    await log.close()
    flip(path, column, bit)
    expected = placed(numbered("a", 60))
    for limit in (7, 100):
        found, damaged = await read_all(path, "a", limit=limit)
        named = {offset for each in damaged for offset in range(each.offset, each.resume_at)}
        assert found == [each for each in expected if each.offset not in named]
        assert named == {*range(20, 40)}
    with closing(connect(path)) as connection:
        assert prove(connection).damages


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE records SET value = CAST(substr(value, 1, 30) || x'0102' || substr(value, 33) AS BLOB)",
        "UPDATE records SET value = x'00'",
        "UPDATE records SET value = NULL",
        "UPDATE records SET checksum = NULL",
        'UPDATE records SET headers = \'{"records":9,"offsets":9999}\'',
        "DELETE FROM records",
    ],
)
async def test_a_changed_batch_is_named_whole_and_all_else_is_read(tmp_path: Path, sql: str) -> None:
    log = await opened(path := tmp_path / "log.db")
    for first in (0, 20, 40):
        await log.append(numbered("a", 20, first=first))
    await log.close()
    change_row(path, f"{sql} WHERE position = (SELECT position FROM records ORDER BY position LIMIT 1 OFFSET 1)")  # noqa: S608
    found, damaged = await read_all(path, "a")
    assert found == [each for each in placed(numbered("a", 60)) if each.offset not in range(20, 40)]
    assert {offset for each in damaged for offset in range(each.offset, each.resume_at)} == {*range(20, 40)}
    with closing(connect(path)) as connection:
        named = [each for each in prove(connection).damages if each.offset is not None]
    covered = {offset for each in named for offset in range(each.offset or 0, each.resume_at or 0)}
    assert covered >= {*range(20, 40)} or "9999" in sql
    log = await opened(path)
    await log.append(numbered("hour", 9, first=-4_000_000))
    await log.compact()  # it looks at damaged batches, too, and leaves them
    assert await log.start("hour", 0) == 9
    await log.close()
