"""Kafka Connect brings products into the shop and takes orders' outcomes out of it, with the files of deploy/connect."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from eventlib import EventLog, Runtime, RuntimeConfig, open_log
from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.jars import KAFKA, JarSet
from eventlib.devtools.kafka.java import Java, find_java
from eventlib.errors import UnknownKey
from eventlib.queries.state import state_of
from examples.catalogue import Listing, app
from services.payment.events import PaymentFailed
from services.simulation.faults import GatewayFaults
from services.simulation.ledger import Ledger
from tests.ports import free_port
from tests.postgres import DATABASE, PASSWORD, USER, Postgres
from tests.saga.fleet import Fleet, wait_for
from tests.saga.running import TOTAL_CENTS, RunningShop
from tests.saga.shop_runs import EVENTLIB, ShopLog

DEPLOY = Path(__file__).parents[2] / "deploy" / "connect"
CONNECT = JarSet("Kafka Connect", "kafka-connect", "connect-runtime", DEPLOY / "jars.lock")
DEBEZIUM = JarSet("Debezium", "debezium", "debezium-connector-postgres", DEPLOY / "debezium.lock")
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
PATIENCE_S = 120
PRODUCTS = {f"P{number}": 100 + number for number in range(20)}
pytestmark = pytest.mark.skipif(
    not find_java().tool("javac").exists(), reason="no JDK here, and the converter has to be compiled"
)


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


CONNECTORS = ["products-from-postgres", "outcomes-to-postgres"]
TABLE_OF_PRODUCTS = """
CREATE TABLE products (
    sku text PRIMARY KEY, description text NOT NULL, unit_price_cents integer NOT NULL, currency text NOT NULL, kept_in text
);
INSERT INTO products VALUES ('P1', 'the first', 101, 'GBP', 'aisle 7'), ('P2', 'the second', 102, 'GBP', NULL)
"""
ROWS_OF_OUTCOMES = "SELECT jsonb_strip_nulls(to_jsonb(o)) FROM order_outcomes o ORDER BY order_id"


@pytest.mark.slow
async def test_rows_become_products_and_outcomes_become_rows(
    tmp_path: Path, broker: Cluster, postgres: Postgres
) -> None:
    prefix, registry = f"{token_hex(4)}.", f"127.0.0.1:{free_port()}"
    postgres.run(TABLE_OF_PRODUCTS)
    environment = postgres_environment(broker, postgres, prefix, registry)
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


def postgres_environment(broker: Cluster, postgres: Postgres, prefix: str, registry: str) -> dict[str, str]:
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
    return [json.loads(row) for (row,) in postgres.run(ROWS_OF_OUTCOMES)] if made == "1" else []


@contextmanager
def connect(
    directory: Path, connectors: list[str], environment: Mapping[str, str], *plugins: JarSet
) -> Iterator[Callable[[], None]]:
    """Run a worker with connectors of deploy/connect, by their names, and the plugins that they are in.

    What is given refuses, with what it has said, a worker that has ended, or a task that has failed.
    """
    java = find_java()
    jars = ":".join(f"{each.fetched(java, each.default_place())}/*" for each in (CONNECT, KAFKA))
    place = directory / "plugins"
    compile_converter(java, place / "converter", jars)
    for each in plugins:
        if not (place / each.name).exists():
            (place / each.name).symlink_to(each.fetched(java, each.default_place()))
    settings, said = directory / "worker.properties", directory / "connect.log"
    told = (DEPLOY / "worker.properties").read_text(encoding="utf-8")
    settings.write_text(f"{told}plugin.path={place}\n", encoding="utf-8")
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    files = [str(settings), *(str(DEPLOY / f"{name}.json") for name in connectors)]
    with said.open("w", encoding="utf-8") as out:
        worker = subprocess.Popen(
            [str(java.executable), *OPTIONS, "-cp", jars, main, *files],
            env={**os.environ, **environment, "CONNECT_OFFSETS": str(directory / "connect.offsets")},
            stdout=out,
            stderr=out,
        )

    def check() -> None:
        told = said.read_text(encoding="utf-8")
        assert worker.poll() is None, told[-5_000:]
        assert " ERROR " not in told, told[-5_000:]

    try:
        yield check
        check()
    finally:
        worker.terminate()
        try:
            worker.wait(120)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def compile_converter(java: Java, place: Path, jars: str) -> None:
    source = DEPLOY / "converter" / "EventConverter.java"
    subprocess.run([java.tool("javac"), "-proc:none", "-d", place, "-cp", jars, source], check=True)
