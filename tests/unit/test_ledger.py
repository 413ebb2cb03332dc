"""The ledger of the outside world: durable, shared, and cheap when many write at once."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.payment.ports import Charged, Declined, Voided
from services.simulation.ledger import Ledger
from services.simulation.systems import SimulatedGateway


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


async def test_the_ledger_survives_its_process(path: Path) -> None:
    with Ledger(path) as first:
        await SimulatedGateway(first).charge("c", "1", 750, "GBP")
    with Ledger(path) as second:
        assert await SimulatedGateway(second).void("c") == Voided(750)


async def test_two_owners_of_one_file_wait_for_each_other(ledger: Ledger, path: Path) -> None:
    with Ledger(path) as other:
        gateways = [SimulatedGateway(ledger), SimulatedGateway(other)]
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.ensure_future(g.charge(f"c{i}", "1", 1, "GBP")) for i, g in enumerate(gateways)]
        await asyncio.sleep(0.01)
        assert not any(charge.done() for charge in waiting)
        blocker.execute("COMMIT")
        blocker.close()
        assert await asyncio.gather(*waiting) == [Charged(), Charged()]


async def test_a_failed_write_is_told_to_all_who_wait(ledger: Ledger) -> None:
    def spoil(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO nowhere VALUES (1)")

    gateway = SimulatedGateway(ledger)
    charge = asyncio.ensure_future(gateway.charge("c", "1", 750, "GBP"))
    with pytest.raises(sqlite3.OperationalError):
        await ledger.write(spoil)
    with pytest.raises(sqlite3.OperationalError):
        await charge
    assert await gateway.charge("c", "1", 750, "GBP") == Charged()


async def test_a_ledger_in_memory_is_gone_when_it_is_closed() -> None:
    for _ in range(2):
        with Ledger(":memory:") as ledger:
            assert await SimulatedGateway(ledger).void("c") == Voided(0)
            assert await SimulatedGateway(ledger).charge("c", "1", 750, "GBP") == Declined("voided")


async def test_a_hundred_calls_at_once_share_transactions(ledger: Ledger) -> None:
    gateway = SimulatedGateway(ledger)

    async def customer(number: int) -> None:
        for n in range(20):
            await gateway.charge(f"{number}-{n}", f"{number}-{n}", 1, "GBP")

    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(*(customer(number) for number in range(100)))
    assert 2_000 / (loop.time() - started) > 2_500, "operations a second; a quiet machine makes more than 20,000"
