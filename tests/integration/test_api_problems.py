"""The order API over a real socket: what it refuses, and how."""

import asyncio
import gzip
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from eventlib.http import ApiConfig
from tests.integration.api_shop import Json, Shop, api, open_shop, place, refused, services, wanted


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with api(shop, ApiConfig(append_s=0.3, body_bytes=10_000)) as client:
        yield client


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The API alone: what is refused at once needs no services."""
    async with open_shop(tmp_path, running=False) as shop, api(shop) as client:
        yield client


BAD: dict[str, Json] = {
    "lines[0].quantity": wanted(quantity=0),
    "lines[0].sku": wanted("NONE"),
    "lines[1].sku": wanted("A", ""),
    "lines[2].quantity": wanted() | {"lines": [*wanted("A", "B")["lines"], {"sku": "C", "quantity": True}]},
    "lines": wanted() | {"lines": []},
    "currency": wanted(currency="EUR"),
    "country": {name: value for name, value in wanted().items() if name != "country"},
    "customer_id": wanted(customer_id=17850),
    "gift_wrap": wanted(gift_wrap=True),
    "lines[0].unit_price": wanted() | {"lines": [{"sku": "A", "quantity": 1, "unit_price": 1}]},
}


@pytest.mark.parametrize("field", BAD)
async def test_a_bad_field_is_named(closed: httpx.AsyncClient, field: str) -> None:
    problem = refused(await closed.post("/orders", json=BAD[field]), 422, BAD_KINDS.get(field, "invalid"))
    assert [(error["in"], error["field"]) for error in problem["errors"]] == [("body", field)]


BAD_KINDS = {"lines[0].sku": "unknown-product", "currency": "currency"}


@pytest.mark.parametrize(
    ("url", "place_and_field"),
    [
        ("/orders?status=lost", ("query", "status")),
        ("/orders?limit=0", ("query", "limit")),
        ("/orders?cursor=x", ("query", "cursor")),
        ("/orders?min_position=1", ("query", "min_position")),
        ("/orders/x?min_position=99-0", ("query", "min_position")),
        (f"/orders/{'x' * 201}", ("path", "order_id")),
        ("/products?cursor=", ("query", "cursor")),
    ],
)
async def test_a_bad_parameter_is_named(closed: httpx.AsyncClient, url: str, place_and_field: tuple[str, str]) -> None:
    (error,) = refused(await closed.get(url), 422, "invalid")["errors"]
    assert (error["in"], error["field"]) == place_and_field


async def test_a_bad_header_is_named(closed: httpx.AsyncClient) -> None:
    answer = await closed.post("/orders", json=wanted(), headers={"Idempotency-Key": "k" * 201})
    (error,) = refused(answer, 422, "invalid")["errors"]
    assert (error["in"], error["field"].lower()) == ("header", "idempotency-key")


async def test_what_is_free_is_not_ordered(closed: httpx.AsyncClient) -> None:
    refused(await closed.post("/orders", json=wanted("FREE")), 422, "nothing-to-pay")


JSON = {"content-type": "application/json"}


async def test_other_refusals_are_problems_too(client: httpx.AsyncClient) -> None:
    refused(await client.get("/nowhere"), 404)
    refused(await client.get("/orders/unknown"), 404, "unknown-order")
    not_allowed = await client.delete("/orders")
    refused(not_allowed, 405)
    assert "GET" in not_allowed.headers["allow"]
    refused(await client.post("/orders", content=b"sku=A", headers={"content-type": "text/plain"}), 415, "no-json")
    refused(await client.post("/orders", content=b"{", headers=JSON), 400, "invalid")
    refused(await client.post("/orders", content=b"[" * 9_000, headers=JSON), 400, "invalid")
    refused(await client.post("/orders", content=b"\xff", headers=JSON), 400, "invalid")
    for half in (b'{"\\ud800": 1}', json.dumps(wanted(country="\ud800")).encode()):
        (error,) = refused(await client.post("/orders", content=half, headers=JSON), 422, "invalid")["errors"]
        assert error["field"] in {"body", "country"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (wanted(country="a\x1b[2J"), "country"),
        (wanted(country="a\u202eb"), "country"),
        (wanted(customer_id="7\n■ OrderCompleted"), "customer_id"),
        (wanted("A\x00"), "lines[0].sku"),
    ],
)
async def test_text_that_steers_terminals_is_refused(closed: httpx.AsyncClient, body: Json, field: str) -> None:
    (error,) = refused(await closed.post("/orders", json=body), 422, "invalid")["errors"]
    assert (error["field"], "has a control character, U+" in error["message"]) == (field, True)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"country": "', '"country": "France", "country": "', "country"),
        ('"quantity": 1', '"quantity": 1, "quantity": 1000', "quantity"),
    ],
)
async def test_a_member_that_is_there_twice_is_refused_with_its_name(
    closed: httpx.AsyncClient, old: str, new: str, field: str
) -> None:
    body = json.dumps(wanted()).replace(old, new)
    problem = refused(await closed.post("/orders", content=body, headers=JSON), 422, "invalid")
    assert problem["errors"] == [{"in": "body", "field": field, "message": f"field '{field}' is there twice"}]


async def test_a_compressed_body_is_refused(closed: httpx.AsyncClient) -> None:
    body = gzip.compress(json.dumps(wanted()).encode())
    answer = await closed.post("/orders", content=body, headers=JSON | {"content-encoding": "gzip"})
    refused(answer, 415)
    assert answer.headers["accept-encoding"] == "identity"


async def test_a_body_that_is_too_large_is_refused(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1_000

    refused(await client.post("/orders", content=b" " * 10_001, headers=JSON), 413, "too-large")
    refused(await client.post("/orders", content=chunks(), headers=JSON), 413, "too-large")
    await place(client)


async def test_over_the_backlog_new_requests_are_refused(tmp_path: Path) -> None:
    config = ApiConfig(backlog=3, decision_s=0.05)
    async with open_shop(tmp_path, running=False) as shop, api(shop, config) as client:
        accepted = [await place(client, key=f"k-{number}") for number in range(3)]
        answer = await client.post("/orders", json=wanted())
        refused(answer, 503, "backlog")
        assert int(answer.headers["retry-after"]) > 0
        refused(await client.post(f"/orders/{accepted[0]['order_id']}/cancel"), 503, "backlog")
        assert (await place(client, key="k-0"))["order_id"] == accepted[0]["order_id"]
        async with services(shop):
            statuses = [(await client.get(f"/orders/{each['order_id']}")).json()["status"] for each in accepted]
            assert statuses == ["completed"] * 3
            await place(client)


@pytest.fixture
def held(shop: Shop) -> Iterator[sqlite3.Connection]:
    """Another connection, which can keep everybody else from writing to the log."""
    connection = sqlite3.connect(shop.directory / "shop.db", isolation_level=None)
    yield connection
    connection.close()


async def test_while_the_log_is_out_of_reach_reads_go_on(
    shop: Shop, client: httpx.AsyncClient, held: sqlite3.Connection
) -> None:
    before = (await client.post("/orders", json=wanted(), headers={"Prefer": "wait=5"})).json()
    assert shop.runtime is not None
    await shop.runtime.idle()
    held.execute("BEGIN IMMEDIATE")
    answer = await client.post("/orders", json=wanted("B"), headers={"Idempotency-Key": "again"})
    problem = refused(answer, 503, "outcome-unknown")
    assert int(answer.headers["retry-after"]) > 0
    assert (await client.get(f"/orders/{before['order_id']}")).json()["status"] == "completed"
    assert (await client.get("/healthz")).status_code == 200
    held.execute("ROLLBACK")
    assert (await place(client, wanted("B"), key="again"))["order_id"] == problem["order_id"]
    assert len((await client.get("/orders")).json()["orders"]) == 2


async def test_a_log_that_was_closed_is_out_of_reach(tmp_path: Path) -> None:
    async with open_shop(tmp_path, running=False) as shop, api(shop, ApiConfig(decision_s=0.05)) as client:
        await shop.log.port.close()
        refused(await client.post("/orders", json=wanted()), 503, "log-out-of-reach")
        refused(await client.get("/readyz"), 503, "log-out-of-reach")
        assert "shop_log_reachable 0" in (await client.get("/metrics")).text


async def test_until_the_index_is_there_nobody_is_told_half_the_truth(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, api(shop) as client:
        await asyncio.gather(*(place(client) for _ in range(20)))
        async with api(shop) as other:  # `api` waits for /readyz
            assert len((await other.get("/orders")).json()["orders"]) == 20
