"""Records of the log that have changed or are gone: named with their place, parked or built anew, and all else goes on."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from eventlib import ContractError, EventLog, Runtime, open_log
from eventlib.errors import DamagedRecord
from eventlib.log.reading import SkippingReader
from eventlib.log.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.parked_commands import request_discard, request_retry
from eventlib.operations.status import StatusReader
from eventlib.queries.parked import parkings
from eventlib.replay import Report, replay
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.records import JournalEntry, Positions, Step
from eventlib.state.memory import MemoryStores
from tests.in_rows import in_rows
from tests.integration.test_runtime import Ordered, Outside, make_shop

KEYS = [str(number) for number in range(8)]
NOWHERE = "UPDATE records SET value = x'00', subject = 'b', key = x'01' WHERE id = ?"
SAME_KEY = "UPDATE records SET value = x'00ff', type = 'x' WHERE id = ?"
GONE = "DELETE FROM records WHERE id = ?"
FIRST_ENTRY = """UPDATE records SET value = x'00' WHERE position = (
    SELECT min(position) FROM records WHERE type = 'JournalEntry' GROUP BY position >> 40 ORDER BY count(*) DESC LIMIT 1
)"""

INSERT = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def change(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(in_rows(path) if "records" in sql else path)) as connection:
        assert connection.execute(sql, values).rowcount == 1
        connection.commit()


async def order(log: EventLog, *keys: str) -> None:
    for key in keys:
        await log.publish(Ordered(order_id=key, cents=5), idempotency_key=key)


async def run(log: EventLog, stores: MemoryStores | None = None, outside: Outside | None = None) -> Report:
    async with Runtime(log, ports={"gateway": outside or Outside()}, stores=stores) as runtime, asyncio.timeout(120):
        await runtime.idle()
    report = await replay(log)
    assert report.same, report.first or report.unknown
    return report


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


@pytest.mark.parametrize(("sql", "alone"), [(NOWHERE, True), (SAME_KEY, False), (GONE, True)])
async def test_a_damaged_input_is_parked_with_its_place_and_all_others_are_handled(
    tmp_path: Path, sql: str, *, alone: bool
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        hurt = next(each for each in await everything(log, "orders.requests") if each.key == b"3")
    change(tmp_path / "log.db", sql, hurt.id)
    place = f"{hurt.topic}/{hurt.partition}/{hurt.offset}"
    async with open_log(url, make_shop(set())) as log:
        report = await run(log)
        assert await charged(log) == {*KEYS} - {"3"}
        (parking,) = await parkings(log)
        assert parking.key == (place if alone else "3")
        assert place in parking.reason
        assert "damaged" in parking.reason
        (parked,) = [step for step in await steps(log) if step.kind == "park"]
        assert (parked.topic, parked.first, parked.detail) == (hurt.topic, hurt.offset, parking.reason)
        assert [place in each for each in report.damaged] == [True]
        if sql != GONE:
            (copy,) = await everything(log, "orders.parked")
            assert copy.value in {b"\x00", b"\x00\xff"}

        await request_retry(log, parking, "ada")  # what stands there is not handled, however often
        await run(log)
        assert len(await parkings(log)) == 1
        await request_discard(log, parking, "ada", "published anew")
        await order(log, "33")
        await run(log)
        assert await parkings(log) == []
        assert await charged(log) == {*KEYS, "33"} - {"3"}


@asynccontextmanager
async def retried_once_repaired(path: Path, sql: str, record_id: str | None) -> AsyncIterator[EventLog]:
    """Give a log on which an input was damaged and parked, repaired, and handled by a retry."""
    with closing(sqlite3.connect(path)) as connection:
        written = connection.execute("SELECT * FROM records WHERE id = ?", (record_id,)).fetchone()
    change(path, sql, record_id)
    async with open_log(f"sqlite:///{path}", make_shop(set())) as log:
        await run(log)
        change(path, INSERT, *written)
        (parking,) = await parkings(log)
        await request_retry(log, parking, "ada")
        await run(log)
        yield log


@pytest.mark.parametrize("sql", [NOWHERE, SAME_KEY, GONE])
async def test_a_damaged_input_that_was_repaired_is_handled_as_it_was_written_by_a_retry(
    tmp_path: Path, sql: str
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        hurt = next(each for each in await everything(log, "orders.requests") if each.key == b"3")
    async with retried_once_repaired(tmp_path / "log.db", sql, hurt.id) as log:
        assert await parkings(log) == []
        assert await charged(log) == {*KEYS}


async def test_what_a_repaired_input_causes_is_no_younger_than_it(tmp_path: Path) -> None:
    """Its service's clock is an hour ahead, and nobody could read that when it was parked."""
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, "3")
        (first,) = await everything(log, "orders.requests")
        ahead = first.replace(timestamp_ms=first.timestamp_ms + 3_600_000, id="ahead", headers=())
        await log.port.append([ahead.replace(value=log.codec.encode(Ordered(order_id="3", cents=7)))])
    async with retried_once_repaired(tmp_path / "log.db", SAME_KEY, "ahead") as log:
        caused = [each for each in await everything(log, "charges") if each.causation_id == "ahead"]
        assert caused
        assert all(each.timestamp_ms >= ahead.timestamp_ms for each in caused)


async def test_an_input_that_is_damaged_after_it_was_handled_is_named_by_a_replay_and_nothing_else_differs(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await run(log)
        hurt = next(each for each in await everything(log, "orders.requests") if each.key == b"3")
    change(tmp_path / "log.db", NOWHERE, hurt.id)
    async with open_log(url, make_shop(set())) as log:
        report = await run(log)
        assert [f"{hurt.topic}/{hurt.partition}/{hurt.offset} is damaged" in each for each in report.damaged] == [True]


async def test_a_damaged_partition_holds_back_no_other_one(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop(set())) as log:
        await log.port.create_topics([Topic("two", partitions=2)])
        await log.port.append([Record("two", p, -1, 5, b"k", b"v", f"{p}-{n}") for n in range(300) for p in range(2)])
        change(tmp_path / "log.db", GONE, "0-0")
        reader = log.port.reader({("two", 0): 0, ("two", 1): 0})
        found = await reader.poll(10)
        assert {each.partition for each in found} == {1}
        polls, named = 0, ""
        while not named and polls < 200:  # not at once, but also while the other one has more
            polls += 1
            await log.port.append([Record("two", 1, -1, 5, b"k", b"v")] * 10)
            try:
                found += await reader.poll(10)
            except DamagedRecord as error:
                named = str(error)
        assert named.startswith("two/0/0 is damaged")
        reader.seek(("two", 0), 1)
        while more := await reader.poll(500, 0):
            found += more
        assert [each.offset for each in found if each.partition == 0] == [*range(1, 300)]
        await reader.close()


NEWEST = "(SELECT max(position) FROM records WHERE key = CAST(? AS BLOB))"


@pytest.mark.parametrize(
    "what",
    [
        f"UPDATE records SET value = x'00', subject = 'b' WHERE position = {NEWEST}",  # noqa: S608
        f"UPDATE records SET value = x'00', key = x'b0', subject = 'b' WHERE position = {NEWEST}",  # noqa: S608
        f"DELETE FROM records WHERE position = {NEWEST}",  # noqa: S608
    ],
)
@pytest.mark.parametrize("kind", ["state/order/3", "effect", "position"])
async def test_a_damaged_state_is_built_anew_from_the_journal_and_written_again(
    tmp_path: Path, what: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, outside = f"sqlite:///{tmp_path}/log.db", Outside(refuses={"3"})
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await run(log, MemoryStores(), outside)
        before = [each for each in await everything(log, "orders.changelog") if each.partition == hurt_partition(log)]
        newest = {each.key: each for each in before}
        key = next(k for k in reversed(newest) if k and k.decode().startswith(kind)) or b""
    sql = what
    if kind == "position":  # one in each partition: the last one is that of the key's
        sql = what.replace(NEWEST, f"(SELECT max(position) FROM records WHERE key = CAST(? AS BLOB) AND {IN_TASK})")  # noqa: S608
    change(tmp_path / "log.db", sql, key.decode())
    place = f"orders.changelog/{newest[key].partition}/{newest[key].offset}"
    async with open_log(url, make_shop(set())) as log:
        await run(log, MemoryStores(), outside)
        assert "were rebuilt from the journal" in caplog.text
        (mended,) = [step for step in await steps(log) if step.kind == "mend"]
        assert (mended.topic, mended.first) == ("orders.changelog", newest[key].offset)
        assert place in mended.detail
        after = {
            each.key: each
            for each in await everything(log, "orders.changelog")
            if each.partition == hurt_partition(log)
        }
        assert after[key].offset > newest[key].offset
        assert contents(after) == contents(newest)
        assert positions(log, after) == positions(log, newest)
        await order(log, "3", "34")  # and it goes on from there
        outside.refuses.clear()
        await run(log, MemoryStores(), outside)
        assert len([step for step in await steps(log) if step.kind == "mend"]) == 1
        assert await charged(log) == {*KEYS, "34"} - {"3"}


def hurt_partition(log: EventLog) -> int:
    return log.choreography.service("orders").changelog.partition_of(b"3")


def positions(log: EventLog, records: dict[bytes | None, Record]) -> tuple[object, ...]:
    """Return a task's positions, and when it began."""
    found = log.codec.decode(Positions, records[b"position"].value or b"")
    return dict(found.next), dict(found.past), found.first_ms


def contents(records: dict[bytes | None, Record]) -> dict[bytes | None, tuple[object, ...]]:
    """Return what the records of states and effects say."""
    return {key: each.astuple()[5:] for key, each in records.items() if each.value is not None and key != b"position"}


IN_TASK = """position >> 40 = (SELECT max(position) >> 40 FROM records WHERE key = CAST('state/order/3' AS BLOB))"""


async def test_a_task_whose_state_cannot_be_proved_stops_alone_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await run(log, MemoryStores())
    change(tmp_path / "log.db", f"DELETE FROM records WHERE position = {NEWEST}", "state/order/3")  # noqa: S608
    journal = "SELECT max(position) FROM records WHERE type = 'JournalEntry' AND position >> 40 = (SELECT number FROM"
    where = f"({journal} partitions WHERE topic = 'orders.journal' AND partition = 7))"
    change(tmp_path / "log.db", f"DELETE FROM records WHERE position = {where}")  # noqa: S608
    async with open_log(url, make_shop(set())) as log:
        assert hurt_partition(log) == 7
        await order(log, "34")
        async with Runtime(log, ports={"gateway": Outside()}, stores=MemoryStores()) as runtime, asyncio.timeout(120):
            await runtime.idle()
            (stopped,) = runtime.damage.stopped.items()
        assert stopped[0] == ("orders", 7)
        assert "orders.changelog/7/" in stopped[1]
        assert "orders.journal/7/" in stopped[1]
        assert "eventlib repair" in stopped[1]
        assert await charged(log) == {*KEYS, "34"}
        (damaged,) = (await StatusReader(log).read()).damaged
        assert "orders.changelog/7/" in damaged
        report = await replay(log)
        assert report.same, report.first or report.unknown
        assert any("orders.journal/7/" in each for each in report.damaged)
    assert "task orders/7 has stopped" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE state SET value = replace(CAST(value AS BLOB), x'02', x'06') WHERE key = 'state/order/3'",
        "UPDATE state SET value = x'00' WHERE key = 'position' AND partition = 7",
        "UPDATE tasks SET checkpoint = checkpoint + 1 WHERE partition = 7",
    ],
)
async def test_a_damaged_store_is_thrown_away_and_restored(
    tmp_path: Path, sql: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await run(log)
    change(tmp_path / "log.db.state" / "orders.db", sql)
    async with open_log(url, make_shop(set())) as log:
        await log.publish(Ordered(order_id="3", cents=7), idempotency_key="3 again")
        await order(log, "34")
        await run(log)
        assert await charged(log) == {*KEYS, "34"}
        charges = [each for each in await everything(log, "charges") if each.key == b"3" and each.type == "Charged"]
        assert [each.sequence for each in charges] == [3, 6]
    said = [each.getMessage() for each in caplog.records if "thrown away" in each.getMessage()]
    assert len([each for each in said if each.startswith("the state store")]) == 1
    assert "Traceback" not in caplog.text


async def test_a_damaged_beginning_of_a_journal_makes_nothing_differ(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await log.publish_many([Ordered(order_id=key, cents=5) for key in KEYS])
        await run(log)
        emitted = {(each.timestamp_ms, each.partition) for each in await everything(log, "notes")}
    assert len({at_ms for at_ms, _ in emitted}) < len(emitted), "no two tasks have emitted at the same time"
    change(tmp_path / "log.db", FIRST_ENTRY)
    async with open_log(url, make_shop(set())) as log:
        report = await replay(log)
        assert report.same, report.first or report.unknown
        assert [note for note in report.notes if "up to its damaged journal entry" in note]
        (damaged,) = report.damaged
        assert damaged.startswith("orders.journal/")
        partition = int(damaged.split("/")[1])
        (service,) = log.choreography.services
        readable = log.over(SkippingReader(log.port), log.codec)
        with pytest.raises(ContractError, match=r"its beginning cannot be read .* from offset 0 on"):
            await anext(TaskJournal(readable, service, partition).entries())
