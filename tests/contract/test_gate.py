"""The gate: what would break is named before it is deployed, and nothing unregistered is written where that is asked."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlib import Choreography, Event, EventLog, Runtime, open_log
from eventlib.cli import run
from eventlib.codec.wire_format import FramedCodec
from eventlib.contracts.declared import named
from eventlib.contracts.preflight import open_epoch, register, verdict
from eventlib.errors import ContractError
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from tests.golden.contracts import first, second, third
from tests.golden.contracts.record import load

APP = "tests.golden.contracts.{}:post"


async def a_log(path: Path, *others: Record) -> Path:
    """Make a log of the first version."""
    port = await SqliteLog.open(path)
    await load("first", port, EventLog(port, FramedCodec(port), first.post))
    await port.append(others)
    await port.close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return asyncio.run(a_log(tmp_path / "log.db"))  # commands have event loops of their own


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_nothing_is_wrong_with_the_code_that_wrote_the_log(path: Path) -> None:
    async with open_log(f"sqlite:///{path}", first.post, read_only=True) as log:
        found = await verdict(log, sample=100)
    assert (found.problems, found.contracts, found.versions, found.decoded) == ((), 5, 5, 8)


async def test_each_broken_rule_names_event_field_and_what_to_do(path: Path) -> None:
    async with open_log(f"sqlite:///{path}", second.post, read_only=True) as log:
        found = await verdict(log, sample=100)
    assert [(each.name, each.against, each.field, each.rule) for each in found.problems] == [
        ("ParcelHandedIn", "version 1", "weight", "TYPE_MISMATCH"),
        ("ParcelHandedIn", "version 1", "speed", "MISSING_ENUM_SYMBOLS"),
        ("ParcelDelivered", "version 1", "signed", "READER_FIELD_MISSING_DEFAULT_VALUE"),
    ], "and nothing is wrong with the state: it is read by what comes after only"
    assert found.problems[2].remedy.startswith("keep it, since older code needs it; or put it into a new event type")


async def test_a_level_of_its_own_is_what_an_event_is_compared_by(path: Path) -> None:
    async with open_log(f"sqlite:///{path}", second.post, read_only=True) as log:
        await log.codec.registry.set_level("parcels-ParcelDelivered", "BACKWARD_TRANSITIVE")
        await log.codec.registry.set_level("parcels.requests-ParcelHandedIn", "NONE")
        assert (await verdict(log, sample=0)).problems == ()


async def test_nothing_is_registered_unless_all_of_it_is_right(path: Path) -> None:
    async with open_log(f"sqlite:///{path}", second.post, read_only=True) as log:
        problems, made = await register(log)
        assert len(problems) == 3
        assert made == []
        assert len(await log.codec.registry.versions("parcels-ParcelAccepted")) == 1, "not even this one, which fits"


async def test_a_new_version_of_a_contract_is_begun_on_purpose(path: Path) -> None:
    async with open_log(f"sqlite:///{path}", third.post, read_only=True) as log:
        await log.codec.registry.set_level("parcels-ParcelDelivered", "BACKWARD_TRANSITIVE")
        problems, _ = await register(log)
        assert [(each.name, each.rule) for each in problems] == [
            ("ParcelHandedIn", "NEW_CONTRACT_VERSION"),
            ("ParcelAccepted", "NEW_CONTRACT_VERSION"),
        ]
        with pytest.raises(ContractError, match="ParcelDelivered is version 1 of its contract, and no new one"):
            await open_epoch(log, named(log, "ParcelDelivered"))
        for name in ("ParcelHandedIn", "ParcelAccepted"):
            assert (await open_epoch(log, named(log, name))).version == 2
        assert [each.subject for each in (await register(log))[1]] == [
            "parcels-ParcelDelivered",
            "post.changelog-Parcel",
        ]
        assert (await verdict(log, sample=100)).problems == ()


async def test_what_stands_on_the_log_and_cannot_be_decoded_is_found(path: Path) -> None:
    port = await SqliteLog.open(path)
    (good,) = await port.read("parcels", 0, 0, 1)
    await port.append([good.replace(offset=-1, value=(good.value or b"")[:-3])])
    await port.close()
    async with open_log(f"sqlite:///{path}", first.post, read_only=True) as log:
        (problem,) = (await verdict(log, sample=100)).problems
        assert (problem.name, problem.against, problem.rule) == ("ParcelAccepted", "parcels/0/1", "UNDECODABLE")
        assert (await verdict(log, sample=0)).problems == ()


async def test_another_place_where_its_events_stand_is_looked_at_too(path: Path, tmp_path: Path) -> None:
    bad = Record("parcels", 3, -1, 1, b"3", b"\x00\x00\x00\x00\x63abc", type="ParcelAccepted")
    other = await a_log(tmp_path / "other.db", bad)
    here, there = (open_log(f"sqlite:///{each}", first.post, read_only=True) for each in (path, other))
    async with here as log, there as archive:
        found = await verdict(log, [archive], sample=10)
    assert [each.against for each in found.problems] == ["parcels/3/0"]
    assert found.decoded == 16


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is registered by itself."""
    monkeypatch.setenv("EVENTLIB_AUTO_REGISTER", "0")


@pytest.mark.usefixtures("asks")
async def test_a_producer_that_is_not_registered_fails_before_it_writes_anything(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(ContractError, match=r"ParcelHandedIn is not registered under .*`eventlib schemas register`"):
        async with open_log(url, first.post):
            pass
    async with open_log(url, first.post, read_only=True) as log:
        assert await log.codec.registry.subjects() == []
        assert await log.port.topics() == {}
        await register(log)
    async with open_log(url, first.post) as log, Runtime(log) as runtime:
        for event in first.story():
            await log.publish(event)
        await runtime.idle()
    async with open_log(url, first.post) as log:
        log.codec.encode(first.story()[0])


async def test_a_producer_that_cannot_read_the_log_fails_before_it_writes_anything(path: Path) -> None:
    class ParcelAccepted(Event, topic="parcels", key="parcel_id"):
        parcel_id: str
        price_cents: int  # no default, no alias, no upcaster

    async with open_log(f"sqlite:///{path}", first.post, read_only=True) as log:
        before = [await log.port.end(name, 0) for name in await log.port.topics()]
    with pytest.raises(ContractError, match=r"ParcelAccepted cannot read what version 1 .*price_cents.*@upcasts"):
        async with open_log(f"sqlite:///{path}", Choreography("post", [], facts=[ParcelAccepted])):
            pass
    async with open_log(f"sqlite:///{path}", first.post, read_only=True) as log:
        assert [await log.port.end(name, 0) for name in await log.port.topics()] == before


def commands(path: Path, app: str) -> Callable[..., int]:
    return lambda *words: run(["--app", APP.format(app), "--log", f"sqlite:///{path}", "schemas", *words])


def test_check_and_register_end_with_1_where_something_would_break(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands(path, "first")("check") == 0
    assert "5 contracts against 5 versions, 8 records decoded: nothing would break." in capsys.readouterr().out
    today = commands(path, "second")
    assert today("check") == 1
    assert "MISSING_ENUM_SYMBOLS" in capsys.readouterr().out
    assert today("check", "--json") == 1
    assert [each["field"] for each in told(capsys)] == ["weight", "speed", "signed"]
    assert today("register") == 1
    assert "nothing was registered" in capsys.readouterr().err


def test_list_show_diff_level_and_epoch(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    today = commands(path, "third")
    assert today("list", "--json") == 0
    assert {each["name"]: each["today"] for each in told(capsys)} == {
        "ParcelHandedIn": "changed",
        "DeliveryTold": "registered",
        "ParcelAccepted": "changed",
        "ParcelDelivered": "changed",
        "Parcel": "changed",
    }
    assert today("diff", "ParcelDelivered@1", "ParcelDelivered", "--json") == 0
    (found,) = told(capsys)
    assert [change["field"] for change in found["changes"]] == ["signed", "signature"]  # type: ignore[attr-defined]
    assert found["backward"] == []
    assert found["forward"]
    assert today("level", "ParcelDelivered", "BACKWARD_TRANSITIVE") == 0
    assert today("level", "ParcelDelivered", "BACKWARDS") == 1
    assert [today("epoch", name) for name in ("ParcelHandedIn", "ParcelAccepted")] == [0, 0]
    assert "ParcelHandedIn is version 2 of its contract from now on" in capsys.readouterr().out
    assert today("register") == 0
    assert today("check") == 0
    assert today("show", "ParcelAccepted@2") == 0
    capsys.readouterr()
    assert today("show", "ParcelAccepted@1") == 0
    assert json.loads(capsys.readouterr().out)["fields"][1] == {"name": "price", "type": "double"}
    assert today("show", "ParcelAccepted@9") == 1
    assert "no version '9': there are 1, 2" in capsys.readouterr().err
    assert today("show", "Nothing") == 1
    assert "has no event or state 'Nothing'" in capsys.readouterr().err


@pytest.mark.usefixtures("asks")
def test_contracts_are_registered_before_there_is_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = commands(tmp_path / "new.db", "first")
    assert new("check") == 1
    assert "there is no log" in capsys.readouterr().err
    assert new("register") == 0
    assert "5 schemas registered." in capsys.readouterr().out
    assert new("register") == 0
    assert new("check") == 0
    assert "5 contracts against 5 versions, 0 records decoded" in capsys.readouterr().out
