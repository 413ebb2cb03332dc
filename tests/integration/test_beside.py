"""The current code beside services that run: what operators do meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.proof import Expected
from eventlib.proof.beside import Beside, LiveProof
from eventlib.queries.parked import parkings
from tests.apps.small_shop import Ordered, Outside, make_shop, retry
from tests.integration.reopening import everything


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", make_shop(set())) as log:
        yield log


@asynccontextmanager
async def beside(log: EventLog) -> AsyncIterator[tuple[Beside, list[str]]]:
    printed = list[str]()
    async with Beside(log, log.choreography.services, Expected(Path("none"), {}), printed.append) as made:
        yield made, printed


async def parked(log: EventLog, count: int) -> None:
    async with asyncio.timeout(60):
        while len(await parkings(log)) != count:
            await asyncio.sleep(0.01)


async def deadline_passed(log: EventLog, count: int) -> None:
    async with asyncio.timeout(60):
        while len(await everything(log, "expiries")) < count:
            await asyncio.sleep(0.01)


async def test_what_operators_do_meanwhile_is_no_difference(log: EventLog) -> None:
    """Inputs that are parked and retried, deadlines, and answers of effects that fail first."""
    broken = {"parked"}
    running = log.over(log.port, log.codec)
    running.choreography = make_shop(broken)
    outside = Outside(fails={"late": 2}, gate=asyncio.Event())
    assert outside.gate is not None
    async with Runtime(running, ports={"gateway": outside}) as runtime:
        await log.publish(Ordered(order_id="before", cents=1, patience_s=0.3))
        await deadline_passed(log, 1)
        async with beside(log) as (shadow, printed):
            proving = asyncio.create_task(shadow.prove(3.0))

            for key in ("parked", "late", "a", "b", "parked"):
                await log.publish(Ordered(order_id=key, cents=2, patience_s=0.2))
            await parked(log, 1)
            broken.clear()
            await retry(log, "order", "parked")
            await parked(log, 0)
            await deadline_passed(log, 4)
            outside.gate.set()
            await runtime.idle()
            await log.publish(Ordered(order_id="a", cents=3))
            proof: LiveProof = await proving
    assert printed == []
    assert (proof.objections, proof.found.groups) == ((), ())
    assert proof.found.decisions > 8
    assert "orders/order.expire on expires_at" not in proof.unexercised
