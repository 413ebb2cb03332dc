"""Records of an SQLite log whose bytes have changed: named, and passed over."""

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.errors import ContractError, LogCorrupt, LogVersionMismatch
from eventlib.log.checksum import record_checksum
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.integrity import prove
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.schema import check_version
from eventlib.log.sqlite.state import OFFSET_BITS
from eventlib.model.topic import Topic
from tests.contract.batched import read_all
from tests.contract.damaged import COUNT, ROWS, made, written
from tests.in_rows import change_row

MANY = 10 * COUNT
PAGE_BYTES = 4_096


LEAF, INTERIOR = 13, 5
"""The types of a table's pages."""


async def made_of_pages(path: Path) -> None:
    """Write records onto several pages."""
    log = await SqliteLog.open(path, options=ROWS)
    await log.create_topics([Topic("orders", partitions=1)])
    for first in range(0, MANY, COUNT):
        await log.append([written(first + offset) for offset in range(COUNT)])
    await log.close()


def places_in_the_tree(path: Path, offset: int, kind: int) -> list[int]:
    """Return where the last byte of a record's position is on pages of a type."""
    position = 1 << OFFSET_BITS | offset
    groups = [position >> 7 * each & 127 for each in range(position.bit_length() // 7, -1, -1)]
    number, data = bytes([*(group | 128 for group in groups[:-1]), groups[-1]]), path.read_bytes()
    found = [each.end() - 1 for each in re.finditer(re.escape(number), data)]
    return [place for place in found if data[place // PAGE_BYTES * PAGE_BYTES] == kind]


def flip(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


async def test_what_cannot_be_found_since_a_page_leads_elsewhere_is_named(tmp_path: Path) -> None:
    """A look-up then ends before where it should: what it finds there is whole, and another record."""
    await made_of_pages(path := tmp_path / "log.db")
    place = next(
        there[0] for each in range(MANY) if not each & 32 and (there := places_in_the_tree(path, each, INTERIOR))
    )
    flip(path, place, 5)
    found, damaged = await read_all(path, "orders")
    named = {offset for each in damaged for offset in range(each.offset, each.resume_at)}
    assert named
    assert found == [written(offset) for offset in range(MANY) if offset not in named]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("UPDATE records SET value = x'00', subject = 'b' WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET recorded_at = recorded_at + 32 WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET key = CAST(key AS TEXT) WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET type = CAST(x'4f72e46572' AS TEXT) WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET sequence = sequence + 1 WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET checksum = checksum - 1 WHERE id = 'id-12'", "does not match its checksum"),
        ("UPDATE records SET checksum = NULL WHERE id = 'id-12'", "has no checksum"),
        ("DELETE FROM records WHERE id = 'id-12'", "has no record there"),
        ("UPDATE records SET position = position + 5000 WHERE id = 'id-12'", "has no record there"),
    ],
)
async def test_what_has_changed_is_named_and_all_else_is_read(tmp_path: Path, sql: str, reason: str) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, sql)
    found, damaged = await read_all(path, "orders")
    assert found == [written(offset) for offset in range(COUNT) if offset != 12]
    assert [(each.topic, each.partition, each.offset, each.resume_at) for each in damaged] == [("orders", 0, 12, 13)]
    assert reason in str(damaged[0])


@pytest.mark.parametrize("offset", [0, 12], ids=["the first", "another"])
async def test_the_doctor_names_the_one_record_that_has_changed(tmp_path: Path, offset: int) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, "UPDATE records SET value = x'00', subject = 'b' WHERE id = ?", f"id-{offset}")
    with closing(connect(path)) as connection:
        (damage,) = prove(connection).damages  # and no digest that is another: the record has its checksum there
    assert damage.check == "records"
    assert (damage.topic, damage.partition, damage.offset, damage.resume_at) == ("orders", 0, offset, offset + 1)
    assert (damage.key, damage.type) == (f"order-{offset}", "OrderPlaced")


async def test_the_doctor_names_what_is_on_an_unreadable_page_and_nothing_behind_it(tmp_path: Path) -> None:
    await made_of_pages(path := tmp_path / "log.db")
    page = path.read_bytes().index(b"order-200") // PAGE_BYTES * PAGE_BYTES
    with path.open("r+b") as file:
        file.seek(page)
        file.write(b"\xff")
    with closing(connect(path)) as connection:
        gone = {offset for offset in range(MANY) if not is_readable(connection, offset)}
        named = [each for each in prove(connection).damages if each.check == "records"]
    assert 200 in gone
    assert {offset for each in named for offset in range(each.offset or 0, each.resume_at or 0)} == gone


def is_readable(connection: sqlite3.Connection, offset: int) -> bool:
    try:
        row = connection.execute("SELECT value FROM records WHERE position = ?", (1 << OFFSET_BITS | offset,))
        return row.fetchone() is not None
    except sqlite3.DatabaseError:
        return False


async def test_two_records_that_change_places_are_found(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db")
    for sql in ("-1 WHERE id = 'id-12'", "position - 1 WHERE id = 'id-13'", "position + 14 WHERE position = -1"):
        change_row(path, f"UPDATE records SET position = {sql}")  # noqa: S608
    change_row(
        path, "UPDATE records SET position = (SELECT position + 1 FROM records WHERE id = 'id-13') WHERE id = 'id-12'"
    )
    found, damaged = await read_all(path, "orders")
    assert found == [written(offset) for offset in range(COUNT) if offset not in {12, 13}]
    assert [each.offset for each in damaged] == [12, 13]


async def test_the_last_record_is_missed(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db")
    change_row(path, "DELETE FROM records WHERE id = 'id-39'")
    found, damaged = await read_all(path, "orders")
    assert (len(found), [each.offset for each in damaged]) == (39, [39])


async def test_the_digest_is_the_sum_of_what_is_there_after_compaction_too(tmp_path: Path) -> None:
    await made(path := tmp_path / "log.db", compacted=True)
    log = await SqliteLog.open(path)
    await log.append([written(offset % 5).replace(value=b"new") for offset in range(20)])
    await log.compact()
    records = await log.read("orders", 0, 0, 100)
    await log.close()
    with closing(sqlite3.connect(path)) as connection:
        (digest,) = connection.execute("SELECT digest FROM partitions").fetchone()
    assert digest == sum(map(record_checksum, records)) % (1 << 63)
    assert len(records) == COUNT


def test_checksums_stay_what_they_are() -> None:
    record = written(7).replace(headers=(("past", b"1"), ("raw", b"\xff")), traceparent="00-1-2-01", value=None)
    assert record_checksum(record) == 4273380304618622369


async def test_a_file_of_the_first_format_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent.parent / "golden" / "sqlite-format-1.sql").read_text("utf-8"))
    with closing(connect(path)) as connection, pytest.raises(LogVersionMismatch, match="run `eventlib status`"):
        check_version(connection, path)
    log = await SqliteLog.open(path)
    before = await log.read("orders", 0, 0, 100)
    assert len(before) == 3
    assert await log.append([written(3)]) == [3]
    other = await SqliteLog.open(path)
    assert await other.read("orders", 0, 0, 100) == [*before, written(3)]
    await other.close()
    await log.close()
    change_row(path, "UPDATE records SET checksum = NULL WHERE id = 'id-3'")
    assert [each.offset for each in (await read_all(path, "orders"))[1]] == [3]


async def test_a_thousand_seeded_bits_are_never_read_as_something_else(tmp_path: Path) -> None:
    """Flip a bit anywhere in the file: what is read is what was written, or it is named, or the file is refused."""
    await made(path := tmp_path / "log.db", "orders", "stock")
    data, chance, silent = path.read_bytes(), random.Random(20_261_122), 0
    for _ in range(300):
        place, bit = chance.randrange(len(data)), chance.randrange(8)
        path.write_bytes(data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :])
        for topic in ("orders", "stock"):
            try:
                found, damaged = await read_all(path, topic)
            except (LogCorrupt, ContractError):  # or its name: it is there again once it is declared
                continue
            expected = {offset: written(offset, topic) for offset in range(COUNT)}
            assert all(record == expected[record.offset] for record in found)
            gone = expected.keys() - {record.offset for record in found}
            named = {offset for each in damaged for offset in range(each.offset, each.resume_at)}
            silent += len(gone - named)
    assert silent == 0
