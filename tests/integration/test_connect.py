"""Kafka Connect brings products into the shop and takes orders' outcomes out of it, with the files of deploy/connect."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib import EventLog, Runtime, RuntimeConfig, open_log
from eventlib.devtools.kafka import Cluster
from eventlib.errors import UnknownKey
from eventlib.queries.state import state_of
from examples.catalogue import Listing, app
from services.simulation.ledger import Ledger
from tests.integration.connect import DEPLOY, connect, has_compiler
from tests.ports import free_port
from tests.saga.fleet import Fleet, wait_for
from tests.saga.running import TOTAL_CENTS, RunningShop
from tests.saga.shop_runs import EVENTLIB, ShopLog

PATIENCE_S = 120
PRODUCTS = {f"P{number}": 100 + number for number in range(20)}
pytestmark = pytest.mark.skipif(not has_compiler(), reason="no JDK here, and the converter has to be compiled")


def test_configurations_name_no_secret_and_differ_by_environment_only() -> None:
    for file in DEPLOY.glob("*.json"):
        connector = json.loads(file.read_text(encoding="utf-8"))
        assert connector["name"] == file.stem
        for name, value in connector["config"].items():
            assert "password" not in name or value.startswith("${env:"), name


@pytest.mark.slow
async def test_rows_become_products_and_outcomes_become_lines(tmp_path: Path, broker: Cluster) -> None:
    prefix = f"{token_hex(4)}."
    log_url = f"{broker.url}/?prefix={prefix}"
    rows, outcomes, registry = tmp_path / "rows.ndjson", tmp_path / "outcomes", f"127.0.0.1:{free_port()}"
    rows.write_text("".join(row(sku, cents) for sku, cents in PRODUCTS.items()), encoding="utf-8")
    environment = {
        "BOOTSTRAP": broker.bootstrap,
        "CONNECT_LISTENS": f"http://127.0.0.1:{free_port()}",
        "PREFIX": prefix,
        "PRODUCTS_FILE": str(rows),
        "OUTCOMES_FILE": str(outcomes),
        "REGISTRY": f"http://{registry}",
    }
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger(tmp_path / "ledger.db"))
        fleet = stack.enter_context(Fleet(ShopLog(tmp_path, log_url)))
        async with open_log(log_url, app) as log:
            fleet.start("registry", EVENTLIB, "schemas", "serve", "--port", registry)
            await asyncio.to_thread(wait_for, f"http://{registry}/subjects")
            check = stack.enter_context(connect(tmp_path, ["products-from-file", "outcomes-to-file"], environment))
            shop = RunningShop(log, ledger, tmp_path / "ledger.db")
            config = RuntimeConfig(state_dir=str(tmp_path / "state"))
            async with Runtime(log, ports=shop.ports(), config=config):
                await shop.deliver()
                await shop.submit("a", "b")
                await until(lambda: len(lines_of(outcomes)) >= 2, check)
                async with asyncio.timeout(PATIENCE_S):
                    for sku, cents in PRODUCTS.items():
                        assert await listing(log, sku) == Listing(cents)
    assert sorted(lines_of(outcomes)) == [
        f"Struct{{order_id={each},amount_cents={TOTAL_CENTS},currency=GBP}}" for each in ("a", "b")
    ]


def row(sku: str, cents: int) -> str:
    fields = {"sku": sku, "description": f"product {sku}", "unit_price_cents": cents, "currency": "GBP"}
    return json.dumps(fields | {"kept_in": "aisle 7"}) + "\n"


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


async def listing(log: EventLog, sku: str) -> object:
    """Wait until there is a product, and return what is known of it."""
    while True:
        try:
            return (await state_of(log, "listing", sku)).state
        except UnknownKey:
            await asyncio.sleep(0.1)


async def until(condition: Callable[[], bool], check: Callable[[], None]) -> None:
    """Wait for what Connect is to do, as long as it is well."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            check()
            await asyncio.sleep(0.1)
