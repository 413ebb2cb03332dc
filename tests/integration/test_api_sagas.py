"""The order API over a real socket: cancelling at every stage, timelines, and event streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from eventlib.http import ApiConfig
from tests.integration.api_shop import Json, Shop, api, open_shop, place, refused, services, wanted

STEPS = ["OrderSubmitted", "OrderPlaced", "LineRequested", "LineReserved", "StockReserved", "ChargeRequested"]


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with api(shop, ApiConfig(decision_s=1, heartbeat_s=0.2)) as client:
        yield client


async def until(client: httpx.AsyncClient, order_id: str, status: str) -> Json:
    async with asyncio.timeout(120):
        while True:
            order: Json = (await client.get(f"/orders/{order_id}")).json()
            if order["status"] == status:
                return order
            await asyncio.sleep(0.01)


async def test_cancelled_before_it_is_paid(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.charged.clear()
    order_id = (await place(client))["order_id"]
    await until(client, order_id, "reserved")
    answer = await client.post(f"/orders/{order_id}/cancel")
    assert answer.status_code == 200
    assert (answer.json()["cancellation"], answer.json()["reason"]) == ("granted", "customer")
    shop.world.charged.set()  # the charge that was out lands, and is refunded
    order = await until(client, order_id, "cancelled")
    assert (order["taken_cents"], order["refunded_cents"], order["stock"]) == (250, 250, "released")
    again = await client.post(f"/orders/{order_id}/cancel")
    assert (again.status_code, again.json()["cancellation"]) == (200, "granted")


async def test_cancelled_while_the_carrier_is_asked(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.booked.clear()
    order_id = (await place(client))["order_id"]
    await until(client, order_id, "paid")
    pending = await client.post(f"/orders/{order_id}/cancel")
    assert (pending.status_code, pending.json()["cancellation"]) == (202, "pending")
    shop.world.booked.set()
    await until(client, order_id, "completed")
    problem = refused(await client.post(f"/orders/{order_id}/cancel"), 409, "too-late")
    assert problem["order"]["cancellation"] == "refused"


async def test_cancelled_while_the_carrier_refuses(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.booked.clear()
    order_id = (await place(client, wanted(country="Nowhere")))["order_id"]
    await until(client, order_id, "paid")
    asking = asyncio.create_task(client.post(f"/orders/{order_id}/cancel", headers={"Prefer": "wait=5"}))
    await asyncio.sleep(0.05)
    shop.world.booked.set()
    answer = await asking
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert answer.headers["preference-applied"] == "wait=5"


async def test_cancelled_after_the_end(client: httpx.AsyncClient) -> None:
    done = (await client.post("/orders", json=wanted(), headers={"Prefer": "wait=5"})).json()
    refused(await client.post(f"/orders/{done['order_id']}/cancel"), 409, "too-late")
    lost = (await client.post("/orders", json=wanted("CENT"), headers={"Prefer": "wait=5"})).json()
    assert lost["reason"] == "declined"
    assert (await client.post(f"/orders/{lost['order_id']}/cancel")).status_code == 200


async def test_cancelled_by_two_at_once_on_two_instances(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.charged.clear()
    order_id = (await place(client))["order_id"]
    async with api(shop) as other:
        answers = await asyncio.gather(*(each.post(f"/orders/{order_id}/cancel") for each in (client, other, client)))
    assert {answer.status_code for answer in answers} == {200}
    shop.world.charged.set()
    timeline = (await client.get(f"/orders/{order_id}/timeline")).json()
    assert sum(event["type"] == "OrderCancelRequested" for event in timeline["events"]) == 1


async def test_cancelled_before_it_was_decided(tmp_path: Path) -> None:
    async with open_shop(tmp_path, running=False) as shop, api(shop, ApiConfig(decision_s=0.1)) as client:
        placed = await place(client, key="k")
        assert (placed["status"], placed["amount_cents"]) == ("submitted", 250)
        answer = await client.post(f"/orders/{placed['order_id']}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "submitted")
        async with services(shop):
            order = await until(client, placed["order_id"], "cancelled")
        assert order["reason"] == "customer"


async def test_an_unknown_order_is_not_cancelled(client: httpx.AsyncClient) -> None:
    refused(await client.post("/orders/none/cancel"), 404, "unknown-order")


async def test_the_timeline_has_every_event_with_its_cause(client: httpx.AsyncClient) -> None:
    placed = (await client.post("/orders", json=wanted("A", "A"), headers={"Prefer": "wait=5"})).json()
    timeline = (await client.get(f"/orders/{placed['order_id']}/timeline")).json()
    events = timeline["events"]
    types = [event["type"] for event in events]
    assert [each for each in dict.fromkeys(types) if each in STEPS] == STEPS
    assert types.count("LineShipped") == 2
    assert types[-1] == "OrderCompleted"
    assert timeline["ended"]
    ids = [event["id"] for event in events]
    assert len(set(ids)) == len(ids)
    for number, event in enumerate(events):
        assert event["cause"] is None or event["cause"] in ids[:number]
        assert event["data"]
    assert [event["cause"] for event in events].count(None) == 1
    refused(await client.get("/orders/none/timeline"), 404, "unknown-order")


async def messages(client: httpx.AsyncClient, order_id: str, last_id: str | None = None) -> AsyncIterator[Json]:
    """Yield what a stream sends; heartbeats as {}."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with client.stream("GET", f"/orders/{order_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        message: Json = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line.startswith(":") or (not line and message):
                yield message
                message = {}
            elif line:
                message[name] = json.loads(value) if name == "data" else value


async def test_a_stream_tells_everything_and_ends_with_the_order(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.world.charged.clear()
    order_id = (await place(client))["order_id"]
    seen = list[Json]()
    async for message in messages(client, order_id):
        if message:
            seen.append(message)
        elif {each["event"] for each in seen} >= {*STEPS}:  # a heartbeat: nothing happens until the gateway answers
            assert len(seen) == len(STEPS)
            shop.world.charged.set()
    assert shop.world.charged.is_set()
    timeline = (await client.get(f"/orders/{order_id}/timeline")).json()["events"]
    assert sorted(each["data"]["id"] for each in seen) == sorted(event["id"] for event in timeline)
    assert seen[0]["data"]["type"] == "OrderSubmitted"
    assert "OrderCompleted" in [each["event"] for each in seen]


async def test_a_stream_ends_before_the_order_so_that_its_caller_is_judged_again(
    shop: Shop, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.http.saga_events._JUDGED_AGAIN_S", 0.5)
    shop.world.charged.clear()
    order_id = (await place(client))["order_id"]
    seen = [message async for message in messages(client, order_id) if message]
    assert not shop.world.charged.is_set()
    shop.world.charged.set()
    rest = list[Json]()
    while "OrderCompleted" not in [each["event"] for each in rest]:
        rest += [message async for message in messages(client, order_id, [*seen, *rest][-1]["id"]) if message]
    timeline = (await client.get(f"/orders/{order_id}/timeline")).json()["events"]
    assert sorted(each["data"]["id"] for each in [*seen, *rest]) == sorted(event["id"] for event in timeline)


async def test_a_stream_goes_on_after_what_was_seen_on_any_instance(shop: Shop, client: httpx.AsyncClient) -> None:
    order_id = (await client.post("/orders", json=wanted("A", "B"), headers={"Prefer": "wait=5"})).json()["order_id"]
    whole = [message async for message in messages(client, order_id)]
    async with api(shop) as other:
        for cut in range(len(whole)):
            rest = [message async for message in messages(other, order_id, whole[cut]["id"])]
            both = [each["data"]["id"] for each in [*whole[: cut + 1], *rest]]
            assert sorted(both) == sorted(each["data"]["id"] for each in whole), cut
    bad = await client.get(f"/orders/{order_id}/events", headers={"Last-Event-ID": "17"})
    assert refused(bad, 422, "invalid")["errors"][0]["field"] == "Last-Event-ID"
    refused(await client.get("/orders/none/events"), 404, "unknown-order")
