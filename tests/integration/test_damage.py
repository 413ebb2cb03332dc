"""An input that is damaged on the disk is parked or passed over, named with its place, and stops nothing else."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import DamagedRecord
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.queries.parked import parkings
from eventlib.replay import Report, replay
from services import shop
from tests.apps.small_shop import Ordered, make_shop, settle
from tests.integration.damaging import BEYOND_PROOF, KEYS, change, charged, everything, hurt, order, steps, topics_in
from tests.integration.shop_log import fill_ended
from tests.operators import request_discard, request_retry

NOWHERE = "UPDATE records SET value = x'00', subject = 'b', key = x'01' WHERE id = ?"
SAME_KEY = "UPDATE records SET value = x'00ff', type = 'x' WHERE id = ?"
GONE = "DELETE FROM records WHERE id = ?"

INSERT = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


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
        report = await settle(log)
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
        await settle(log)
        assert len(await parkings(log)) == 1
        await request_discard(log, parking, "ada", "published anew")
        await order(log, "33")
        await settle(log)
        assert await parkings(log) == []
        assert await charged(log) == {*KEYS, "33"} - {"3"}


@asynccontextmanager
async def retried_once_repaired(path: Path, sql: str, record_id: str | None) -> AsyncIterator[EventLog]:
    """Give a log on which an input was damaged and parked, repaired, and handled by a retry."""
    with closing(sqlite3.connect(path)) as connection:
        written = connection.execute("SELECT * FROM records WHERE id = ?", (record_id,)).fetchone()
    change(path, sql, record_id)
    async with open_log(f"sqlite:///{path}", make_shop(set())) as log:
        await settle(log)
        change(path, INSERT, *written)
        (parking,) = await parkings(log)
        await request_retry(log, parking, "ada")
        await settle(log)
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


async def test_a_record_that_is_no_event_is_passed_over_also_once_it_was_damaged_and_repaired(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, "3")
        (first,) = await everything(log, "orders.requests")
        await log.port.append([first.replace(id="foreign", type="Probe", value=b"probe", key=b"4", headers=())])
    async with retried_once_repaired(tmp_path / "log.db", SAME_KEY, "foreign") as log:
        assert await parkings(log) == []
        assert await charged(log) == {"3"}


async def test_what_a_repaired_input_causes_is_no_younger_than_it(tmp_path: Path) -> None:
    """Its service's clock is minutes ahead, and nobody could read that when it was parked."""
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, "3")
        (first,) = await everything(log, "orders.requests")
        ahead = first.replace(timestamp_ms=first.timestamp_ms + 240_000, id="ahead", headers=())
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
        await settle(log)
        hurt = next(each for each in await everything(log, "orders.requests") if each.key == b"3")
    change(tmp_path / "log.db", NOWHERE, hurt.id)
    async with open_log(url, make_shop(set())) as log:
        report = await settle(log)
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


NOT_REPLAYED = re.compile(r"_schemas$|\.(changelog|parked|latest)$")
HURT = "UPDATE records SET value = x'00' WHERE position = ?"


async def replayed(path: Path) -> Report:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        return await replay(log)


async def filled(directory: Path) -> dict[int, str]:
    """Fill a log, each record of which has a row, and return the topics of all of them by their positions."""
    async with open_log(f"sqlite:///{directory / 'log.db'}", shop) as log:
        await fill_ended(log)
    return topics_in(directory)


async def replayed_damaged(directory: Path, sql: str, position: int) -> Report:
    with hurt(directory, position, sql) as file:
        return await replayed(file)


async def test_a_replay_names_what_is_damaged_and_compares_the_rest(tmp_path: Path) -> None:
    topics = await filled(tmp_path)
    whole, compared = await replayed(tmp_path / "log.db"), list[int]()
    for position, topic in topics.items():
        if NOT_REPLAYED.search(topic):
            continue
        report = await replayed_damaged(tmp_path, HURT, position)
        assert report.same, (topic, report.first or report.unknown)
        assert [each.split("/")[0] for each in report.damaged] == [topic]
        compared.append(report.decisions)
    assert len(compared) > 50
    assert all(0 < each <= whole.decisions for each in compared)
    assert min(compared) < whole.decisions


@pytest.mark.extended
async def test_a_damaged_schema_that_the_code_still_has_is_proved_by_its_checksum(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled(tmp_path)).items() if topic == "_schemas"]
    whole = await replayed(tmp_path / "log.db")
    for position in schemas:
        assert await replayed_damaged(tmp_path, HURT, position) == whole
    assert len(schemas) > 50


@pytest.mark.extended
async def test_what_a_lost_schema_has_written_is_unknown_and_does_not_differ(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled(tmp_path)).items() if topic == "_schemas"]
    whole, lost = await replayed(tmp_path / "log.db"), 0
    for position in schemas:
        report = await replayed_damaged(tmp_path, BEYOND_PROOF, position)
        assert report.same, (position, report.first or report.unknown)
        if report != whole:
            assert [each.split("/")[0] for each in report.damaged] == ["_schemas"]
            assert 0 < report.decisions < whole.decisions
            assert all(" is not compared where a schema is damaged" in note for note in report.notes)
            lost += 1
    assert lost > 10
