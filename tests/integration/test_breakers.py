"""Effects while their port is away: they wait, and use up no attempts; one of them tries for all."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from eventlib import OutcomeUnknown, Publication, Retry, Runtime, RuntimeConfig, open_log
from eventlib.runtime.breaker import BreakerState
from tests.handling import handle_all
from tests.integration.limited_shop import Charged, Ordered, Uncharged, said, shop

ORDERS = 40
CONFIG = RuntimeConfig(breaker_failures=5, breaker_pause_s=0.05, concurrent_effects=8)
RETRY = Retry(attempts=3, first_pause_s=0.01, jitter_s=0.01)


@dataclass
class Gateway:
    """A gateway that is away until it is told otherwise."""

    is_there: bool = False
    calls: Counter[str] = field(default_factory=Counter)

    async def charge(self, order_id: str) -> None:
        self.calls[order_id] += 1
        await asyncio.sleep(0)
        if not self.is_there:
            raise OutcomeUnknown("nobody there")


async def opened(runtime: Runtime) -> None:
    while runtime.breakers["gateway"] is BreakerState.CLOSED:
        await asyncio.sleep(0.005)


async def test_requests_wait_for_a_port_that_is_away_and_use_up_no_attempts() -> None:
    gateway = Gateway()
    async with open_log("memory://", shop({}, RETRY)) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(ORDERS)])
        async with Runtime(log, ports={"gateway": gateway}, config=CONFIG) as runtime, asyncio.timeout(120):
            assert runtime.breakers == {"gateway": BreakerState.CLOSED}
            await opened(runtime)
            await asyncio.sleep(0.5)
            # Eight were out when it opened, and then one at a time tries: at most every 50 ms.
            assert gateway.calls.total() <= 8 + 10
            assert len(await said(log, Uncharged)) == 0
            gateway.is_there = True
            await runtime.idle()
            assert runtime.breakers == {"gateway": BreakerState.CLOSED}
        assert len(await said(log, Charged)) == ORDERS


async def test_a_few_orders_alone_use_up_their_attempts() -> None:
    gateway = Gateway()
    async with open_log("memory://", shop({}, RETRY)) as log:
        await log.publish(Ordered(order_id="1"))
        await handle_all(log, ports={"gateway": gateway}, config=CONFIG)
        assert (len(await said(log, Uncharged)), gateway.calls) == (1, {"1": 3})


async def test_a_service_stops_at_once_while_its_requests_wait() -> None:
    gateway = Gateway()
    loop = asyncio.get_running_loop()
    async with open_log("memory://", shop({}, RETRY)) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(ORDERS)])
        async with Runtime(log, ports={"gateway": gateway}, config=CONFIG) as runtime, asyncio.timeout(120):
            await opened(runtime)
            began = loop.time()
        assert loop.time() - began < 2
        gateway.is_there = True
        await handle_all(log, ports={"gateway": gateway})
        assert len(await said(log, Charged)) == ORDERS


@pytest.mark.parametrize("failures", [0])
async def test_it_can_be_turned_off(failures: int) -> None:
    gateway = Gateway()
    config = RuntimeConfig(breaker_failures=failures)
    async with open_log("memory://", shop({}, RETRY)) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(ORDERS)])
        await handle_all(log, ports={"gateway": gateway}, config=config)
        assert (len(await said(log, Uncharged)), gateway.calls.total()) == (ORDERS, 3 * ORDERS)
