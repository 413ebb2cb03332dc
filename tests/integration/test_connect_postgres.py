"""Kafka Connect between a real PostgreSQL and the shop, with Debezium's connectors and the files of deploy/connect."""

import asyncio
import json
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from eventlib.devtools.kafka import Cluster
from examples.catalogue import Listing, app
from services.payment.events import PaymentFailed
from services.simulation.faults import GatewayFaults
from services.simulation.ledger import Ledger
from tests.integration.connect import DEBEZIUM, connect, has_compiler
from tests.integration.test_connect import listing, until
from tests.ports import free_port
from tests.postgres import DATABASE, PASSWORD, USER, Postgres
from tests.saga.fleet import Fleet, wait_for
from tests.saga.running import TOTAL_CENTS, RunningShop
from tests.saga.shop_runs import EVENTLIB, ShopLog

PATIENCE_S = 120
CONNECTORS = ["products-from-postgres", "outcomes-to-postgres"]
PRODUCTS = """
CREATE TABLE products (
    sku text PRIMARY KEY, description text NOT NULL, unit_price_cents integer NOT NULL, currency text NOT NULL, kept_in text
);
INSERT INTO products VALUES ('P1', 'the first', 101, 'GBP', 'aisle 7'), ('P2', 'the second', 102, 'GBP', NULL)
"""
OUTCOMES = "SELECT jsonb_strip_nulls(to_jsonb(o)) FROM order_outcomes o ORDER BY order_id"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_compiler(), reason="no JDK here, and the converter has to be compiled"),
]


async def test_rows_become_products_and_outcomes_become_rows(
    tmp_path: Path, broker: Cluster, postgres: Postgres
) -> None:
    prefix, registry = f"{token_hex(4)}.", f"127.0.0.1:{free_port()}"
    postgres.run(PRODUCTS)
    environment = environment_of(broker, postgres, prefix, registry)
    log_url = f"{broker.url}/?prefix={prefix}"
    with Ledger(tmp_path / "ledger.db") as ledger, Fleet(ShopLog(tmp_path, log_url)) as fleet:
        async with open_log(log_url, app) as log:
            fleet.start("registry", EVENTLIB, "schemas", "serve", "--port", registry)
            await asyncio.to_thread(wait_for, f"http://{registry}/subjects")
            shop = RunningShop(log, ledger, tmp_path / "ledger.db")
            config = RuntimeConfig(state_dir=str(tmp_path / "state"))
            async with Runtime(log, ports=shop.ports(), config=config), asyncio.timeout(2 * PATIENCE_S):
                await shop.deliver()
                await shop.submit("a", "b")
                with connect(tmp_path, CONNECTORS, environment, DEBEZIUM) as check:
                    await until(lambda: len(outcomes(postgres)) == 2, check)
                    assert await listing(log, "P1") == Listing(101)
                    assert await listing(log, "P2") == Listing(102)
                    postgres.run("INSERT INTO products VALUES ('P3', 'the third', 103, 'GBP', 'aisle 8')")
                    assert await listing(log, "P3") == Listing(103)
                postgres.run("UPDATE products SET unit_price_cents = 99 WHERE sku = 'P1'")
                postgres.run(
                    "DELETE FROM products WHERE sku = 'P2'"
                )  # what was listed stays: a service would delist it
                postgres.run("INSERT INTO products VALUES ('P4', 'the fourth', 104, 'GBP', 'aisle 8')")
            shop.set_faults(GatewayFaults(decline=1))
            async with Runtime(log, ports=shop.ports(), config=config), asyncio.timeout(2 * PATIENCE_S):
                await shop.submit("c")
                await shop.until("c", PaymentFailed)
                with connect(tmp_path, CONNECTORS, environment, DEBEZIUM) as check:
                    await until(lambda: len(outcomes(postgres)) == 3, check)
                    assert await listing(log, "P4") == Listing(104)
                    while await listing(log, "P1") != Listing(99):
                        await asyncio.sleep(0.1)
                    assert await listing(log, "P2") == Listing(102)
    assert outcomes(postgres) == [
        {"order_id": "a", "amount_cents": TOTAL_CENTS, "currency": "GBP"},
        {"order_id": "b", "amount_cents": TOTAL_CENTS, "currency": "GBP"},
        {"order_id": "c", "reason": "declined", "refunded_cents": 0, "currency": "GBP"},
    ]


def environment_of(broker: Cluster, postgres: Postgres, prefix: str, registry: str) -> dict[str, str]:
    return {
        "BOOTSTRAP": broker.bootstrap,
        "CONNECT_LISTENS": f"http://127.0.0.1:{free_port()}",
        "PREFIX": prefix,
        "REGISTRY": f"http://{registry}",
        "CATALOGUE_HOST": "127.0.0.1",
        "CATALOGUE_PORT": str(postgres.port),
        "CATALOGUE_USER": USER,
        "CATALOGUE_PASSWORD": PASSWORD,
        "OUTCOMES_URL": f"jdbc:postgresql://127.0.0.1:{postgres.port}/{DATABASE}",
        "OUTCOMES_USER": USER,
        "OUTCOMES_PASSWORD": PASSWORD,
    }


def outcomes(postgres: Postgres) -> list[Any]:
    """Return the rows of the sink's table; none before it has made that."""
    ((made,),) = postgres.run("SELECT count(*) FROM pg_tables WHERE tablename = 'order_outcomes'")
    return [json.loads(row) for (row,) in postgres.run(OUTCOMES)] if made == "1" else []
