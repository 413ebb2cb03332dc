"""One text that finds sagas: what it may mean, a word of a payload, what completes a query, and examples in messages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.console.reading import ConsoleIndex
from eventlib.personal.secret_file import create_secret
from eventlib.search import QueryError, SagaQuery
from eventlib.search.completion import completed
from eventlib.search.meanings import bare_text, meanings
from eventlib.search.saga_file import saga_file
from eventlib.search.words import WordPage, find_word
from examples.letters import LetterSubmitted
from tests.integration.letters_app import FlakyPost
from tests.integration.letters_app import app as letters
from tests.integration.parcels_app import ParcelSubmitted
from tests.integration.test_saga_search import found
from tests.integration.test_saga_search import log as log  # noqa: PLC0414  a fixture

TEN_S = 10.0
Sent = tuple[str, list[ParcelSubmitted]]


@pytest.fixture
async def search(log: EventLog, tmp_path: Path) -> AsyncIterator[ConsoleIndex]:
    async with ConsoleIndex(log, path=tmp_path / "index.db") as opened:
        assert await opened.caught_up(TEN_S)
        yield opened


def wheres(search: ConsoleIndex, text: str) -> list[str]:
    """Return the queries that a text may mean, by each of which it finds something."""
    bare = bare_text(search, text)
    assert bare is not None
    return [each.where for each in meanings(search, bare)]


async def test_a_text_has_a_meaning_for_each_thing_that_has_it(search: ConsoleIndex, sent: Sent) -> None:
    assert wheres(search, "P0007") == ["saga = 'P0007'"]
    assert wheres(search, "P00") == ["saga like 'P00%'"]
    assert wheres(search, " it's ") == ["country = 'it''s'"]
    assert wheres(search, "日本") == ["country = '日本'"]
    assert wheres(search, "FAST") == ["speed = 'fast'"]
    assert wheres(search, "parcellost") == ["event_type = 'ParcelLost'"]
    assert wheres(search, "Parcel lost") == ["outcome = 'parcel_lost'"]
    assert wheres(search, "lost") == ["note = 'lost'"]
    assert wheres(search, "'C_'") == ["label = 'C_'"]
    assert wheres(search, "carrier") == ["waiting_for = 'carrier'"]
    grams = sent[1][0].grams
    assert f"grams = {grams}" in wheres(search, str(grams))
    event, story = search.rows("SELECT id, correlation_id FROM _events WHERE saga = 'P0007' AND type = 'ParcelTaken'")[
        0
    ]
    for text, where in ((event, f"event_id = '{event}'"), (story, f"correlation_id = '{story}'")):
        assert where in wheres(search, text)
        assert [saga["saga"] for saga in await found(search, where)] == ["P0007"]
    counts = {each.where: each.count for each in meanings(search, "lost")}
    assert counts == {"note = 'lost'": sum(each.note == "lost" for each in sent[1])}
    assert meanings(search, "nothing that is there") == []


@pytest.mark.parametrize(
    "text", ["", "status", "not status", "country = 'x'", "nothing = 1", "grams between 1 and 2", "("]
)
async def test_a_query_is_not_taken_for_a_text(search: ConsoleIndex, text: str) -> None:
    assert bare_text(search, text) is None


async def test_sagas_are_found_by_the_types_of_their_events(search: ConsoleIndex, sent: Sent) -> None:
    lost = {each.parcel_id for each in sent[1] if each.note == "lost"}
    assert {saga["saga"] for saga in await found(search, "event_type = 'ParcelLost'")} == lost
    labelled = {each.parcel_id for each in sent[1] if each.labels and each.note != "bug"}
    both = await found(search, "event_type = 'LabelPut' and not event_type = 'ParcelLost'")
    assert {saga["saga"] for saga in both} == labelled - lost


async def test_a_beginning_is_found_by_an_index(search: ConsoleIndex, sent: Sent) -> None:
    for where, begins in (("saga like 'P001%'", "P001"), ("saga like 'P%1_'", "P")):
        expected = {each.parcel_id for each in sent[1] if each.parcel_id[3] == "1"}
        assert {saga["saga"] for saga in await found(search, where)} == expected, begins


async def test_a_word_of_a_payload_is_found_the_newest_first(search: ConsoleIndex, sent: Sent) -> None:
    every = await find_word(search, "WATER", None, TEN_S, 1_000)
    lost = {each.parcel_id for each in sent[1] if each.note == "lost"}
    assert {(each.saga, each.type, each.field, each.text) for each in every.found} == {
        (parcel, "ParcelLost", "reason", "water") for parcel in lost
    }
    ((count,),) = search.rows("SELECT count(*) FROM _events")
    assert (every.looked_at, every.left, every.next, every.unread) == (count, 0, None, 0)
    pages, before = list[WordPage](), None
    while not pages or before is not None:
        pages.append(await find_word(search, "water", before, TEN_S, 3))
        before = pages[-1].next
    assert [hit for page in pages for hit in page.found] == every.found
    assert sum(page.looked_at for page in pages) == count


@pytest.mark.parametrize(
    ("word", "field"), [("österreich", "country"), ("日本", "country"), ("fast", "speed"), (str(2**40), "grams")]
)
async def test_words_are_found_in_texts_enums_and_whole_numbers(
    search: ConsoleIndex, sent: Sent, word: str, field: str
) -> None:
    page = await find_word(search, word, None, TEN_S, 1_000)
    expected = {each.parcel_id for each in sent[1] if str(getattr(each, field)).casefold() == word}
    assert {hit.saga for hit in page.found} == expected != set()
    assert {hit.field for hit in page.found} == {field}


async def test_the_word_search_is_bounded_in_time(search: ConsoleIndex) -> None:
    page = await find_word(search, "water", None, 0, 1_000)
    assert (page.found, page.looked_at, page.next) == ([], 0, None)


async def test_personal_fields_are_never_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_secret(tmp_path / "master")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path}/master")
    async with open_log(f"sqlite:///{tmp_path}/log.db", letters) as log:
        async with Runtime(log, ports={"post": FlakyPost()}) as runtime:
            await log.publish(
                LetterSubmitted(
                    letter_id="L1", customer_id="c-17", name="Grace", street="Compiler Road", city="Arlington"
                )
            )
            await runtime.idle()
        async with ConsoleIndex(log) as index:
            assert await index.caught_up(TEN_S)
            for word in ("Grace", "grace", "Compiler", "Arlington"):
                assert (await find_word(index, word, None, TEN_S, 100)).found == []
                assert meanings(index, word) == []
            assert {hit.field for hit in (await find_word(index, "c-17", None, TEN_S, 100)).found} == {"customer_id"}


@pytest.mark.parametrize(
    ("text", "kept", "has"),
    [
        ("cou", "", "country"),
        ("country ", "country ", "like"),
        ("country =", "country = ", "'it''s'"),
        ("country = 'it", "country = ", "'it''s'"),
        ("country in ('日本', 'fr", "country in ('日本', ", "'France'"),
        ("insured = ", "insured = ", "true"),
        ("speed = 's", "speed = ", "'slow'"),
        ("grams = 1 a", "grams = 1 ", "and"),
        ("grams = 1 or not la", "grams = 1 or not ", "label"),
        ("label = ", "label = ", "'100%'"),
        ("event_type = 'parcell", "event_type = ", "'ParcelLost'"),
        ("waiting_kind = ", "waiting_kind = ", "'paused'"),
        ("Fra", "", "country = 'France'"),
        ("P00", "", "saga = 'P0000'"),
        ("ParcelL", "", "event_type = 'ParcelLost'"),
    ],
)
async def test_a_query_is_completed(search: ConsoleIndex, text: str, kept: str, has: str) -> None:
    stays, options = completed(search, text)
    assert stays == kept
    assert has in [each.text for each in options]


@pytest.mark.parametrize("text", ["country = 'x' 'y'", "country = = ", "nothing = ", "grams = 'x' and ) "])
async def test_what_cannot_continue_has_no_completion(search: ConsoleIndex, text: str) -> None:
    assert completed(search, text)[1] == []


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("country = 17", r"country is a text, in single quotes: write '17' \(one that there is: '"),
        ("country = France", "write texts in single quotes: 'France'"),
        ('country = "it\'s"', "write texts in single quotes: 'it''s'"),
        ("speed = 17", "speed is a text, in single quotes: write 'slow'"),
        ("wanted_on = 17", r"wanted_on is a date: write '2026-01-0\d'"),
        ("fee = 'x'", r"fee is a number: write -?\d+\.\d\d$"),
        ("age > 5", "age is a duration: write 90s, 15m, 2h or 1.5d"),
    ],
)
async def test_an_example_in_a_message_is_a_value_of_the_attribute(search: ConsoleIndex, where: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        await search.page(SagaQuery(where))


async def test_a_file_has_all_pages_and_no_formula(
    search: ConsoleIndex, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.search.saga_file._AT_ONCE", 7)
    parts = [part async for part in await saga_file(search, SagaQuery("", "saga asc"), [], "txt")]
    assert len(parts) > 60 // 7
    assert "".join(parts).split() == sorted(each.parcel_id for each in sent[1])
    search.db.execute("UPDATE _sagas SET country = '=1+1', grams = -5 WHERE saga = 'P0001'")
    attributes = [search.catalogue.named(name, 0) for name in ("country", "grams", "packed_at")]
    text = "".join([part async for part in await saga_file(search, SagaQuery("saga = 'P0001'"), attributes, "csv")])
    assert "P0001,'=1+1,-5,2026" in text


async def test_others_are_answered_between_the_pages_of_a_file(
    search: ConsoleIndex, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.search.saga_file._AT_ONCE", 1)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    answered = asyncio.create_task(other())
    try:
        parts = [part async for part in await saga_file(search, SagaQuery(), [], "txt")]
    finally:
        answered.cancel()
    assert turns >= len(parts) == len(sent[1])
