"""Tables, audit, what-if and reconciliation of logs on which an operator has brought back tasks whose time was set ahead."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit import audit
from analytics.audit.application import Application
from analytics.audit.decisions import decision_findings
from eventlib import EventLog, Publication, open_log
from eventlib.operations.clock_reset import preview_clock_reset, reset_clocks
from eventlib.replay import replay
from eventlib.values import now_ms
from services import shop
from services.order.events import OrderLine, OrderSubmitted
from tests.analytics.as_recorded import states_in, written_states
from tests.analytics.folded import Folded
from tests.analytics.sources import ROOT
from tests.analytics.supposing import supposed
from tests.apps.small_shop import Outside, settle
from tests.integration.pausing import ordered
from tests.integration.small_shop_app import app
from tests.integration.test_clock_reset import KEEPS, YEAR_MS, infected, keys_of, reset, unbounded
from tests.saga.running import PRICE_CENTS, SKU, UNITS, RunningShop, running_shop

NAMED = "tests.integration.small_shop_app:app"


def on(url: str, act: Callable[[EventLog], Awaitable[None]]) -> None:
    async def done() -> None:
        async with open_log(url, app) as log:
            await act(log)

    asyncio.run(done())


def test_tables_rebuilt_or_gone_on_with_equal_what_services_have_written_after_a_reset(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, partition = f"sqlite:///{tmp_path}/log.db", -1

    async def infect(log: EventLog) -> None:
        nonlocal partition
        await settle(log)
        partition = await infected(log, monkeypatch)

    async def go_on(log: EventLog) -> None:
        await reset(log)
        for key in keys_of(log, partition, 2):
            await ordered(log, key, 7)
        await settle(log, Outside(refuses=KEEPS))

    on(url, infect)
    grown = Folded(spark, url, NAMED, tmp_path / "grown").go_on()
    on(url, go_on)
    grown.go_on()
    whole = Folded(spark, url, NAMED, tmp_path / "whole").go_on()
    written = whole.on_log(written_states)
    assert len(written) > 3
    for each in (whole, grown):
        assert each.table("fold_errors") == []
        assert states_in(each) == written
    found = decision_findings(spark, url, Application(NAMED, str(ROOT))).collect()
    assert [row.asDict() for row in found if row["severity"] == "error"] == []


SERVICES = [service.name for service in shop.services]


async def settle_shop(running: RunningShop, *order_ids: str) -> None:
    await running.submit(*order_ids)
    async with running.services() as runtime:
        await runtime.idle()


async def infect(running: RunningShop, order_id: str) -> None:
    line = OrderLine(line_no=1, sku=SKU, quantity=UNITS, unit_price_cents=PRICE_CENTS)
    order = OrderSubmitted(
        order_id=order_id, customer_id=None, country="EIRE", currency="GBP", lines=(line,), placed_at=None
    )
    await running.log.port.append(running.log.records_of(Publication(order), now_ms() + 10 * YEAR_MS))


async def bring_back(running: RunningShop, name: str) -> None:
    service = shop.service(name)
    preview = await preview_clock_reset(running.log, service)
    assert await reset_clocks(running.log, service, preview.plans, "os:ada: a clock was ahead")


async def fill(url: str, directory: Path, monkeypatch: pytest.MonkeyPatch, brought_back: Sequence[str]) -> None:
    """Let a shop run, be set ahead, run on, and be brought back service by service."""
    async with running_shop(url, directory) as running:
        await settle_shop(running, *(f"before-{n}" for n in range(6)))
        with monkeypatch.context() as older:
            older.setattr("eventlib.runtime.restore.Task", unbounded)
            await infect(running, "ahead")
            await settle_shop(running, *(f"meanwhile-{n}" for n in range(12)))
            await settle_shop(running, *(f"on-{n}" for n in range(6)))
        for name in brought_back:
            await bring_back(running, name)
            await asyncio.sleep(0.02)
        if brought_back == SERVICES:
            await settle_shop(running, *(f"after-{n}" for n in range(6)))
        assert (await replay(running.log)).same


@pytest.mark.extended
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
