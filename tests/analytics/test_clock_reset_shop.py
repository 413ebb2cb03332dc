"""Four services that one wrong clock had set ahead, of which some are brought back: the audit, what-if and rebuilt tables."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit import audit
from eventlib import Publication
from eventlib.operations.clock_reset import preview_clock_reset, reset_clocks
from eventlib.replay import replay
from eventlib.values import now_ms
from services import shop
from services.order.events import OrderLine, OrderSubmitted
from tests.analytics.supposing import supposed
from tests.integration.test_clock_reset import YEAR_MS, unbounded
from tests.saga.running import PRICE_CENTS, SKU, UNITS, RunningShop, running_shop

SERVICES = [service.name for service in shop.services]


async def settle(running: RunningShop, *order_ids: str) -> None:
    await running.submit(*order_ids)
    async with running.services() as runtime:
        await runtime.idle()


async def infect(running: RunningShop, order_id: str) -> None:
    line = OrderLine(line_no=1, sku=SKU, quantity=UNITS, unit_price_cents=PRICE_CENTS)
    order = OrderSubmitted(
        order_id=order_id, customer_id=None, country="EIRE", currency="GBP", lines=(line,), placed_at=None
    )
    await running.log.port.append(running.log.records_of(Publication(order), now_ms() + 10 * YEAR_MS))


async def reset(running: RunningShop, name: str) -> None:
    service = shop.service(name)
    preview = await preview_clock_reset(running.log, service)
    assert await reset_clocks(running.log, service, preview.plans, "os:ada: a clock was ahead")


async def fill(url: str, directory: Path, monkeypatch: pytest.MonkeyPatch, brought_back: Sequence[str]) -> None:
    """Let a shop run, be set ahead, run on, and be brought back service by service."""
    async with running_shop(url, directory) as running:
        await settle(running, *(f"before-{n}" for n in range(6)))
        with monkeypatch.context() as older:
            older.setattr("eventlib.runtime.restore.Task", unbounded)
            await infect(running, "ahead")
            await settle(running, *(f"meanwhile-{n}" for n in range(12)))
            await settle(running, *(f"on-{n}" for n in range(6)))
        for name in brought_back:
            await reset(running, name)
            await asyncio.sleep(0.02)
        if brought_back == SERVICES:
            await settle(running, *(f"after-{n}" for n in range(6)))
        assert (await replay(running.log)).same


@pytest.mark.parametrize("brought_back", [SERVICES[1:3], SERVICES], ids="-".join)
def test_the_audit_and_what_if_find_nothing_where_some_services_or_all_are_brought_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brought_back: Sequence[str]
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    asyncio.run(fill(url, tmp_path, monkeypatch, brought_back))
    findings = Counter((row["rule"], row["about"].split()[0]) for row in audit(spark, url).collect())
    events = supposed(spark, url, tmp_path / "whatif").events
    differences = Counter(row["difference"] for row in events.collect())
    assert (findings, {*differences}) == (Counter(), {"unchanged"}), differences
