"""A console that is there before the services: every page answers, and shows what happens as soon as it does."""

from pathlib import Path

import httpx
import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from eventlib import open_log
from eventlib.log.open import open_port
from services import shop
from tests.console.browsers import running_console
from tests.golden.shops.shops import unpack_embedded
from tests.integration.shop_log import fill

pytestmark = pytest.mark.asyncio(loop_scope="session")
ARROW = "/choreography/arrow?source=OrderSubmitted&target=OrderPlaced"
PAGES = ("/overview", "/sagas", "/parked", "/choreography", ARROW, "/topics", "/acts", "/deployment", "/reruns", "/reruns/new?service=order", "/reset?service=order&to=earliest", "/compare", "/send/OrderSubmitted", "/readyz", "/healthz")  # fmt: skip


async def test_it_counts_on_a_log_that_a_topic_was_declared_after(tmp_path: Path) -> None:
    async with (
        open_log(unpack_embedded(tmp_path), shop, read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        async for attempt in AsyncRetrying(wait=wait_fixed(0.1), stop=stop_after_delay(60), reraise=True):
            with attempt:
                assert '<th scope="row">' in (await client.get(ARROW)).text
                assert 'class="row-link code"' in (await client.get("/sagas")).text


async def test_it_waits_for_the_topics_of_services_that_start_later(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    await (await open_port(url)).close()
    async with (
        open_log(url, shop, read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        answers = {path: await client.get(path) for path in PAGES}
        assert {path: each.text for path, each in answers.items() if each.status_code != 200} == {}
        await fill(url)
        async for attempt in AsyncRetrying(wait=wait_fixed(0.1), stop=stop_after_delay(60), reraise=True):
            with attempt:
                assert "OrderCompleted" in (await client.get("/saga/completed")).text
                assert "order_completed" in (await client.get("/sagas")).text
                assert "completed</a>" in (await client.get(ARROW)).text
