"""The history tables say what the library itself says of a log, at its end and at every moment, after any increments."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.history import Cut
from analytics.history.tables import RESERVED
from eventlib import EventLog, Runtime, open_log
from eventlib.codec.avro.derive import record_of
from eventlib.errors import UnknownKey
from eventlib.log.record import Record, key_text
from eventlib.model.decider import FORGET
from eventlib.model.event import contract_of
from eventlib.model.personal import personal_fields
from eventlib.personal.secret_file import create_secret
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.point_in_time import state_at
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import STATE, JournalEntry, state_name
from eventlib.state.memory import MemoryStores
from eventlib.values import from_ms, to_ms
from examples import loyalty
from tests.analytics.enquiries import write_everything
from tests.analytics.folded import Folded, Row
from tests.integration.test_runtime import everything

pytestmark = pytest.mark.usefixtures("spark")

SHOP, ENQUIRIES = "services:shop", "tests.analytics.enquiries:app"
Period = tuple[Any, int, int | None, str | None, bool]
"""A state as columns, since when and until when it was (ms), the event that has led to it, whether it was removed."""


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
        async with (
            open_log(url, loyalty.app) as log,
            asyncio.timeout(240),
            Runtime(log, services=["loyalty"], stores=MemoryStores()) as runtime,
        ):
            await runtime.idle()

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


@pytest.mark.parametrize(("seed", "cuts"), [(1, 1), *(pytest.param(n, 2, marks=pytest.mark.slow) for n in range(1, 8))])
@pytest.mark.parametrize("whole", ["enquiries", pytest.param("shop", marks=pytest.mark.extended)])
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


# --- what the library says


async def written_states(log: EventLog) -> dict[tuple[str, str], tuple[Any, str | None, int]]:
    """Return the newest state of each key as its service has written it, its event and time."""
    found = dict[tuple[str, str], tuple[Any, str | None, int]]()
    for service in log.choreography.services:
        for record in await everything(log, service.changelog.name):
            if not key_text(record).startswith(STATE):
                continue
            name, key = state_name(key_text(record))
            entry = entry_of(record, log.choreography.decider(name), log.codec) if record.value else None
            if entry is None:
                found.pop((name, key), None)
            elif (name, key) not in found or found[name, key][1] != entry.changed_by:
                # Else an effect of it was answered: that is written, too, and changes nothing yet.
                found[name, key] = shown(entry.state), entry.changed_by, record.timestamp_ms
    return found


async def histories_of(log: EventLog, keys: Sequence[tuple[str, str]]) -> list[KeyHistory]:
    return [await key_history(log, log.choreography.decider(decider), key) for decider, key in keys]


async def states_then(log: EventLog, asked: Sequence[tuple[str, str, int]]) -> list[list[Any]]:
    return [await state_then(log, *each) for each in asked]


async def state_then(log: EventLog, decider: str, key: str, at_ms: int) -> list[Any]:
    try:
        state = (await state_at(log, decider, key, from_ms(at_ms))).state
    except UnknownKey:
        return []
    return [] if state is None else [shown(state)]


async def answers(log: EventLog) -> dict[str, tuple[Record, Record | None]]:
    """Return each request of an effect on the log, with the event that its decider has said for it."""
    requests = {
        (f"{service.name}/{decider.name}", contract_of(request).type): {contract_of(e).type for e in effect.emits}
        for service in log.choreography.services
        for decider in service.deciders
        for request, effect in decider.effects.items()
    }
    topics = {contract_of(event).topic.name for event in log.choreography.events}
    records = [record for topic in sorted(topics) for record in await everything(log, topic)]
    by_cause = {(r.source, r.causation_id, r.type): r for r in records}
    found = dict[str, tuple[Record, Record | None]]()
    for record in records:
        kinds = requests.get((record.source or "", record.type or ""))
        if kinds is not None:
            told = [by_cause.get((record.source, record.id, kind)) for kind in kinds]
            found[record.event_id] = record, next((each for each in told if each is not None), None)
    return found


async def passed_deadlines(log: EventLog) -> dict[tuple[str, str, str, int], int]:
    found = dict[tuple[str, str, str, int], int]()
    for service in log.choreography.services:
        for record in await everything(log, service.journal.name):
            entry = log.codec.decode(JournalEntry, record.value or b"")
            for step in entry.steps:
                if step.kind == "deadline" and step.detail != FORGET:
                    found[step.decider, step.detail, step.key, step.first] = entry.at_ms
    return found


async def pending_deadlines(log: EventLog) -> list[tuple[str, str, int, list[str]]]:
    found = dict[tuple[str, str], list[str]]()
    for service in log.choreography.services:
        for record in await everything(log, service.changelog.name):
            if key_text(record).startswith(STATE):
                name, key = state_name(key_text(record))
                entry = entry_of(record, log.choreography.decider(name), log.codec)
                found[name, key] = [each for each in entry.due if each != FORGET]
    return [(decider, key, 0, due) for (decider, key), due in found.items()]


# --- what the tables say


def some_keys(folded: Folded, most: int) -> list[tuple[str, str]]:
    deciders = [decider.name for decider in folded.fold.application.choreography.deciders]
    keys = sorted({(name, row["key"]) for name in deciders for row in folded.table(f"state_{name}_history")})
    return keys if len(keys) <= most else Random(21).sample(keys, most)


def states_in(folded: Folded) -> dict[tuple[str, str], tuple[Any, str | None, int]]:
    return {
        (decider.name, row["key"]): (columns_of(folded, decider.name, row), row["changed_by"], ms(row["changed_at"]))
        for decider in folded.fold.application.choreography.deciders
        for row in folded.table(f"state_{decider.name}")
    }


def periods_in(folded: Folded, decider: str, key: str) -> list[Period]:
    far = 1 << 62
    found = [
        (
            columns_of(folded, decider, row),
            ms(row["valid_from"]),
            None if row["valid_to"] is None else ms(row["valid_to"]),
            row["changed_by"],
            row["removed"],
        )
        for row in folded.of_key(f"state_{decider}_history", key)
    ]
    return sorted(found, key=lambda each: (each[1], far if each[2] is None else each[2], repr(each)))


def periods_of(history: KeyHistory) -> list[Period]:
    found = list[Period]()
    for step in history.steps:
        at_ms, after = to_ms(step.at), step.entry_after
        if step.before == after.state:
            continue
        if step.before is not None:
            state, first_ms, _, by, _ = found.pop()
            found.append((state, first_ms, at_ms, by, after.state is None))
        if after.state is not None:
            found.append((shown(after.state), at_ms, None, after.changed_by, False))
    far = 1 << 62
    return sorted(found, key=lambda each: (each[1], far if each[2] is None else each[2], repr(each)))


def shown(state: Any) -> Any:
    """Return a state as a table has it."""
    hidden = personal_fields(type(state))
    values = {each.name: getattr(state, each.name) for each in fields(state)}
    return {
        f"state_{name}" if name in RESERVED else name: None if name in hidden else plain(value)
        for name, value in values.items()
    }


def columns_of(folded: Folded, decider: str, row: Row) -> Any:
    state = folded.fold.application.choreography.decider(decider).state
    names = [f"state_{each.name}" if each.name in RESERVED else each.name for each in record_of(state).fields]
    return {name: plain(row[name]) for name in names}


def plain(value: Any) -> Any:
    """Return a value with its times as numbers."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def ms(at: datetime) -> int:
    """Return a time of a row in ms: Spark gives it in the zone of this machine."""
    return round(at.timestamp() * 1_000)
