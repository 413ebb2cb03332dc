"""The history tables say what the library itself says of a log, at its end and at every moment, after any increments."""

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.history import Cut
from eventlib import open_log
from eventlib.personal.secret_file import create_secret
from eventlib.state.memory import MemoryStores
from examples import loyalty
from tests.analytics.as_recorded import (
    answers,
    histories_of,
    ms,
    passed_deadlines,
    pending_deadlines,
    periods_in,
    periods_of,
    some_keys,
    states_in,
    states_then,
    written_states,
)
from tests.analytics.enquiries import write_everything
from tests.analytics.folded import Folded
from tests.handling import handle_all

pytestmark = pytest.mark.usefixtures("spark")

SHOP, ENQUIRIES = "services:shop", "tests.analytics.enquiries:app"


@pytest.fixture(scope="module")
def shop(spark: SparkSession, shop_log: str, tmp_path_factory: pytest.TempPathFactory) -> Folded:
    return Folded(spark, shop_log, SHOP, tmp_path_factory.mktemp("shop-tables")).go_on()


@pytest.fixture(scope="module")
def enquiries_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("enquiries")
    create_secret(place / "master.key")
    url = f"sqlite:///{place}/log.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{place}/master.key")
        asyncio.run(write_everything(url))
    return url


@pytest.fixture(scope="module")
def enquiries(spark: SparkSession, enquiries_log: str, tmp_path_factory: pytest.TempPathFactory) -> Folded:
    return Folded(spark, enquiries_log, ENQUIRIES, tmp_path_factory.mktemp("tables")).go_on()


@pytest.fixture
def loyal(spark: SparkSession, shop_log: str, tmp_path: Path) -> Folded:
    """The shop's log, with a service that was added to it later."""
    for file in Path(shop_log.removeprefix("sqlite:///")).parent.glob("shop.db*"):
        if file.is_file():
            shutil.copy(file, tmp_path)
    url = f"sqlite:///{tmp_path}/shop.db"

    async def catch_up() -> None:
        async with open_log(url, loyalty.app) as log:
            await handle_all(log, services=["loyalty"], stores=MemoryStores())

    before = Folded(spark, url, "examples.loyalty:app", tmp_path / "tables").go_on()
    assert before.table("state_account") == before.table("state_purchase_history") == []
    asyncio.run(catch_up())
    return before.go_on()


@pytest.fixture(params=["enquiries", pytest.param("shop", marks=pytest.mark.extended)])
def folded(request: pytest.FixtureRequest) -> Folded:
    found: Folded = request.getfixturevalue(request.param)
    return found


def test_states_are_those_that_the_services_have_written(folded: Folded) -> None:
    written = folded.on_log(written_states)
    assert len(written) > 10
    assert states_in(folded) == written
    assert folded.table("fold_errors") == []


@pytest.mark.extended
def test_a_service_that_was_added_later_has_its_tables_from_its_first_increment_on(loyal: Folded) -> None:
    written = loyal.on_log(written_states)
    assert states_in(loyal) == written
    assert {decider for decider, _ in written} >= {"purchase", "account", "order"}
    assert {row["removed"] for row in loyal.table("state_purchase_history")} == {True, False}


def test_the_history_of_a_key_is_what_the_library_tells(folded: Folded) -> None:
    """Each state of some keys, since when and until when it was, which event has led to it."""
    keys = some_keys(folded, 25)
    for (decider, key), history in zip(keys, folded.on_log(lambda log: histories_of(log, keys)), strict=True):
        assert periods_in(folded, decider, key) == periods_of(history), (decider, key)


def test_at_any_moment_a_key_has_the_one_state_that_it_had_then(folded: Folded) -> None:
    asked, found, drawn = list[tuple[str, str, int]](), list[list[Any]](), Random(22)
    for decider, key in some_keys(folded, 12):
        periods = periods_in(folded, decider, key)
        times = sorted({at for _, first, last, *_ in periods for at in (first, last) if at is not None})
        between = [(first + last) // 2 for first, last in pairwise(times)]
        at = drawn.choice([times[0] - 1, *times, *between])
        asked.append((decider, key, at))
        found.append([state for state, first, last, *_ in periods if first <= at and (last is None or at < last)])
    assert found == folded.on_log(lambda log: states_then(log, asked))


def test_periods_leave_no_gap_and_do_not_overlap(folded: Folded) -> None:
    for decider in folded.fold.application.choreography.deciders:
        for key in {row["key"] for row in folded.table(f"state_{decider.name}_history")}:
            for before, after in pairwise(periods_in(folded, decider.name, key)):
                assert before[2] is not None, (decider, key)
                assert before[2] == after[1] or (before[4] and before[2] < after[1]), (decider, key)


def test_effects_end_as_the_events_on_the_log_say(folded: Folded) -> None:
    expected = folded.on_log(answers)
    rows = {row["id"]: row for row in folded.table("effects")}
    assert rows.keys() == expected.keys()
    for request_id, (request, answer) in expected.items():
        row = rows[request_id]
        assert (ms(row["requested_at"]), row["key"]) == (request.timestamp_ms, request.subject)
        if answer is None:
            assert row["outcome"] in {"open", "parked", "discarded"}
        else:
            latency_ms = answer.timestamp_ms - request.timestamp_ms
            assert (row["outcome"], row["latency_ms"]) == (answer.type, latency_ms)
            assert ms(row["answered_at"]) == answer.timestamp_ms


def test_an_effect_that_a_person_has_seen_to_tells_how_often_it_was_tried(enquiries: Folded) -> None:
    rows = {(row["key"], row["attempts"], row["outcome"]) for row in enquiries.table("effects")}
    assert {row for row in rows if not row[0].startswith(("plain", "bug"))} == {
        ("no-answer-retried", 2, "Priced"),
        ("cancelled", 2, "Priced"),
        ("no-answer-given-up", 1, "discarded"),
        ("no-answer", 1, "parked"),
        ("late", 1, "parked"),
    }


def test_what_was_parked_and_what_became_of_it(enquiries: Folded) -> None:
    inputs = [row for row in enquiries.table("parked") if row["input_type"] == "Enquired"]
    assert sorted((row["key"], row["how"] or "", row["attempts"], row["released_at"] is None) for row in inputs) == [
        ("bug-edited", "", 1, True),
        ("bug-edited", "edited", 1, False),
        ("bug-given-up", "", 1, True),
        ("bug-given-up", "discarded", 1, False),
        ("bug-retried", "retried", 0, False),
        ("bug-retried", "retried", 1, False),
        ("bug-waits", "", 0, True),
        ("bug-waits", "", 1, True),
    ]
    effects = [row for row in enquiries.table("parked") if row["input_type"] == "PriceRequested"]
    assert sorted((row["key"], row["how"] or "") for row in effects) == [
        ("cancelled", "retried"),
        ("late", ""),
        ("no-answer", ""),
        ("no-answer-given-up", "discarded"),
        ("no-answer-retried", "retried"),
    ]
    assert {row["saga"] == row["key"] for row in [*inputs, *effects]} == {True}


def test_deadlines_pass_or_are_cancelled_or_are_still_to_come(folded: Folded) -> None:
    passed = folded.on_log(passed_deadlines)
    rows = folded.table("deadlines")
    found = {(r["decider"], r["name"], r["key"], ms(r["due_at"])): ms(r["passed_at"]) for r in rows if r["passed_at"]}
    assert found == passed
    pending = {(decider, key) for decider, key, _, due in folded.on_log(pending_deadlines) for _ in due}
    assert {(r["decider"], r["key"]) for r in rows if not r["passed_at"] and not r["cancelled_at"]} == pending


def test_deadlines_of_each_kind_were_there(enquiries: Folded) -> None:
    rows = {r["key"]: (bool(r["passed_at"]), bool(r["cancelled_at"])) for r in enquiries.table("deadlines")}
    assert rows == {"late": (True, False), "cancelled": (False, True), "no-answer": (False, False)}


def test_personal_fields_are_in_no_table(enquiries: Folded) -> None:
    rows = [*enquiries.table("state_enquiry"), *enquiries.table("state_enquiry_history")]
    assert {row["name"] for row in rows} == {None}
    assert {row["person_id"] for row in rows} == {"p"}
    assert all(row["state_key"] == row["key"] for row in rows)


@pytest.mark.parametrize(
    ("seed", "cuts"),
    [
        pytest.param(1, 1, marks=pytest.mark.extended),
        *(pytest.param(n, 2, marks=pytest.mark.slow) for n in range(1, 8)),
    ],
)
@pytest.mark.parametrize("whole", ["enquiries", pytest.param("shop", marks=pytest.mark.slow)])
def test_increments_at_any_offsets_make_what_one_fold_makes(
    whole: str, seed: int, cuts: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Whatever a cut has of a transaction, and of some tasks nothing at all."""
    at_once: Folded = request.getfixturevalue(whole)
    in_steps = Folded(at_once.spark, at_once.url, at_once.app, tmp_path)
    drawn, ends = Random(seed), at_once.ends()
    shares = sorted(drawn.random() for _ in range(cuts))
    for share in shares:
        in_steps.go_on({place: int(end * min(1.0, share * drawn.uniform(0.8, 1.2))) for place, end in ends.items()})
    in_steps.go_on(ends)
    tables = in_steps.tables()
    for name, rows in at_once.tables().items():
        assert tables[name] == rows, name


def test_an_increment_goes_on_where_it_has_ended_and_reads_only_what_is_new(enquiries: Folded) -> None:
    fold, ends = enquiries.fold, enquiries.ends()
    positions = fold.positions(enquiries.carried())
    assert fold.active(positions, Cut(ends)) == []
    assert fold.begin(positions, Cut(ends)) == ends
    assert fold.begin({}, Cut(ends)) == dict.fromkeys(ends, 0)
