"""Finding sagas: what is found is what is on the log, whatever the order, the page, and the instance that answers."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlib import EventLog, open_log
from eventlib.console.reading import ConsoleIndex, SagaReader
from eventlib.queries.parked import ParkedQuery, parkings
from eventlib.search import QueryError, SagaQuery, SagaSearch, scan
from eventlib.search.compiling import compiled
from eventlib.search.language import parse_where
from eventlib.search.parked import parked_where
from tests.in_rows import change_row, in_rows
from tests.integration.parcels_app import APP, ParcelSubmitted
from tests.integration.parcels_log import send

TEN_S = 10.0
DAMAGE = """
UPDATE records SET value = ?, checksum = 1 WHERE position >> 40 = (SELECT number FROM partitions WHERE topic = ? AND partition = ?)
AND position & 0xffffffffff = ?
"""
SORTABLE = (
    "saga", "started_at", "last_at", "ended_at", "age", "duration", "country", "grams", "fee", "insured", "speed", "wanted_on",
    "packed_at", "litres", "note", "shelf",
)  # fmt: skip


@pytest.fixture
async def log(sent: tuple[str, list[ParcelSubmitted]]) -> AsyncIterator[EventLog]:
    async with open_log(sent[0], APP, read_only=True) as opened:
        yield opened


@pytest.fixture
async def search(log: EventLog, tmp_path: Path) -> AsyncIterator[SagaSearch]:
    async with SagaSearch(log, path=tmp_path / "sagas.db") as opened:
        assert await opened.caught_up(TEN_S)
        yield opened


async def found(search: SagaSearch, where: str, order_by: str = "saga", limit: int = 1_000) -> list[dict[str, Any]]:
    sagas, after = list[dict[str, Any]](), None
    while True:
        page = await search.page(SagaQuery(where, order_by, limit, after))
        sagas += page.sagas
        after = page.next
        if after is None:
            return sagas


async def keys(search: SagaSearch, where: str) -> set[str]:
    return {saga["saga"] for saga in await found(search, where)}


async def test_a_saga_is_found_by_what_was_declared(
    search: SagaSearch, sent: tuple[str, list[ParcelSubmitted]]
) -> None:
    taken = [each for each in sent[1] if each.note != "bug"]
    for where, holds in {
        "country = 'it''s'": lambda each: each.country == "it's",
        "country in ('日本', 'France') and not insured = true": lambda each: (
            each.country in {"日本", "France"} and not each.insured
        ),
        "grams >= 1099511627776": lambda each: each.grams >= 2**40,
        "fee < -0.5 or fee between 10 and 20.00": lambda each: each.fee < -0.5 or 10 <= each.fee <= 20,
        "speed = 'fast'": lambda each: each.speed == "fast",
        "wanted_on > '2026-01-03'": lambda each: each.wanted_on.isoformat() > "2026-01-03",
        "packed_at <= '2026-01-01T00:00:50Z'": lambda each: each.packed_at.timestamp() <= 1767225650,
        "litres > 1.5": lambda each: each.litres > 1.5,
        "note is null": lambda each: each.note is None,
        "label = 'A'": lambda each: "A" in each.labels,
        "label like '%!%' or label like 'C_'": lambda each: "C_" in each.labels,
        "label != 'A'": lambda each: "A" not in each.labels,
    }.items():
        expected = {each.parcel_id for each in taken if holds(each)}  # type: ignore[no-untyped-call]
        assert expected
        assert await keys(search, f"({where}) and country is not null") == expected, where


async def test_what_a_saga_waits_for_is_found(search: SagaSearch, sent: tuple[str, list[ParcelSubmitted]]) -> None:
    away = {each.parcel_id for each in sent[1] if each.note == "away"}
    parked = {each.parcel_id for each in sent[1] if each.note == "bug"}
    lost = {each.parcel_id for each in sent[1] if each.note == "lost"}
    assert await keys(search, "waiting_for = 'carrier'") == away == await keys(search, "waiting_kind = 'effect'")
    assert await keys(search, "waiting_for = 'parcel.late_at' and due_at > '2026-01-01'") == away
    assert (
        await keys(search, "parked_reason like '%KeyError%tariff%'")
        == parked
        == await keys(search, "waiting_kind = 'parked'")
    )
    assert await keys(search, "outcome = 'parcel_lost' and reason = 'water' and failures = 1") == lost
    assert await keys(search, "status = 'ended' and not outcome like '%lost%'") == {
        each.parcel_id for each in sent[1] if each.note is None
    }
    assert await keys(search, "outcome = 'open' and age < 1h and service = 'depot'") == away | parked
    assert not await keys(search, "status = 'overdue'")
    (one, *_) = await found(search, "waiting_for = 'carrier'")
    assert [each["kind"] for each in one["waits"]] == ["effect", "deadline"]
    assert one["waits"][0] | {"since": None} == {
        "kind": "effect", "name": "carrier", "service": "depot", "decider": "parcel", "since": None, "due_at": None, "reason": None, "command": None,
    }  # fmt: skip


async def test_between_two_bounds_an_index_leaves_few(search: SagaSearch) -> None:
    condition = compiled(parse_where("fee between 3 and 4"), search.catalogue, 0)
    few, *each = [
        search.db.execute(driver, {**condition.values, "most": 100}).fetchall() for driver in condition.drivers
    ]
    assert len(few) == len(await keys(search, "fee between 3 and 4")) < min(map(len, each))


async def test_a_page_that_looked_long_enough_says_where_to_go_on(
    search: SagaSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "ENOUGH_S", 0.0)
    monkeypatch.setattr(scan, "_LOOKS", 1)
    query, names = SagaQuery("failures = 0"), list[str]()
    while True:
        page = await search.full_page(query, 0.0)
        assert len(page.sagas) <= 1
        names += [saga["saga"] for saga in page.sagas]
        if page.next is None:
            break
        query = replace(query, after=page.next)
    assert names == [saga["saga"] for saga in (await search.full_page(SagaQuery("failures = 0", limit=100))).sagas]


@pytest.mark.parametrize("name", SORTABLE)
@pytest.mark.parametrize("direction", ["asc", "desc"])
async def test_pages_have_every_saga_once_in_every_order(search: SagaSearch, name: str, direction: str) -> None:
    whole = await found(search, "", f"{name} {direction}")
    assert len(whole) == 60 == len({saga["saga"] for saga in whole})
    for where in ("", "failures = 0"):  # the second one is served by no index
        expected = [saga["saga"] for saga in whole if not (where and saga["failures"])]
        assert [saga["saga"] for saga in await found(search, where, f"{name} {direction}", 7)] == expected
    shown = {"age": "age_ms", "duration": "duration_ms"}.get(name, name)
    values = [saga[shown] for saga in whole if saga[shown] is not None]
    assert values == sorted(values, reverse=direction == "desc")
    assert all(saga[shown] is None for saga in whole[len(values) :])


async def test_every_instance_answers_the_same_and_carries_on_with_the_page_of_another(
    log: EventLog, search: SagaSearch, tmp_path: Path
) -> None:
    async with SagaSearch(log, path=tmp_path / "other.db") as other:
        assert await other.caught_up(TEN_S)
        first = await search.page(SagaQuery("", "country", 25))
        second = await other.page(SagaQuery("", "country", 1_000, first.next))
        names = [saga["saga"] for saga in (*first.sagas, *second.sagas)]
        assert names == [saga["saga"] for saga in await found(search, "", "country")]
        assert first.position == second.position
        await other.rebuild()
        assert await other.caught_up(TEN_S)
        again = [{**saga, "age_ms": 0} for saga in await found(other, "")]
        assert again == [{**saga, "age_ms": 0} for saga in await found(search, "")]
        for where in ("label = 'A'", "waiting_for = 'carrier'"):
            assert await keys(other, where) == await keys(search, where) != set()


@pytest.mark.parametrize(
    ("where", "column", "says"),
    [
        ("contry = 'France'", 1, "did you mean country?"),
        ("country = 17", 11, "a text"),
        ("country = 'France' and grams > 'x'", 32, "a whole number"),
        ("grams = 1.5", 9, "no digits after the point"),
        ("grams = 99999999999999999999", 9, "more than grams can be"),
        ("fee = 1.001", 7, "2 digits after the point"),
        ("speed = 'quick'", 9, "slow, fast"),
        ("insured > true", 1, "no order"),
        ("packed_at > 'yesterday'", 13, "a time"),
        ("age > 5", 7, "a duration"),
        ("started_at is null", 1, "every one has"),
        ("country like 'a' like 'b'", 18, "cannot stand here"),
        ("country = 'France", 11, "no end"),
        ("country = 'a' or", 17, "ends too early"),
        ("country like '%a%b%c%d%e%f%g%h%i%j%k%'", 14, "10 %"),
        ("1 = 1", 1, "cannot stand here"),
        ("country = '\u202e'", 11, "control character"),
        ("(" * 5_000, 4_000, "4,000 characters"),
        ("(" * 1_000 + "grams=1" + ")" * 1_000, 1, "deep"),
        (" or ".join(["grams=1"] * 250), 200, "200 comparisons"),
    ],
)
async def test_an_error_has_its_place_and_says_what_is_known(
    search: SagaSearch, where: str, column: int, says: str
) -> None:
    with pytest.raises(QueryError, match=says) as caught:
        await search.page(SagaQuery(where))
    assert caught.value.column == column


@pytest.mark.parametrize("order_by", ["label", "steps", "nothing", "saga; drop table sagas", "saga desc desc", ""])
async def test_an_order_that_no_index_has_is_refused(search: SagaSearch, order_by: str) -> None:
    with pytest.raises(QueryError):
        await search.page(SagaQuery("", order_by))


async def test_what_is_parked_is_found_by_the_same_language(
    log: EventLog, sent: tuple[str, list[ParcelSubmitted]]
) -> None:
    parked = {each.parcel_id for each in sent[1] if each.note == "bug"}
    assert parked

    async def parked_keys(where: str) -> set[str]:
        return {each.key for each in await parkings(log, wanted=ParkedQuery(condition=parked_where(where)))}

    one = min(parked)
    assert await parked_keys("reason like '%KeyError%' and age < 1h and effect is null and waiting = 1") == parked
    assert await parked_keys(f"key = '{one}' and since > '2026-01-01' and service = 'depot'") == {one}
    assert await parked_keys(f"not key = '{one}'") == parked - {one}
    assert not await parked_keys("age > 1h or waiting > 1")
    with pytest.raises(QueryError, match="did you mean reason") as caught:
        parked_where("age > 1h and reasom = 'x'")
    assert caught.value.column == 14


async def test_a_damaged_event_leaves_the_others_of_its_saga_to_the_console(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, APP) as log:
        (lost, *_) = [each.parcel_id for each in await send(log, 30) if each.note == "lost"]
    async with open_log(url, APP, read_only=True) as log, ConsoleIndex(log, path=tmp_path / "index.db") as index:
        assert await index.caught_up(TEN_S)
        whole = await SagaReader(index).saga(lost, personal=True)
        assert whole is not None
        topic, partition, offset = whole.events[1].record.location
    change_row(in_rows(tmp_path / "log.db"), DAMAGE, b"\x00\xff", topic, partition, offset)
    async with open_log(url, APP, read_only=True) as log, ConsoleIndex(log, path=tmp_path / "index.db") as index:
        left = await SagaReader(index).saga(lost, personal=True)
        assert left is not None
        assert [each.record.event_id for each in left.events] == [
            each.record.event_id for each in whole.events if each.record.location != (topic, partition, offset)
        ]
