"""The simulated outside world: seeded, at the rates that were set, and exact about what a key was for.

What a gateway and a carrier promise is in tests/contract/test_outside.py.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from eventlib.errors import OutcomeUnknown
from services.payment.ports import Charged, Declined, Refunded, Voided
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.simulation.ledger import Ledger, LedgerConflict
from services.simulation.systems import SimulatedCarrier, SimulatedGateway


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as opened:
        yield opened


async def test_a_conflict_says_what_the_key_was_for_and_what_is_held(ledger: Ledger) -> None:
    gateway, carrier = SimulatedGateway(ledger), SimulatedCarrier(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    await carrier.book("d", "1", "France")
    calls: list[tuple[Awaitable[object], str]] = [
        (gateway.charge("c", "1", 751, "GBP"), "charge c was for"),
        (gateway.refund("r", "c", 10_000, "GBP"), "holds 750"),
        (gateway.refund("s", "never charged", 1, "GBP"), "holds 0"),
        (carrier.book("d", "2", "France"), "parcel d was"),
    ]
    for call, sentence in calls:
        with pytest.raises(LedgerConflict, match=sentence):
            await call
    assert await gateway.refund("r", "c", 750, "GBP") == Refunded()
    assert await gateway.void("c") == Voided(0)
    with pytest.raises(LedgerConflict, match="refund r was for"):
        await gateway.refund("r", "c", 1, "GBP")


async def test_a_conflict_spoils_nobody_elses_call(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger)
    await gateway.charge("c", "1", 750, "GBP")
    answers = await asyncio.gather(
        gateway.charge("c", "1", 1, "GBP"), gateway.charge("d", "2", 1, "GBP"), return_exceptions=True
    )
    assert isinstance(answers[0], LedgerConflict)
    assert answers[1] == Charged()


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
