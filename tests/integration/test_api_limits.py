"""What a caller may ask of the order API: limits, keys of its own, and requests as nobody means them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from eventlib.http import ApiConfig
from eventlib.identity import Identity, IdentityOptions, Role, add_token
from eventlib.spi import Log, Record
from services.order.api import create_app
from services.order.index import OrderIndex
from tests.integration.api_shop import api, open_shop, place, refused, services, serving, wanted

LARGE = wanted(*["A"] * 100)


async def waiting(client: httpx.AsyncClient) -> int:
    figures = (await client.get("/metrics")).text
    return int(float(figures.partition("\nshop_backlog ")[2].split()[0]))


async def test_the_backlog_counts_lines_and_not_requests(tmp_path: Path) -> None:
    config = ApiConfig(backlog=250, decision_s=0.05)
    async with open_shop(tmp_path, running=False) as shop, api(shop, config) as client, api(shop, config) as other:
        await place(client, LARGE, key="1")
        await place(other, LARGE, key="2")
        async with asyncio.timeout(60):
            while (await waiting(client), await waiting(other)) != (200, 200):
                await asyncio.sleep(0.01)
        for each in (client, other):
            refused(await each.post("/orders", json=LARGE), 503, "backlog")
        await place(client)
        async with services(shop), asyncio.timeout(60):
            while (await waiting(client), await waiting(other)) != (0, 0):
                await asyncio.sleep(0.01)
            await place(client, LARGE)


async def test_large_orders_that_come_at_once_do_not_pass_the_backlog_together(tmp_path: Path) -> None:
    config = ApiConfig(backlog=250, decision_s=0.05)
    async with open_shop(tmp_path, running=False) as shop, api(shop, config) as client:
        answers = await asyncio.gather(*(client.post("/orders", json=LARGE) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [202] * 2 + [503] * 10


async def test_an_order_that_is_larger_than_the_backlog_passes_when_nothing_waits(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, api(shop, ApiConfig(backlog=10)) as client:
        await place(client, LARGE)


async def test_a_caller_pays_for_the_lines_of_an_order(tmp_path: Path) -> None:
    config = ApiConfig(work_rate=0.1, work_burst=120)
    async with open_shop(tmp_path) as shop, api(shop, config) as client:
        answer = await client.post("/orders", json=LARGE)
        assert answer.headers["RateLimit-Policy"] == '"work";q=120;w=1200'
        assert answer.headers["RateLimit"].startswith('"work";r=20;')
        large = await client.post("/orders", json=LARGE)
        refused(large, 429, "rate-limited")
        assert int(large.headers["Retry-After"]) > 100
        await place(client)
        assert (await client.get("/orders")).status_code == 200


async def test_a_caller_has_so_many_event_streams_at_once(tmp_path: Path) -> None:
    config = ApiConfig(streams_per_caller=2, decision_s=0.05)
    async with open_shop(tmp_path, running=False) as shop, api(shop, config) as client:
        url = f"/orders/{(await place(client))['order_id']}/events"
        async with AsyncExitStack() as streams:
            for _ in range(2):
                await streams.enter_async_context(client.stream("GET", url))
            refused(await client.get(url), 429, "too-many-streams")
        async with asyncio.timeout(60), services(shop):
            while (await client.get(url)).status_code == 429:
                await asyncio.sleep(0.01)  # until the server has seen that they are closed


KEYS = (SecretStr("ab" * 16), SecretStr("cd" * 16))


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_keys_belong_to_callers_and_ids_to_the_installation(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    texts = [add_token(tokens, name, [Role.CUSTOMER], name)[0] for name in ("c-1", "c-2")]
    body = wanted(customer_id=None)
    ids = dict[tuple[int, int], str]()
    async with open_shop(tmp_path) as found:
        for number, key in enumerate(KEYS):
            identity = Identity(IdentityOptions(tokens_file=tokens, key=key))
            app = create_app(found.log, None, OrderIndex(found.log, tmp_path / f"{number}.db"), identity)
            async with serving(app) as client:
                for caller, text in enumerate(texts):
                    client.headers = httpx.Headers(bearer(text))
                    first, again = [await place(client, body, key="my-key") for _ in range(2)]
                    assert first["order_id"] == again["order_id"]
                    assert first["customer_id"] == f"c-{caller + 1}"
                    ids[number, caller] = first["order_id"]
                other = await client.post("/orders", json=wanted(customer_id="c-1"), headers={"Idempotency-Key": "x"})
                refused(other, 422, "another-customer")
        assert len(set(ids.values())) == 4
        records = [record async for record in requests(found.log.port)]
        assert {dict(record.headers).get("acted-by") for record in records} == {b"token:c-1", b"token:c-2"}
        assert len({record.id for record in records}) == 4


async def requests(port: Log) -> AsyncIterator[Record]:
    for partition in range((await port.topics())["order.requests"].partitions):
        for record in await port.read("order.requests", partition, 0, 1_000):
            yield record


async def test_without_identity_an_id_follows_from_the_key_as_before(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as found, serving(create_app(found.log)) as client:
        first = await place(client, key="8e03978e")
        assert first["order_id"] == "5dba70e2c07948b80efa"


@pytest.mark.parametrize("idempotency_s", [0.3, None])
async def test_a_key_expires_when_that_is_set(tmp_path: Path, idempotency_s: float | None) -> None:
    config = ApiConfig(idempotency_s=idempotency_s)
    async with open_shop(tmp_path) as found, serving(create_app(found.log, config)) as client:
        first = await place(client, key="monthly")
        await asyncio.sleep(0.5)
        later = [await place(client, key="monthly") for _ in range(2)]
        assert (later[0]["order_id"] == first["order_id"]) is (idempotency_s is None)
        answer = await client.post("/orders", json=wanted("B"), headers={"Idempotency-Key": "monthly"})
        if idempotency_s is None:
            refused(answer, 422, "idempotency-key-reused")
