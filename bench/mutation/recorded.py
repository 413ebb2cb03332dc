"""What the corpus and the proof start from: a log of the shop, recorded once by the code as it is."""

import asyncio
import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.mutation.mutants import ROOT, SEED
from eventlib import open_log
from eventlib.proof.corpus import cut
from eventlib.simulation.scenario import drawn_from
from services import shop
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.simulation.scenario import ShopScenario
from tests.saga.running import RunningShop, Script, running_shop

BUILD = ROOT / "build" / "mutants"
LOG = BUILD / "log" / "shop.db"
CORPUS = BUILD / "corpus"
_ENDED = 40
_GATEWAY = GatewayFaults(decline=0.15, lost=0.1, silent=0.15)
_CARRIER = CarrierFaults(undeliverable=0.15, lost=0.1, silent=0.15)


def record() -> None:
    """Record the log and cut its corpus, unless both are there."""
    if not CORPUS.exists():
        shutil.rmtree(LOG.parent, ignore_errors=True)
        LOG.parent.mkdir(parents=True)
        asyncio.run(_record())


async def _record() -> None:
    with TemporaryDirectory() as directory:
        async with running_shop(f"sqlite:///{LOG}", Path(directory)) as running:
            running.set_faults(_GATEWAY, _CARRIER)
            async with running.services() as runtime:
                await _publish(running, _ENDED)
                await runtime.idle()
            running.set_faults()
            running.to_carrier.held = asyncio.Event()
            await _left(running, running.to_carrier, "book", "B")
            running.to_gateway.held = asyncio.Event()
            await _left(running, running.to_gateway, "charge", "C")
            await running.submit("W")
    async with open_log(f"sqlite:///{LOG}", shop, read_only=True) as log:
        await cut(log, CORPUS, 2_000, ROOT)


async def _left(running: RunningShop, script: Script, call: str, name: str) -> None:
    """Leave two orders where the outside does not answer; the customer of the second wants to cancel it since."""
    before = script.calls[call]
    async with running.services():
        await running.submit(f"{name}1", f"{name}2")
        await running.until_true(lambda: script.calls[call] == before + 2)
    await running.cancel(f"{name}2")


async def _publish(running: RunningShop, orders: int) -> None:
    random = Random(SEED)
    scenario, choose = ShopScenario(), drawn_from(random)
    requests = [*scenario.beginning(orders, choose), *scenario.requests(orders, choose)]
    for number, event in enumerate(requests):
        await running.log.publish(event, idempotency_key=f"request {number}")
        if random.random() < 0.5:
            await asyncio.sleep(0.02)  # what comes later meets orders that are farther on
