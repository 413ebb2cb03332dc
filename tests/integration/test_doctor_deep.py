"""`eventlib doctor --deep`: what has changed in a log's file is found, and stops nothing that it does not touch."""

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from eventlib import EventLog, open_log
from eventlib.cli import run
from eventlib.errors import EventlibError, WiringError
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.integrity import prove
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.sealed import partition_update
from eventlib.operations.doctor.repair import repair_file
from eventlib.state.memory import MemoryStores
from services import shop
from tests.handling import handle_all
from tests.in_rows import in_rows
from tests.integration.damaging import everything
from tests.integration.shop_log import Carrier, Gateway, order, served, supplied

ORDERS = 40
PATIENCE_S = 20.0
TABLES = {
    "meta": "*",
    "topics": "*",
    "partitions": "*",
    "records": "*",
    "milestones": "*",
    "owners": "service, partition, epoch, owner",  # seen_at is a heart's beat: what stands there is old a second later
    "sqlite_schema": "type, name, tbl_name, sql",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a shop that has handled some hundred orders, and is closed."""
    path = tmp_path_factory.mktemp("whole") / "shop.db"

    async def filled() -> None:
        async with open_log(f"sqlite:///{path}", shop) as log:
            await supplied(log, units=2 * ORDERS)
            await log.publish_many([order(f"o-{number}") for number in range(ORDERS)])
            await served(log)

    asyncio.run(filled())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def damages(path: Path) -> list[str]:
    """Return what the deep examination finds, as it reports it; a file that cannot be opened is a finding."""
    try:
        with closing(connect(path)) as connection:
            return [each.what for each in prove(connection).damages]
    except (sqlite3.Error, EventlibError) as error:
        return [str(error)]


def dump(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: ("a text, not bytes", data)
        return {
            name: sorted(connection.execute(f"SELECT {columns} FROM {name}"), key=repr)  # noqa: S608
            for name, columns in TABLES.items()
        }


def flips(path: Path, count: int) -> Iterator[int]:
    """Flip one bit of the file at a time, yield where, and put it back."""
    chance, size = random.Random(17), path.stat().st_size
    for _ in range(count):
        at, mask = chance.randrange(size), 1 << chance.randrange(8)
        for side in (f"{path}-wal", f"{path}-shm"):
            Path(side).unlink(missing_ok=True)
        with path.open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes((byte ^ mask,)))
            file.flush()
            yield at
            file.seek(at)
            file.write(bytes((byte,)))


def test_a_whole_log_has_nothing_to_find(whole: Path) -> None:
    assert damages(whole) == []


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_each_flipped_bit_that_changes_data_is_found(whole: Path, tmp_path: Path, count: int) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(whole.read_bytes())
    intact, harmless, silent = dump(path), 0, list[int]()
    for at in flips(path, count):
        if damages(path):
            continue
        harmless += 1
        if dump(path) != intact:
            silent.append(at)
    assert silent == []
    assert harmless < count / 2  # else nothing was tried


@pytest.mark.parametrize("count", [30, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", [1, pytest.param(4, marks=pytest.mark.extended)])
def test_what_has_changed_stops_nothing_that_it_does_not_touch(
    whole: Path, tmp_path: Path, width: int, count: int
) -> None:
    """New orders go through beside damaged records; where the file's own structure is hurt, what stops says so."""
    chance, data, stopped = random.Random(3), whole.read_bytes(), 0
    for number in range(count):
        at = chance.randrange(len(data) - width)
        mask = chance.randrange(8) if width == 1 else chance.randrange(1, 1 << 8 * width)
        changed_bytes = int.from_bytes(data[at : at + width]) ^ (1 << mask if width == 1 else mask)
        path = tmp_path / f"{number}.db"
        path.write_bytes(data[:at] + changed_bytes.to_bytes(width) + data[at + width :])
        in_records = damaged_parts(path) <= {"records"}
        try:
            open_orders = asyncio.run(new_orders_of(f"sqlite:///{path}"))
        except EventlibError as error:
            open_orders = {str(error)}
        assert not (open_orders and in_records), (at, open_orders)
        assert all("backup" in why or "eventlib repair" in why for why in open_orders if not why.startswith("new-"))
        stopped += bool(open_orders)
    assert stopped <= count / 10


def damaged_parts(path: Path) -> set[str]:
    try:
        with closing(connect(path)) as connection:
            return {each.check for each in prove(connection).damages}
    except (sqlite3.Error, EventlibError):
        return {"structure"}


async def new_orders_of(url: str) -> set[str]:
    """Order something of a shop whose file has changed, and return which orders did not come to their end."""
    wanted = {f"new-{number}" for number in range(8)}
    async with open_log(url, shop) as log:
        await log.publish_many([order(name) for name in sorted(wanted)])
        ports = {"gateway": Gateway(), "carrier": Carrier()}
        with suppress(TimeoutError):  # a task whose states nobody can read any more waits for their schema
            await handle_all(log, ports=ports, stores=MemoryStores())
        return wanted - await completed(log)


async def completed(log: EventLog) -> set[str]:
    return {(each.key or b"").decode() for each in await everything(log, "orders") if each.type == "OrderCompleted"}


def changed(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("xor", 2, lambda a, b: a ^ b)
        assert connection.execute(sql, values).rowcount == 1
        connection.commit()


def position_of(path: Path, kind: str, number: int = 3) -> int:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT position FROM records WHERE type = ? ORDER BY position", (kind,))
        return int(rows.fetchall()[number][0])


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    path.write_bytes(whole.read_bytes())
    return in_rows(path)


@pytest.mark.parametrize(
    "change_of_row",
    [
        "next_offset = 1, digest = 3",
        "next_offset = xor(next_offset, 8)",
        "partition = partition + 600",
        "topic = CAST(x'ff6f7264' AS TEXT), partition = 1",
    ],
)
def test_a_partition_whose_row_has_changed_is_named_and_its_row_written_again(
    copied: Path, capsys: pytest.CaptureFixture[str], change_of_row: str
) -> None:
    url, intact = f"sqlite:///{copied}", dump(copied)
    number = position_of(copied, "OrderPlaced") >> 40
    changed(copied, f"UPDATE partitions SET {change_of_row} WHERE number = ?", number)  # noqa: S608
    damaged = dump(copied)
    assert damaged != intact
    assert run(["doctor", "--deep", "--log", url, "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["check"] for each in found if each["verdict"] == "error"} >= {"partitions"}
    assert run(["repair", "--dry-run", "--log", url]) == 1
    assert dump(copied) == damaged
    assert run(["repair", "--log", url]) == 0
    kept = capsys.readouterr().out.splitlines()[-1].removeprefix("The file as it was before is ").removesuffix(".")
    assert dump(Path(kept)) == damaged
    assert damages(copied) == []
    assert without_counts(dump(copied)) == without_counts(intact)


def without_counts(tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out what upkeep counts in a partition's row, and counts anew after a repair."""
    return {**tables, "partitions": [(*row[:5], *row[8:11]) for row in tables["partitions"]]}


def test_a_record_that_is_gone_is_named_with_what_stands_around_it(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    position = position_of(copied, "OrderPlaced")
    changed(copied, "DELETE FROM records WHERE position = ?", position)
    assert run(["doctor", "--deep", "--log", f"sqlite:///{copied}", "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (gone,) = [each for each in found if each["verdict"] == "error"]
    assert (gone["topic"], gone["offset"]) == ("orders", position & (1 << 40) - 1)
    assert "no record there" in gone["what"]
    assert "OrderPlaced of 'o-" in gone["what"]
    assert run(["repair", "--log", f"sqlite:///{copied}"]) == 1  # nothing on the file proves what it was


def test_a_lost_tail_is_told_by_the_positions_of_tasks(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of one partition is gone, and its row says so, as after a restore of a part of the topics."""
    number = position_of(copied, "OrderPlaced") >> 40
    with closing(sqlite3.connect(copied)) as connection:
        connection.execute("DELETE FROM records WHERE position >> 40 = ?", (number,))
        place = connection.execute("SELECT number, topic, partition FROM partitions WHERE number = ?", (number,))
        connection.execute(*partition_update((*place.fetchone(), *[0] * 8)))
        connection.commit()
    assert damages(copied) == []
    assert run(["doctor", "--deep", "--log", f"sqlite:///{copied}", "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lost = [each for each in found if each["check"] == "tail"]
    assert {(each["topic"], each["offset"]) for each in lost} == {("orders", 0)}
    assert "its tail is lost" in lost[0]["what"]


async def test_a_log_on_which_services_run_is_not_repaired(copied: Path) -> None:
    changed(
        copied,
        "UPDATE partitions SET next_offset = 1, digest = 3 WHERE number = ? >> 40",
        position_of(copied, "OrderPlaced"),
    )
    log = await SqliteLog.open(copied)
    member = await log.join("order", 1)
    async with asyncio.timeout(120):
        while not await member.moved({}):
            await asyncio.sleep(0.01)
    before = dump(copied)
    with pytest.raises(WiringError, match=r"services run on the log .*: order"):
        repair_file(copied, dry_run=False)
    assert dump(copied) == before
    assert len(repair_file(copied, dry_run=True).done) == 1
    await member.leave()
    await log.close()


async def test_records_of_an_older_release_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent.parent / "golden" / "sqlite-format-1.sql").read_text("utf-8"))
        connection.execute("PRAGMA journal_mode=WAL")
    await (await SqliteLog.open(path)).close()  # which upgrades it
    with closing(connect(path)) as connection:
        proof = prove(connection)
    assert (proof.damages, proof.records, proof.unsealed) == ([], 3, 3)
