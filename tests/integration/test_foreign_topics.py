"""External topics through the runtime: their records become facts of ours, and what is wrong with them is told."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Meta, Service, Topic, open_log
from eventlib.cli import run
from eventlib.errors import ContractError, UnknownKey
from eventlib.external import Json, Text
from eventlib.model.record import Record
from eventlib.queries.state import state_of
from eventlib.replay import history, replay, scanner
from eventlib.runtime.parking.control import ParkedRetryRequested
from eventlib.runtime.parking.parked import parked_facts
from eventlib.runtime.records import JournalEntry, Step
from eventlib.values import now_ms
from tests.handling import handle_all
from tests.integration.reopening import everything

CLICKS = Topic("web.clicks", partitions=4)
LINES = Topic("lines", partitions=4)


class Clicked(Event, topic=CLICKS, key="user_id", external=Json()):
    user_id: str
    page: str


class Line(Event, topic=LINES, key=None, external=Text("text")):
    text: str


class Visited(Event, topic=Topic("visits", partitions=4), key="user_id", final=True):
    user_id: str
    page: str
    click_id: str


class Spoken(Event, topic=Topic("words", partitions=4), key="word", final=True):
    word: str


@dataclass(frozen=True)
class User:
    clicks: int = 0
    visits: int = 0


@dataclass(frozen=True)
class Nothing:
    """A task's lines have nothing to remember."""


def make_web(broken: set[str]) -> Choreography:
    users: Decider[User] = Decider("user", state=User, key="user_id")
    lines: Decider[Nothing] = Decider("line", state=Nothing, key=None)

    @users.evolve
    def evolve(user: User, event: Event) -> User:
        match event:
            case Clicked():
                return replace(user, clicks=user.clicks + 1)
            case Visited():
                return replace(user, visits=user.visits + 1)
            case _:
                return user

    @users.on(Clicked)
    def visit(_user: User, click: Clicked, meta: Meta) -> list[Visited]:
        if click.page in broken:
            raise RuntimeError("a bug in the handler")
        return [Visited(user_id=click.user_id, page=click.page, click_id=meta.id)]

    @lines.on(Line)
    def split(_nothing: Nothing, line: Line) -> list[Spoken]:
        return [Spoken(word=word) for word in line.text.split()]

    return Choreography("web", [Service("web", deciders=[users, lines])])


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", make_web(set())) as opened:
        yield opened


def click(user: str, page: str = "/", **changed: Any) -> Record:
    value = json.dumps({"user_id": user, "page": page, "agent": "x"}).encode()
    place = CLICKS.partition_of(user.encode())
    return Record("web.clicks", place, -1, now_ms(), user.encode(), value).replace(**changed)


async def steps_of(log: EventLog, service: str) -> list[Step]:
    entries = await everything(log, f"{service}.journal")
    return [step for entry in entries for step in log.codec.decode(JournalEntry, entry.value or b"").steps]


async def reasons(log: EventLog) -> list[str]:
    return [parked_facts(record)["reason"] for record in await everything(log, "web.parked")]


async def test_a_replay_decides_external_inputs_again_whatever_fits_into_memory(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.port.append([click("ada", f"/{number}") for number in range(20)])
    await handle_all(log)
    whole = await replay(log)
    assert whole.same
    assert whole.decisions == 20
    for bound in ("_KEPT", "_READ_AHEAD", "_LEAST"):
        monkeypatch.setattr(scanner, bound, 3)
    assert await replay(log) == whole


async def test_records_without_headers_have_their_place_as_id(log: EventLog) -> None:
    (offset,) = await log.port.append([click("ada")])
    await handle_all(log)
    (visited,) = await everything(log, "visits")
    place = f"web.clicks/{CLICKS.partition_of(b'ada')}/{offset}"
    assert (visited.causation_id, visited.correlation_id) == (place, place)
    assert log.decode(visited) == Visited(user_id="ada", page="/", click_id=place)
    assert (await state_of(log, "user", "ada")).state == User(clicks=1, visits=1)


async def test_a_key_that_only_the_value_has_and_one_that_only_the_record_has(log: EventLog) -> None:
    await log.port.append([click("ada", key=None), click("ada", value=b'{"page": "/b"}')])
    await handle_all(log)
    assert (await state_of(log, "user", "ada")).state == User(clicks=2, visits=2)


async def test_two_records_under_one_id_of_theirs_lead_to_facts_of_two_ids(log: EventLog) -> None:
    sent = click("ada", id="42", type="com.web.click", source="web", traceparent="not one")
    await log.port.append([sent, sent])
    await handle_all(log)
    visits = await everything(log, "visits")
    assert [visit.causation_id for visit in visits] == ["42", "42"]
    assert len({visit.id for visit in visits}) == 2
    assert all((visit.traceparent or "").startswith("00-") for visit in visits)


async def test_a_topic_that_is_not_partitioned_by_its_key_says_so_at_once(log: EventLog) -> None:
    home = CLICKS.partition_of(b"ada")
    elsewhere = (home + 1) % 4
    await log.port.append(
        [
            click("ada", partition=elsewhere),
            click("ada", key=None, partition=elsewhere),
            click("ada", key=b"a session"),
            click("bob"),
        ]
    )
    await handle_all(log)
    found = await reasons(log)
    assert len(found) == 3
    assert all("topic web.clicks is not partitioned by user_id" in reason for reason in found)
    assert all("Declare Clicked with key=None" in reason for reason in found)
    assert len(await everything(log, "visits")) == 1


async def test_what_cannot_be_read_is_parked_and_others_go_on(log: EventLog) -> None:
    far, after_all = 9_999_999_999_999_999, 7_258_118_400_000
    await log.port.append(
        [
            click("ada", value=b"\x89PNG"),
            click("cleo", timestamp_ms=far),
            click("cleo", timestamp_ms=after_all),
            click("fred", timestamp_ms=after_all - 1),
            click("dora", value=b'{"page": 1}'),
            click("eve", timestamp_ms=now_ms() + 10**9),
        ]
    )
    await handle_all(log)
    assert sorted(reason.split(":")[0].split(",")[0] for reason in await reasons(log)) == [
        "Clicked",
        "Clicked",
        f"its timestamp {after_all} is not in milliseconds since 1970",
        f"its timestamp {far} is not in milliseconds since 1970",
    ]
    visits = await everything(log, "visits")
    assert len(visits) == 2
    assert max(visited.timestamp_ms for visited in visits) < now_ms() + 10_000, (
        "somebody else's clock does not become ours"
    )


async def test_a_null_value_without_a_meaning_is_passed_over_and_its_key_goes_on(log: EventLog) -> None:
    await log.port.append([click("ada", "/1"), click("ada", value=None), click("ada", "/2")])
    await handle_all(log)
    assert await reasons(log) == []
    assert (await state_of(log, "user", "ada")).state == User(clicks=2, visits=2)
    (dropped,) = [step for step in await steps_of(log, "web") if step.kind == "drop"]
    assert "Clicked does not declare what that means" in dropped.detail
    assert (await replay(log)).same


async def test_a_null_value_is_the_event_that_its_class_declares() -> None:
    class Customer(Event, topic=Topic("crm", partitions=4), key="user_id", external=Json(), null={"page": "gone"}):
        user_id: str
        page: str

    users: Decider[User] = Decider("user", state=User, key="user_id")

    @users.on(Customer)
    def visit(_user: User, event: Customer, meta: Meta) -> list[Visited]:
        return [Visited(user_id=event.user_id, page=event.page, click_id=meta.id)]

    @users.evolve
    def evolve(user: User, event: Event) -> User:
        return replace(user, visits=user.visits + 1) if isinstance(event, Visited) else user

    async with open_log("memory://", Choreography("web", [Service("web", deciders=[users])])) as log:
        await log.port.append([click("ada", page).replace(topic="crm") for page in ("/1", "/2")])
        await log.port.append([click("ada", value=None).replace(topic="crm"), click("ada", "/3").replace(topic="crm")])
        await handle_all(log)
        visits = [log.decode(record) for record in await everything(log, "visits")]
        assert [getattr(visit, "page", "") for visit in visits] == ["/1", "/2", "gone", "/3"]
        assert await reasons(log) == []
        assert (await replay(log)).same


async def test_a_parked_record_keeps_its_place_behind_its_key(log: EventLog) -> None:
    broken = {"/bad"}
    choreography = make_web(broken)
    shaky = EventLog(log.port, log.codec, choreography)
    await log.port.append([click("ada", "/bad", key=None), click("ada", "/2", key=None), click("bob", "/3")])
    await handle_all(shaky)
    assert len(await everything(log, "visits")) == 1
    broken.clear()
    control = choreography.service("web").control
    request = log.codec.encode(ParkedRetryRequested("user", "ada"))
    await log.port.append([Record(control.name, control.partition_of(b"ada"), -1, now_ms(), b"ada", request)])
    await handle_all(shaky)
    visits = [log.decode(record) for record in await everything(log, "visits") if record.key == b"ada"]
    assert [visit.page for visit in visits if isinstance(visit, Visited)] == ["/bad", "/2"]
    assert len({record.id for record in await everything(log, "visits")}) == 3


async def test_a_keyless_topic_is_read_by_a_decider_without_a_key(log: EventLog) -> None:
    records = [Record("lines", n % 4, -1, now_ms(), b"k%d" % n, f"word{n} and".encode()) for n in range(20)]
    await log.port.append(records)
    await handle_all(log)
    words = [record.key for record in await everything(log, "words")]
    assert len(words) == 40
    assert words.count(b"and") == 20
    assert await reasons(log) == []


async def test_the_history_of_a_key_that_others_write_about(log: EventLog) -> None:
    await log.port.append([click("ada", key=None), click("bob"), click("ada", "/2", value=b"?"), click("ada", "/3")])
    await handle_all(log)
    handled, *parked = [step async for step in history(log, log.choreography.decider("user"), "ada")]
    assert (handled.kind, handled.after) == ("handled", User(clicks=1, visits=1))
    assert [said.event for said in handled.emitted] == [
        Visited(user_id="ada", page="/", click_id=f"web.clicks/{CLICKS.partition_of(b'ada')}/0")
    ]
    assert [step.kind for step in parked] == ["parked", "parked"]
    assert [step.reason for step in parked][1] == "waits behind an earlier input of its key"


async def test_a_decider_without_a_key_has_a_state_and_a_history_for_each_partition(log: EventLog) -> None:
    records = [Record("lines", n % 2, -1, now_ms(), b"k%d" % n, f"word{n}".encode()) for n in range(4)]
    await log.port.append(records)
    await handle_all(log)
    steps = [step async for step in history(log, log.choreography.decider("line"), "1")]
    assert [said.event for step in steps for said in step.emitted] == [Spoken(word="word1"), Spoken(word="word3")]
    assert (await state_of(log, "line", "1")).sequence == steps[-1].entry_after.sequence == 2
    with pytest.raises(UnknownKey, match="knows nothing of key '3'"):
        await state_of(log, "line", "3")
    for key in ("k1", "4"):
        with pytest.raises(ContractError, match=r"has no keys, but one state for each partition: .* from 0 to 3"):
            await state_of(log, "line", key)


def test_tail_shows_them_decoded(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/log.db"

    async def fill() -> None:
        async with open_log(url, WEB) as log:
            await log.port.append([click("ada"), click("bob", value=b"?")])

    asyncio.run(fill())
    app = f"{__name__}:WEB"
    assert run(["tail", "web.clicks", "--json", "--app", app, "--log", url]) == 0
    first, second = sorted(map(json.loads, capsys.readouterr().out.splitlines()), key=lambda line: str(line["key"]))
    assert (first["type"], first["data"]) == ("Clicked", {"user_id": "ada", "page": "/"})
    assert first["id"] == f"web.clicks/{first['partition']}/{first['offset']}"
    assert (second["type"], second["data"]) == ("Clicked", None)
    assert "the record is not JSON" in second["error"]


WEB = make_web(set())
