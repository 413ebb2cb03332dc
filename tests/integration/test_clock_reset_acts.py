"""A clock is reset alike by command, over HTTP and in the console: previewed, refused when that no longer holds, and recorded."""

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest

from eventlib import open_log
from eventlib.admin.api import create_admin
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.identity.options import IdentityOptions
from eventlib.operations.acts import acts
from eventlib.operations.clock_reset import preview_clock_reset
from tests.apps.small_shop import settle
from tests.commands import ended, said
from tests.integration.pausing import ordered
from tests.integration.small_shop_app import app
from tests.integration.test_clock_reset import infected, keys_of

NAMED, TOKEN = "tests.integration.small_shop_app:app", "0123456789abcdef0123456789abcdef"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
WHY = {"reason": "a server's clock was ahead"}


@pytest.mark.parametrize("by", ["command", "admin", "console"])
async def test_a_clock_is_reset_alike_by_command_over_http_and_in_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, app) as log:
        await settle(log)
        partition = await infected(log, monkeypatch)
    command = ["reset-clock", "orders", "--app", NAMED, "--log", url, "--json"]
    signed = [*command, "--reason", WHY["reason"], "--yes"]
    async with open_log(url, app, read_only=True) as log:
        service = log.choreography.services[0]
        shown = (await preview_clock_reset(log, service)).json()
    dry_run = json.loads(said(*command, "--dry-run"))
    assert dry_run == json.loads(json.dumps(shown))
    assert "stays due at" in said(*command[:-1], "--dry-run")
    async with open_log(url, app) as log:
        admin = create_admin(log, TOKEN, state_dir=str(tmp_path))
        console = create_console(log, SessionIdentity(IdentityOptions()), state_dir=str(tmp_path))
        async with (
            httpx.AsyncClient(transport=httpx.ASGITransport(admin), base_url="http://a", headers=HEADERS) as client,
            console.router.lifespan_context(console),
            httpx.AsyncClient(transport=httpx.ASGITransport(console), base_url="http://127.0.0.1") as browser,
        ):
            told = await client.post("/services/orders/reset-clock", json={**WHY, "dry_run": True})
            assert told.json() == dry_run
            page = (await browser.get("/reset-clock", params={"service": "orders"})).text
            assert str(shown["as_previewed"]) in page
            assert "expires_at stays due at" in page
            for key in keys_of(log, partition, 1, "more"):  # the log moves on
                await ordered(log, key, 1)
            await settle(log)
            (form_token,) = re.findall(r'name="form_token" value="(\w+)"', page)
            stale = {"as_previewed": str(shown["as_previewed"])}
            if by == "command":
                moved = await asyncio.to_thread(ended, *signed, "--as-previewed", stale["as_previewed"])
                assert "moved on" in moved.stderr
                done = json.loads(await asyncio.to_thread(said, *signed))
            elif by == "admin":
                assert "moved on" in (await client.post("/services/orders/reset-clock", json=WHY | stale)).text
                done = (await client.post("/services/orders/reset-clock", json=WHY)).json()
            else:
                fields = {"service": "orders", "form_token": form_token, **WHY}
                assert "moved on" in (await browser.post("/reset-clock", data=fields | stale)).text
                assert "1 task goes on now" in (await browser.post("/reset-clock", data=fields)).text
                done = None
            assert done is None or (done["done"], [each["partition"] for each in done["tasks"]]) == (True, [partition])
            (act,) = await acts(log)
            assert (act.what, act.service, act.reason) == ("clock", "orders", WHY["reason"])
            again = await browser.get("/reset-clock", params={"service": "orders"})
            assert "is not ahead of this machine" in again.text
