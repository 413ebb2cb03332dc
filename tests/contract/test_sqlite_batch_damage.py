"""A batch whose bytes have changed is put right where that can be proved, and named whole elsewhere."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.integrity import prove
from eventlib.operations.doctor.repair import repair_file
from tests.contract.batched import numbered, opened, placed, read_all
from tests.in_rows import change_row


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
async def test_one_bit_of_a_batch_is_found_taken_back_and_repaired(tmp_path: Path, column: str, bit: int) -> None:
    """Wherever it is; where a changed position hides the batch from a reader, its records are named."""
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
        is_hidden = column == "position" and (bit > 2 or limit < 20)  # behind other rows, or read from its middle on
        assert is_hidden or not damaged
        assert named <= {*range(20, 40)}
    with closing(connect(path)) as connection:
        assert prove(connection).damages
    assert not repair_file(path, dry_run=False, seals=False).left
    assert await read_all(path, "a") == (expected, [])


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
async def test_a_batch_that_cannot_be_put_right_is_named_whole_and_all_else_is_read(tmp_path: Path, sql: str) -> None:
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
