"""The simulated outside world: idempotent, seeded, and honest about what really happened."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlib.errors import OutcomeUnknown
from services.dispatch.ports import Booked, Carrier, Recalled, Undeliverable
from services.payment.ports import Charged, Declined, Gateway, Refunded, Voided
from services.simulation.carrier import SimulatedCarrier
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.simulation.gateway import SimulatedGateway
from services.simulation.ledger import Ledger, LedgerConflict


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


def rows(path: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


async def test_a_charge_is_made_once_however_often_it_is_asked(ledger: Ledger, path: Path) -> None:
    gateway: Gateway = SimulatedGateway(ledger)
    answers = [await gateway.charge("c", "1", 750, "GBP") for _ in range(3)]
    assert answers == [Charged()] * 3
    query = "SELECT key, order_id, amount_cents, currency, outcome, reason FROM charges"
    assert rows(path, query) == [("c", "1", 750, "GBP", "taken", "")]


@pytest.mark.parametrize("other", [("1", 751, "GBP"), ("1", 750, "EUR"), ("2", 750, "GBP")])
async def test_a_key_is_for_one_charge(ledger: Ledger, other: tuple[str, int, str]) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    with pytest.raises(LedgerConflict, match="charge c was for"):
        await gateway.charge("c", *other)


async def test_a_conflict_spoils_nobody_elses_call(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    answers = await asyncio.gather(
        gateway.charge("c", "1", 1, "GBP"), gateway.charge("d", "2", 1, "GBP"), return_exceptions=True
    )
    assert isinstance(answers[0], LedgerConflict)
    assert answers[1] == Charged()


async def test_a_declined_charge_stays_declined(ledger: Ledger) -> None:
    declining = SimulatedGateway(ledger, GatewayFaults(decline=1.0))
    assert await declining.charge("c", "1", 750, "GBP") == Declined("declined")
    assert await SimulatedGateway(ledger).charge("c", "1", 750, "GBP") == Declined("declined")
    assert await declining.void("c") == Voided(0)


async def test_a_void_returns_the_money_and_refuses_the_key_for_ever(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    assert [await gateway.void("c"), await gateway.void("c")] == [Voided(750)] * 2
    assert await gateway.charge("c", "1", 750, "GBP") == Declined("voided")


async def test_a_charge_that_lands_after_its_void_is_declined(ledger: Ledger, path: Path) -> None:
    gateway = SimulatedGateway(ledger)
    assert await gateway.void("c") == Voided(0)
    assert await gateway.charge("c", "1", 750, "GBP") == Declined("voided")
    assert rows(path, "SELECT * FROM charges") == []


async def test_a_refund_is_made_once_for_each_key(ledger: Ledger, path: Path) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    assert [await gateway.refund("r", "c", 750, "GBP") for _ in range(2)] == [Refunded()] * 2
    assert rows(path, "SELECT key, charge_key, amount_cents FROM refunds") == [("r", "c", 750)]
    assert await gateway.void("c") == Voided(0)
    with pytest.raises(LedgerConflict, match="refund r was for"):
        await gateway.refund("r", "c", 1, "GBP")


@pytest.mark.parametrize("amount_cents", [751, 10_000])
async def test_no_more_is_refunded_than_was_taken(ledger: Ledger, amount_cents: int) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    with pytest.raises(LedgerConflict, match="holds 750"):
        await gateway.refund("r", "c", amount_cents, "GBP")
    with pytest.raises(LedgerConflict, match="holds 0"):
        await gateway.refund("s", "never charged", 1, "GBP")


async def test_an_answer_may_be_lost_after_the_charge_was_made(ledger: Ledger, path: Path) -> None:
    with pytest.raises(OutcomeUnknown, match="answer was lost"):
        await SimulatedGateway(ledger, GatewayFaults(lost=1.0)).charge("c", "1", 750, "GBP")
    assert rows(path, "SELECT outcome FROM charges") == [("taken",)]


async def test_a_call_may_never_arrive(ledger: Ledger, path: Path) -> None:
    with pytest.raises(OutcomeUnknown, match="no connection"):
        await SimulatedGateway(ledger, GatewayFaults(timeout=1.0)).charge("c", "1", 750, "GBP")
    assert rows(path, "SELECT * FROM charges") == []


async def test_a_call_that_arrives_twice_acts_once(ledger: Ledger, path: Path) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(duplicate=1.0))
    assert await gateway.charge("c", "1", 750, "GBP") == Charged()
    assert await gateway.refund("r", "c", 750, "GBP") == Refunded()
    assert rows(path, "SELECT count(*) FROM charges") == rows(path, "SELECT count(*) FROM refunds") == [(1,)]


async def test_a_silent_gateway_never_answers_a_charge_but_its_void(ledger: Ledger, path: Path) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(silent=1.0))
    returned = list[int]()
    for order_id in map(str, range(40)):
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="no answer"):
                await gateway.charge(f"c{order_id}", order_id, 750, "GBP")
        returned.append((await gateway.void(f"c{order_id}")).returned_cents)
    assert set(returned) == {0, 750}, "half of the silent charges were made"
    assert rows(path, "SELECT count(*) FROM charges") == [(returned.count(750),)]


async def test_faults_pass_when_a_call_is_repeated(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(timeout=0.6, lost=0.3, duplicate=0.3))
    waiting = set(map(str, range(50)))
    for _ in range(100):
        for key in sorted(waiting):
            with suppress(OutcomeUnknown):
                assert await gateway.charge(key, key, 1, "GBP") == Charged()
                waiting.remove(key)
    assert not waiting


async def outcomes(path: Path, seed: int, order: list[int]) -> dict[int, str]:
    with Ledger(path) as ledger:
        gateway = SimulatedGateway(ledger, GatewayFaults(decline=0.3, timeout=0.3, lost=0.3), seed=seed)
        found = dict[int, str]()
        for number in order:
            try:
                found[number] = repr(await gateway.charge(f"c{number}", f"o{number}", 1, "GBP"))
            except OutcomeUnknown as error:
                found[number] = str(error)
        return found


async def test_the_same_seed_gives_the_same_outcomes_in_any_order(tmp_path: Path) -> None:
    numbers = list(range(60))
    first = await outcomes(tmp_path / "1.db", 7, numbers)
    assert await outcomes(tmp_path / "2.db", 7, numbers[::-1]) == first
    assert await outcomes(tmp_path / "3.db", 8, numbers) != first
    assert len({text.split(":")[0] for text in first.values() if "(" in text}) == 2


async def test_the_rate_of_declined_orders_is_the_one_that_was_set(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(decline=0.05))
    answers = await asyncio.gather(*(gateway.charge(str(i), str(i), 1, "GBP") for i in range(4_000)))
    assert 150 < answers.count(Declined("declined")) < 250


async def test_a_delay_is_kept(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(delay_s=0.02))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(*(gateway.charge(str(i), str(i), 1, "GBP") for i in range(20)))
    assert 0.02 < loop.time() - started < 1


async def test_a_parcel_is_booked_once(ledger: Ledger, path: Path) -> None:
    carrier: Carrier = SimulatedCarrier(ledger)
    answers = [await carrier.book("d", "1", "France") for _ in range(2)]
    assert answers == [Booked("P-d")] * 2
    query = "SELECT key, order_id, country, outcome, detail FROM parcels"
    assert rows(path, query) == [("d", "1", "France", "booked", "P-d")]
    with pytest.raises(LedgerConflict, match="parcel d was"):
        await carrier.book("d", "2", "France")


async def test_an_undeliverable_parcel_stays_so(ledger: Ledger) -> None:
    refusing = SimulatedCarrier(ledger, CarrierFaults(undeliverable=1.0))
    assert await refusing.book("d", "1", "France") == Undeliverable("undeliverable")
    assert await SimulatedCarrier(ledger).book("d", "1", "France") == Undeliverable("undeliverable")
    assert await refusing.recall("d") == Recalled()


@pytest.mark.parametrize(("departed", "answer"), [(0.0, Recalled()), (1.0, Booked("P-d"))])
async def test_a_booked_parcel_may_have_left_when_it_is_recalled(
    ledger: Ledger, departed: float, answer: Booked | Recalled
) -> None:
    carrier = SimulatedCarrier(ledger, CarrierFaults(departed=departed))
    await carrier.book("d", "1", "France")
    assert [await carrier.recall("d"), await carrier.recall("d")] == [answer] * 2


async def test_a_recalled_key_is_refused_for_ever(ledger: Ledger, path: Path) -> None:
    carrier = SimulatedCarrier(ledger)
    assert await carrier.recall("d") == Recalled()
    assert await carrier.book("d", "1", "France") == Undeliverable("recalled")
    assert rows(path, "SELECT outcome FROM parcels") == [("recalled",)]


async def test_a_silent_carrier_is_final_when_it_is_asked_to_cancel(ledger: Ledger) -> None:
    carrier = SimulatedCarrier(ledger, CarrierFaults(silent=1.0))
    answers = set[str]()
    for order_id in map(str, range(40)):
        with pytest.raises(OutcomeUnknown):
            await carrier.book(f"d{order_id}", order_id, "France")
        answers.add(type(await carrier.recall(f"d{order_id}")).__name__)
    assert answers == {"Booked", "Recalled"}


async def test_a_silent_gateway_says_nothing_about_the_carrier(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger, GatewayFaults(silent=0.5))
    carrier = SimulatedCarrier(ledger, CarrierFaults(silent=0.5))
    heard = set[tuple[bool, bool]]()
    for order_id in map(str, range(100)):
        paid = await answers(gateway.charge(order_id, order_id, 1, "GBP"))
        heard.add((paid, await answers(carrier.book(order_id, order_id, "France"))))
    assert len(heard) == 4


async def answers(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except OutcomeUnknown:
        return False
    return True


@pytest.mark.parametrize("wrong", [{"decline": 1.5}, {"timeout": -0.1}, {"delay_s": -1.0}])
def test_what_is_not_a_rate_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        GatewayFaults(**wrong)
