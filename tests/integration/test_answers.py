"""Unknown is never told as no: each dependency of the order API fails under each of its routes, and the log decides who lied."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from eventlib import EventLog, Runtime, RuntimeConfig, open_log
from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.errors import EventlibError
from eventlib.http import ApiConfig
from eventlib.model.event import contract_of
from services import shop
from services.order.api import create_app
from services.order.events import OrderSubmitted, ProductListed
from services.simulation.ledger import Ledger
from services.simulation.systems import SimulatedCarrier, SimulatedGateway
from tests.connections import Connections, opened_from_here, silent
from tests.in_rows import change_row, in_rows
from tests.integration.answers import Asked, Json, Truth, hold, hold_accepted, now_ms
from tests.integration.api_shop import place, placed_when_it_can_be, refused, stock_up, wanted
from tests.paused import paused

CONFIG = ApiConfig(decision_s=0.3, append_s=1, index_age_s=0.5)
LARGE = wanted(*["A", "B", "C"] * 100)  # its event has more bytes than a page of a file
INDEX, LEDGER, LOG = "shop.db.order-index.db", "ledger.db", "shop.db"
STORES = ("order.db", "stock.db", "payment.db", "dispatch.db")

Breaking = AbstractContextManager[None]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """The connections to SQLite files that the test opens from here on, by the file's name."""
    return opened_from_here(monkeypatch)


@dataclass
class Served:
    """A shop: its log, the API under test, and another instance of it that nothing is wrong with."""

    log: EventLog
    client: httpx.AsyncClient
    elsewhere: httpx.AsyncClient
    other_log: EventLog
    files: Connections


@asynccontextmanager
async def asgi(log: EventLog, config: ApiConfig = CONFIG) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(log, config)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        async with asyncio.timeout(120):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)
        yield client


@asynccontextmanager
async def services(log: EventLog, ledger: Path) -> AsyncIterator[Runtime]:
    """Run the services beside a ledger; stores are written as soon as they can be."""
    with Ledger(ledger) as kept:
        ports = {"gateway": SimulatedGateway(kept), "carrier": SimulatedCarrier(kept)}
        async with Runtime(log, ports=ports, config=RuntimeConfig(flush_s=0.05, grace_s=0)) as runtime:
            yield runtime


@asynccontextmanager
async def served(url: str, files: Connections) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(url, shop))
        await stock_up(log)
        client = await stack.enter_async_context(asgi(log))
        own = {name: [*opened] for name, opened in files.items()}
        other_log = await stack.enter_async_context(open_log(url, shop))
        elsewhere = await stack.enter_async_context(asgi(other_log, replace(CONFIG, index_age_s=10)))
        yield Served(log, client, elsewhere, other_log, own)


@contextmanager
def full(*names: str, files: Connections) -> Iterator[None]:
    """Let the disk have no page left for some files."""
    every = [each for name in names for each in files[name]]
    for each in every:
        each.execute("PRAGMA max_page_count=1").fetchall()  # as many as there are
    yield
    for each in every:
        each.execute("PRAGMA max_page_count=1000000").fetchall()


@contextmanager
def read_only(*names: str, files: Connections) -> Iterator[None]:
    every = [each for name in names for each in files[name]]
    for each in every:
        each.execute("PRAGMA query_only=1")
    yield
    for each in every:
        each.execute("PRAGMA query_only=0")


@contextmanager
def unreadable(name: str, table: str, files: Connections) -> Iterator[None]:
    """Let a file have no such table any more."""
    (connection,) = files[name]
    connection.execute(f"ALTER TABLE {table} RENAME TO gone")
    yield
    connection.execute(f"ALTER TABLE gone RENAME TO {table}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let another process write to a file without an end."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


BREAKS: dict[str, Callable[[Connections, Path], Breaking]] = {
    "index full": lambda files, _: full(INDEX, files=files),
    "index read-only": lambda files, _: read_only(INDEX, files=files),
    "index damaged": lambda files, _: unreadable(INDEX, "events", files),
    "index silent": lambda files, _: silent(*files[INDEX]),
    "state stores full": lambda files, _: full(*STORES, files=files),
    "ledger read-only": lambda files, _: read_only(LEDGER, files=files),
    "log silent": lambda files, _: silent(*files[LOG]),
    "log full": lambda files, _: full(LOG, files=files),
    "log read-only": lambda files, _: read_only(LOG, files=files),
    "log locked": lambda _, directory: locked(directory / LOG),
}


async def ask(
    client: httpx.AsyncClient, method: str, path: str, body: Json | None = None, key: str | None = None
) -> Asked:
    headers = {} if key is None else {"Idempotency-Key": key}
    at_ms, answer = now_ms(), None
    with suppress(TimeoutError):
        async with asyncio.timeout(1 if path.endswith("/events") else 30):
            answer = await client.request(method, path, json=body, headers=headers)
    return Asked(method, path, body, key, at_ms, answer)


async def ask_everything(client: httpx.AsyncClient, orders: list[str]) -> list[Asked]:
    """Ask on every route: about orders that there are, and about one that there is not."""
    posts: list[tuple[Json, str | None]] = [
        (wanted(), None),
        (LARGE, None),
        (wanted("NEW"), None),
        (wanted("NEVER"), None),
    ]
    posts += [(wanted(sku), key) for sku in ("A", "B") for key in ("before", "elsewhere")] + [(wanted(), "new")]
    asking = [ask(client, "POST", "/orders", body, key) for body, key in posts]
    paths = [f"/orders/{each}{part}" for each in [*orders, "never"] for part in ("", "/timeline", "/events")]
    paths += ["/orders", "/orders?customer_id=17850", "/products", "/healthz", "/metrics", "/readyz"]
    asking += [ask(client, "GET", path) for path in paths]
    asking += [ask(client, "POST", f"/orders/{each}/cancel") for each in [*orders, "never"]]
    return [*await asyncio.gather(*asking)]


async def broken(shop_served: Served, breaking: Breaking, wait_s: int = 10) -> tuple[list[Asked], list[str]]:
    """Break something, let another instance go on, and ask everything; return the answers, and the orders before them."""
    asked_as = ({"Prefer": f"wait={wait_s}"}, {"Idempotency-Key": "before"})
    orders = [(await placed_when_it_can_be(shop_served.client, each))["order_id"] for each in asked_as]
    with breaking:
        with suppress(EventlibError, TimeoutError):
            async with asyncio.timeout(CONFIG.append_s):
                new = ProductListed(sku="NEW", description="new", unit_price_cents=250, currency="GBP")
                await shop_served.other_log.publish(new)
        placed = [
            await shop_served.elsewhere.post("/orders", json=LARGE),
            await shop_served.elsewhere.post("/orders", json=wanted(), headers={"Idempotency-Key": "elsewhere"}),
        ]
        orders += [each.json()["order_id"] for each in placed if each.status_code == 202]
        orders += [each.json()["order_id"] for each in placed if each.status_code == 503 and "order_id" in each.json()]
        return await ask_everything(shop_served.client, orders), orders


async def settled(url: str, ledger: Path) -> Truth:
    """Let all that is on a log come to its end, and return what it says."""
    async with open_log(url, shop) as log, services(log, ledger) as runtime:
        async with asyncio.timeout(120):
            await runtime.idle()
        return await Truth.of(log)


@pytest.mark.parametrize("what", BREAKS)
async def test_no_answer_contradicts_the_log(what: str, tmp_path: Path, connections: Connections) -> None:
    url, ledger = f"sqlite:///{tmp_path}/{LOG}", tmp_path / LEDGER
    async with open_log(url, shop) as log, services(log, ledger), served(url, connections) as shop_served:
        files = shop_served.files
        asked, orders = await broken(shop_served, BREAKS[what](files, tmp_path))
    truth = await settled(url, ledger)
    for each in asked:
        hold(each, truth)
    hold_accepted(asked, truth, dict.fromkeys(orders))


async def test_an_accepted_order_is_answered_whatever_the_index_does(tmp_path: Path, connections: Connections) -> None:
    async with served(f"sqlite:///{tmp_path}/{LOG}", connections) as there:
        with full(INDEX, files=there.files):
            answers = [
                await there.client.post("/orders", json=LARGE) for _ in range(6)
            ]  # more than any free page takes
            assert [(each.status_code, each.json()["status"]) for each in answers] == [(202, "submitted")] * 6
            assert len(answers[0].json()["lines"]) == 300
            async with asyncio.timeout(120):
                while (ready := await there.client.get("/readyz")).status_code == 200:
                    await asyncio.sleep(0.05)
            refused(ready, 503, "index-behind")
            for path in ("/orders", "/products", answers[-1].headers["location"], "/orders/never"):
                await _is_unknown(there.client, path)
        async with asyncio.timeout(120):
            while (await there.client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.05)
        for each in answers:
            assert (await there.client.get(each.headers["location"])).json()["lines"] == each.json()["lines"]
        refused(await there.client.get("/orders/never"), 404, "unknown-order")


async def test_an_order_whose_record_is_damaged_is_not_told_as_none(tmp_path: Path) -> None:
    url, request = f"sqlite:///{tmp_path}/{LOG}", "type = 'OrderSubmitted' AND CAST(key AS TEXT) = ?"
    async with open_log(url, shop) as log, asgi(log) as client:
        await stock_up(log)
        lost, kept = [(await place(client, key=key))["order_id"] for key in ("lost", "kept")]
    change_row(in_rows(tmp_path / LOG), f"UPDATE records SET value = x'00' WHERE {request}", lost)  # noqa: S608
    (tmp_path / INDEX).unlink()
    partition_of = contract_of(OrderSubmitted).topic.partition_of
    beside, elsewhere = (
        next(
            each
            for each in map(str, range(100))
            if (partition_of(each.encode()) == partition_of(lost.encode())) is same
        )
        for same in (True, False)
    )
    async with open_log(url, shop) as log, asgi(log) as client:
        for order_id, code in ((lost, 503), (beside, 503), (elsewhere, 404), (kept, 200)):
            for part in ("", "/timeline"):
                answer = await client.get(f"/orders/{order_id}{part}")
                assert answer.status_code == code, (order_id, answer.text)
        assert (await client.post(f"/orders/{lost}/cancel")).status_code == 503
        assert (await client.post("/orders", json=wanted())).status_code == 202
        listed = await client.get("/orders")  # what is not listed may be there: the answer says so
        assert (listed.status_code, listed.headers["Damaged-Records"]) == (200, "1")
        assert "shop_index_damaged 1" in (await client.get("/metrics")).text


async def _is_unknown(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    if path != "/orders/never" or answer.status_code != 404:  # its partition may have been read to its end
        refused(answer, 503, "index-behind")


@pytest.mark.extended
async def test_no_answer_contradicts_the_log_while_the_broker_is_away(
    tmp_path: Path, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a broker of its own, since who shares one would not be answered either.

    It is not fenced while it is silent: of what a fenced node has committed, the mark that shows it may be lost.
    """
    monkeypatch.chdir(tmp_path)  # where the indexes of a log elsewhere are
    with running_cluster(ClusterConfig(properties={"broker.session.timeout.ms": "60000"})) as broker:
        await _broken_by_silence(broker, connections)


async def _broken_by_silence(broker: Cluster, connections: Connections) -> None:
    async with served(broker.url, connections) as there:
        asked, orders = await broken(there, paused(broker), wait_s=0)
        assert {each.answer.status_code for each in asked if each.answer and each.path == "/orders/never"} == {503}
        async with asyncio.timeout(120):
            while (await there.elsewhere.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.1)
        truth = await Truth.of(there.other_log)
    for each in asked:
        hold(each, truth)
    hold_accepted(asked, truth, dict.fromkeys(orders))
