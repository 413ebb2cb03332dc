"""A state that cannot be written parks the input that leads to it: other keys of its task, and other services, go on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.log.base import Claim
from eventlib.log.kafka.failures import Code, failure
from eventlib.log.memory import MemoryLog
from eventlib.log.rules import stored_bytes
from eventlib.model.record import Record
from eventlib.queries.parked import parkings
from eventlib.queries.state import state_of
from eventlib.replay import replay


class Paid(Event, topic="paid", key="account", request=True):
    account: str
    cents: int
    what: str = ""


class Booked(Event, topic="booked", key="account"):
    account: str
    cents: int
    what: str = ""


@dataclass(frozen=True)
class Account:
    cents: int = 0
    what: str = ""
    since: datetime | None = None


accounts = Decider("account", state=Account, key="account")


PAST, END = datetime(2026, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
AFTER: dict[str, Account] = {
    "of another type": cast("Account", SimpleNamespace(cents=1, since=None)),
    "too large": Account(1, "x" * 65_000_000),
    "with a deadline out of range": Account(1, since=END),
    "with a deadline": Account(1, since=PAST),
}


@accounts.evolve
def evolve(account: Account, event: Event) -> Account:
    match event:
        case Paid(what=what) if what in AFTER:
            return AFTER[what]
        case Paid(cents=cents):
            return replace(account, cents=account.cents + cents)
        case Booked(cents=-1):
            return Account(2**63)
        case _:
            return account


@accounts.on
def book(_account: Account, paid: Paid) -> list[Booked]:
    what = "x" * 30_000 if paid.what == "described at length" else ""
    return [Booked(account=paid.account, cents=paid.cents, what=what)]


@accounts.deadline
def reminder_at(account: Account) -> datetime | None:
    return account.since and account.since + timedelta(days=1)


@reminder_at.passed
def remind(_account: Account) -> list[Booked]:
    return [Booked(account="b", cents=-1)]


app = Choreography("unfit", [Service("books", deciders=[accounts])])


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db" if request.param == "sqlite" else "memory://", app) as opened:
        yield opened


async def paid(log: EventLog, **fields: Any) -> None:
    """Let accounts a and c be paid, and between them what cannot be written, all in one transaction."""
    await log.publish(Paid(account="a", cents=1), idempotency_key="a")
    await log.publish(Paid(account="b", **fields), idempotency_key="b 1")
    await log.publish(Paid(account="b", cents=5), idempotency_key="b 2")
    await log.publish(Paid(account="c", cents=2), idempotency_key="c")
    async with Runtime(log) as runtime, asyncio.timeout(120):
        while not await parkings(log):
            await asyncio.sleep(0.01)
        await runtime.idle()


@pytest.fixture
async def kafka_log(kafka_url: str) -> AsyncIterator[EventLog]:
    async with open_log(kafka_url, app) as opened:
        yield opened


async def test_on_kafka_others_go_on_too(kafka_log: EventLog) -> None:
    await paid(kafka_log, cents=1, what="of another type")
    (parking,) = await parkings(kafka_log)
    assert (parking.key, parking.reason.partition(" returned")[0]) == ("b", "ContractError: evolve of decider account")
    for key, cents in (("a", 1), ("c", 2)):
        assert (await state_of(kafka_log, "account", key)).state == Account(cents)
    assert (await replay(kafka_log)).same


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("with a deadline out of range", "OverflowError: date value out of range"),
        ("of another type", "ContractError: evolve of decider account returned a SimpleNamespace, and the state is a"),
        ("too large", "ContractError: the state of account for this key has 65,0"),
        ("with a deadline", "reminder_at: ContractError: Account.cents does not fit its schema"),
    ],
)
async def test_its_input_is_parked_and_others_go_on(log: EventLog, what: str, reason: str) -> None:
    await paid(log, cents=1, what=what)
    (parking,) = await parkings(log)
    assert (parking.decider, parking.key) == ("account", "b")
    assert parking.reason.startswith(reason), parking.reason
    for key, cents in (("a", 1), ("c", 2)):
        assert (await state_of(log, "account", key)).state == Account(cents)
    report = await replay(log)
    assert report.same, report.first


async def test_a_number_that_grows_out_of_its_schema_stays_at_the_last_one_that_fits(log: EventLog) -> None:
    await paid(log, cents=2**63 - 1)
    (parking,) = await parkings(log)
    assert parking.reason.startswith("ContractError: Account.cents does not fit its schema")
    assert (await state_of(log, "account", "b")).state == Account(2**63 - 1)
    assert (await replay(log)).same


async def test_an_event_that_the_broker_refuses_though_its_topic_is_declared_larger_parks_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = MemoryLog.append

    async def refusing(port: MemoryLog, records: Sequence[Record], claim: Claim | None = None) -> Sequence[int]:
        if claim is not None and any(stored_bytes(each) > 20_000 for each in records if each.topic == "booked"):
            raise failure(Code.MESSAGE_TOO_LARGE, "appending to booked/0")
        return await append(port, records, claim)

    monkeypatch.setattr(MemoryLog, "append", refusing)
    async with open_log("memory://", app) as log:
        await paid(log, cents=1, what="described at length")
        (parking,) = await parkings(log)
        assert parking.key == "b"
        assert "MESSAGE_TOO_LARGE" in parking.reason
        for key, cents in (("a", 1), ("c", 2)):
            assert (await state_of(log, "account", key)).state == Account(cents)
        assert (await replay(log)).same
