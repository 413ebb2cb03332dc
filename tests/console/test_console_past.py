"""The page of a saga whose effect waits since it follows from the past, before and after the saga's end."""

from pathlib import Path

import httpx
import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from eventlib import open_log
from eventlib.queries.parked import parkings
from tests.console.browsers import running_console
from tests.integration.past_app import APP, Left, fill, served

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_has_the_command_that_lets_the_effect_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    await fill(url, "Ada")
    async with (
        open_log(url, APP, read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        (parking,) = await parkings(log)
        assert f"<code>{parking.command}</code>" in (await client.get("/saga/Ada")).text
        await served(url, Left(name="Ada"))
        async for attempt in AsyncRetrying(wait=wait_fixed(0.05), stop=stop_after_delay(60), reraise=True):
            with attempt:
                page = (await client.get("/saga/Ada")).text
                assert '<span class="badge good" title="ended">Ended</span>' in page
        assert f"<code>{parking.command}</code>" in page
