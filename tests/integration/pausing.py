"""Pause what the small shop does, and see what it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eventlib import EventLog, Runtime, RuntimeConfig
from eventlib.queries.pauses import PauseTarget
from tests.apps.small_shop import Noted, Ordered, Outside
from tests.integration.reopening import events

SERVICE = PauseTarget("orders")
DECIDER = PauseTarget("orders", "order")
CHARGES = PauseTarget("orders", effect="ChargeAsked")
KEY = PauseTarget("orders", "order", "a")
HOUR_S = 3_600
WHY = "os:ada", "the bank migrates"


async def ordered(log: EventLog, key: str, *cents: int, patience_s: float | None = None) -> None:
    for each in cents:
        await log.publish(Ordered(order_id=key, cents=each, patience_s=patience_s), idempotency_key=f"{key} {each}")


async def noted(log: EventLog) -> list[str]:
    return [event.order_id for event in await events(log, "notes") if isinstance(event, Noted)]


async def kinds(log: EventLog) -> list[str]:
    found = [*await events(log, "charges"), *await events(log, "expiries")]
    return [type(event).__name__ for event in found]


@asynccontextmanager
async def run(
    log: EventLog, outside: Outside | None = None, config: RuntimeConfig | None = None
) -> AsyncIterator[Runtime]:
    async with Runtime(log, ports={"gateway": outside or Outside()}, config=config) as runtime, asyncio.timeout(120):
        yield runtime
