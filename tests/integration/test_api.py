"""The order API over a real socket: placing, reading and listing orders."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from services.order.events import ProductDelisted, ProductListed
from tests.integration.api_shop import Shop, api, asking, place, refused, wanted


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with api(shop) as client:
        yield client


async def test_an_order_is_placed_at_the_catalogue_s_prices_and_read_at_once(client: httpx.AsyncClient) -> None:
    answer = await client.post("/orders", json=wanted("A", "B", quantity=3))
    assert answer.status_code == 202
    placed = answer.json()
    assert answer.headers["location"] == f"/orders/{placed['order_id']}"
    assert placed["amount_cents"] == 2 * 3 * 250
    assert placed["lines"][1] == {"line_no": 2, "sku": "B", "quantity": 3, "unit_price_cents": 250}
    read = await client.get(answer.headers["location"])
    assert read.status_code == 200
    assert read.json()["order_id"] == placed["order_id"]
    listed = (await client.get("/orders")).json()["orders"]
    assert [order["order_id"] for order in listed] == [placed["order_id"]]


async def test_prefer_wait_answers_when_the_order_has_ended(client: httpx.AsyncClient) -> None:
    answer = await client.post("/orders", json=wanted(), headers={"Prefer": "respond-async, wait=10"})
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=10"
    assert answer.json()["status"] == "completed"
    assert answer.json()["tracking"].startswith("T-")


async def test_prefer_wait_answers_when_the_wait_is_over(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.charged.clear()
    answer = await client.post("/orders", json=wanted(), headers={"Prefer": "wait=1"})
    assert answer.json()["status"] in {"placed", "reserved"}
    shop.world.charged.set()


async def test_the_same_key_and_body_give_the_same_order(shop: Shop, client: httpx.AsyncClient) -> None:
    first = await place(client, key="k-1")
    await shop.log.publish(ProductListed(sku="A", description="dearer", unit_price_cents=999, currency="GBP"))
    again = await place(client, {**dict(reversed(wanted().items()))}, key="k-1")
    assert (again["order_id"], again["position"]) == (first["order_id"], first["position"])
    assert again["lines"] == first["lines"]
    assert len((await client.get("/orders")).json()["orders"]) == 1


async def test_the_same_key_with_another_body_is_refused(client: httpx.AsyncClient) -> None:
    await place(client, key="k-1")
    other = await client.post("/orders", json=wanted("B"), headers={"Idempotency-Key": "k-1"})
    problem = refused(other, 422, "idempotency-key-reused")
    assert problem["errors"][0] == {"in": "header", "field": "Idempotency-Key", "message": "was used with another body"}


async def test_many_at_once_under_one_key_place_one_order(shop: Shop, client: httpx.AsyncClient) -> None:
    async with api(shop) as other:  # another instance, with an index of its own
        headers = {"Idempotency-Key": "k-1"}
        posts = [each.post("/orders", json=wanted(), headers=headers) for each in (client, other) * 5]
        odd = [each.post("/orders", json=wanted("B"), headers=headers) for each in (client, other)]
        *answers, one, two = await asyncio.gather(*posts, *odd)
    # Whoever came first counts; all of the others are told so.
    same = [answer for answer in answers if answer.status_code == 202]
    different = [answer for answer in (one, two) if answer.status_code == 202]
    assert (len(same), len(different)) in {(10, 0), (0, 2)}
    assert {answer.status_code for answer in (*answers, one, two)} == {202, 422}
    listed = (await client.get("/orders", params={"min_position": (same or different)[0].json()["position"]})).json()
    assert len(listed["orders"]) == 1
    assert len({answer.json()["position"] for answer in same or different}) == 1


async def test_without_a_key_each_request_is_an_order(client: httpx.AsyncClient) -> None:
    assert (await place(client))["order_id"] != (await place(client))["order_id"]


async def test_what_was_written_is_read_on_another_instance(shop: Shop, client: httpx.AsyncClient) -> None:
    async with api(shop) as other:
        for _ in range(20):
            placed = await place(client)
            read = await other.get(f"/orders/{placed['order_id']}", params={"min_position": placed["position"]})
            assert read.status_code == 200
        refused(await other.get("/orders", params={"min_position": "7-999999"}), 422, "invalid")
        refused(await other.get("/orders", params={"min_position": placed["position"] + "-999999"}), 422, "invalid")


async def test_pages_stay_as_they_are_while_orders_are_added(client: httpx.AsyncClient) -> None:
    placed = [(await place(client))["order_id"] for _ in range(7)]
    seen, cursor = list[str](), None
    for _ in range(4):
        params = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
        page = (await client.get("/orders", params=params)).json()
        seen += [order["order_id"] for order in page["orders"]]
        cursor = page["next_cursor"]
        await place(client)
    assert seen == [*reversed(placed)]
    assert cursor is None


async def test_lists_are_of_a_customer_and_a_status(client: httpx.AsyncClient) -> None:
    await client.post("/orders", json=wanted(customer_id="1"), headers={"Prefer": "wait=10"})
    await client.post("/orders", json=wanted("SCARCE", quantity=2, customer_id="1"), headers={"Prefer": "wait=10"})
    await client.post("/orders", json=wanted(customer_id=None), headers={"Prefer": "wait=10"})

    async def statuses(**params: str) -> list[str]:
        return [order["status"] for order in (await client.get("/orders", params=params)).json()["orders"]]

    assert await statuses() == ["completed", "cancelled", "completed"]
    assert await statuses(customer_id="1") == ["cancelled", "completed"]
    assert await statuses(customer_id="1", status="cancelled") == ["cancelled"]
    assert await statuses(status="completed") == ["completed", "completed"]
    assert await statuses(customer_id="2") == []


async def test_products_are_listed_as_they_are_sold(shop: Shop, client: httpx.AsyncClient) -> None:
    first = (await client.get("/products", params={"limit": 2})).json()
    assert first["products"][0] == {"sku": "A", "description": "Ä A", "unit_price_cents": 250, "currency": "GBP"}
    rest = (await client.get("/products", params={"cursor": first["next_cursor"]})).json()
    assert [product["sku"] for product in rest["products"]] == ["C", "CENT", "FREE", "SCARCE"]
    assert rest["next_cursor"] is None
    await shop.log.publish(ProductDelisted(sku="B"))
    async with asyncio.timeout(120):
        async for answer in asking(client, "/products"):
            if "B" not in [product["sku"] for product in answer.json()["products"]]:
                break
    problem = refused(await client.post("/orders", json=wanted("A", "B")), 422, "unknown-product")
    assert problem["errors"][0]["field"] == "lines[1].sku"


async def test_the_description_is_valid_and_has_examples(client: httpx.AsyncClient) -> None:
    from openapi_spec_validator import validate

    described = (await client.get("/openapi.json")).json()
    validate(described)
    assert (await client.get("/docs")).status_code == 200
    assert described["components"]["schemas"]["WantedOrder"]["examples"]
    for path in described["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                assert status < "400" or "application/problem+json" in answer["content"]


async def test_figures_are_in_prometheus_s_format(client: httpx.AsyncClient) -> None:
    await place(client)
    text = (await client.get("/metrics")).text
    assert "shop_orders_accepted_total 1.0\n" in text
    assert 'http_requests_total{method="POST",route="/orders",status="202"} 1.0\n' in text
    assert "shop_backlog 0.0\n" in text
    assert (await client.get("/healthz")).json() == {"status": "ok"}
