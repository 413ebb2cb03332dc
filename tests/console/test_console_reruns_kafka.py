"""A rerun on Kafka, begun and taken over by the console's forms, in the console's process."""

import asyncio
import re
from secrets import token_hex

import httpx
import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from tests.apps.market import Code, market
from tests.console.browsers import running_console
from tests.integration.rerunning import some_short_baskets
from tests.integration.test_admin_reruns import MENDED, WRONG_DAY, stock

pytestmark = pytest.mark.asyncio(loop_scope="session")
AGAIN = "/reruns/store/again"


async def sent(client: httpx.AsyncClient, page: str, form: str, **fields: str) -> None:
    """Send a form as the page that has it does."""
    (token, *_) = re.findall(r'name="form_token" value="([^"]+)"', (await client.get(page)).text)
    answer = await client.post(form, data={"form_token": token, "reason": "returns were forgotten", **fields})
    assert answer.status_code == 303, answer.text


async def shows(client: httpx.AsyncClient, text: str) -> None:
    async with asyncio.timeout(120):
        while text not in (await client.get(AGAIN)).text:
            await asyncio.sleep(0.1)


@pytest.mark.extended
async def test_a_rerun_is_begun_and_taken_over(
    broker: Cluster, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("console"))  # the indexes are in `var`
    url = f"{broker.url}/?prefix={token_hex(4)}."
    async with open_log(url, market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with (
        open_log(url, market(), read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        await sent(client, "/reruns/new?service=store", "/reruns/new", service="store", name="again")
        await shows(client, "What differs")
        assert await stock(log) == WRONG_DAY
        await sent(client, AGAIN, f"{AGAIN}/switch", sure="again")
        await shows(client, "12 events emitted now")
        assert await stock(log) == MENDED
