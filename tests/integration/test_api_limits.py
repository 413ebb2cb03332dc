"""What a caller of the order API may ask for: work that waits, work a second, and event streams."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from eventlib.http import ApiConfig
from tests.integration.api_shop import api, open_shop, place, refused, services, wanted

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
