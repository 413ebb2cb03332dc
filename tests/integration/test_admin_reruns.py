"""Reruns and resets over HTTP: begun, followed, looked at and taken over, as by the command line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from eventlib import EventLog, open_log
from eventlib.admin.api import create_admin
from eventlib.operations.acts import acts
from eventlib.operations.reprocessing.listing import reruns
from tests.apps.market import Code, GivenBack, market
from tests.integration.reopening import events
from tests.integration.rerunning import send, settle, shelves_of, some_short_baskets
from tests.integration.test_parked_previews import contents

TOKEN = "x" * 32
AGAIN = "/services/store/reruns/again"


@asynccontextmanager
async def administered(directory: Path) -> AsyncIterator[tuple[EventLog, httpx.AsyncClient]]:
    """The admin API, with the mended code, on a log that wrong code has written."""
    url = f"sqlite:///{directory}/log.db"
    async with open_log(url, market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with open_log(url, market(), read_only=True) as log:
        app = create_admin(log, TOKEN, state_dir=str(directory))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a", headers=headers) as client,
        ):
            yield log, client


async def over(client: httpx.AsyncClient, path: str = AGAIN) -> dict[str, Any]:
    """Wait until a rerun is done, and return what came of it."""
    async with asyncio.timeout(60):
        while (found := (await client.get(path)).json())["status"] not in {"done", "failed"}:
            await asyncio.sleep(0.05)
    return dict(found)


async def stock(log: EventLog) -> tuple[int, dict[str, int]]:
    back = [each for each in await events(log, "stock") if isinstance(each, GivenBack)]
    return len(back), await shelves_of(log, "store")


WRONG_DAY = (0, {"A": 3, "B": 3, "C": 0})
MENDED = (12, {"A": 9, "B": 9, "C": 0})


async def test_a_rerun_from_its_difference_to_the_switch(tmp_path: Path) -> None:
    async with administered(tmp_path) as (log, client):
        for missing in (
            client.get(AGAIN),
            client.post(f"{AGAIN}/switch", json={"reason": "x"}),
            client.post(f"{AGAIN}/drop"),
        ):
            assert (await missing).status_code == 404
        begun = await client.post(AGAIN, json={"reason": "forgotten"})
        assert (begun.status_code, begun.json()["rerun"]) == (202, "again")
        found = await over(client)
        assert found["done"] == found["of"] > 0
        whole, *rest = found["differences"]
        assert (whole["same"], {each["before"] or each["after"] for each in rest if each["difference"] == "event"}) == (
            False,
            {"GivenBack"},
        )
        assert await stock(log) == WRONG_DAY
        (known,) = (await client.get("/reruns")).json()["reruns"]
        assert (known["name"], known["switched"]) == ("again", 0)
        assert (await client.post(f"{AGAIN}/switch", json={"reason": " "})).status_code == 422
        assert (await client.post(f"{AGAIN}/switch", json={"reason": "forgotten"})).status_code == 202
        done = await over(client)
        assert (done["takes_over"], done["switched"]["said"]) == (True, 12)
        assert await stock(log) == MENDED
        assert {(each.what, each.by, each.reason) for each in await acts(log)} == {
            ("rerun", "token:admin-token", "forgotten"),
            ("switch", "token:admin-token", "forgotten"),
        }
        refused = await client.post(f"{AGAIN}/drop")
        assert (refused.status_code, "the history needs it" in refused.text) == (422, True)


async def test_a_rerun_is_deleted_and_wrong_ones_fail_with_a_sentence(tmp_path: Path) -> None:
    async with administered(tmp_path) as (log, client):
        await client.post(AGAIN, json={"reason": "a try", "until": "2001-01-01T00:00:00Z"})
        assert (await over(client))["status"] == "done"
        await client.post(f"{AGAIN}/switch", json={"reason": "a try"})
        assert "its states are too old" in (await over(client))["error"]
        await client.post(AGAIN, json={"reason": "a try"})
        assert "begun with another --since or --until" in (await over(client))["error"]
        told = (await client.post(f"{AGAIN}/drop", json={"dry_run": True})).json()
        assert (told["dropped"], sum(told["topics"].values()) > 0) == (False, True)
        assert (await client.post(f"{AGAIN}/drop", json={"as_previewed": "0123456789ab"})).status_code == 422
        done = await client.post(f"{AGAIN}/drop", json={"as_previewed": told["as_previewed"]})
        assert done.json()["dropped"] is True
        assert await reruns(log) == []
        assert (await client.post("/services/nothing/reruns/x", json={"reason": "a try"})).status_code == 404
        assert (await client.post(AGAIN, json={"reason": "a try", "since": "soon"})).status_code == 422
        await client.post("/services/store/reruns/store", json={"reason": "a try"})
        assert "cannot be a rerun's name" in (await over(client, "/services/store/reruns/store"))["error"]
        assert await stock(log) == WRONG_DAY


async def test_a_reset_goes_back_and_forth_after_a_dry_run(tmp_path: Path) -> None:
    async with administered(tmp_path) as (log, client):
        back = {"to": "earliest", "reason": "forgotten"}
        before = await contents(log)
        name = (await client.post("/services/store/reset", json={**back, "dry_run": True})).json()["rerun"]
        dry_run = await over(client, f"/services/store/reruns/{name}")
        assert (dry_run["differences"][0]["same"], dry_run["takes_over"]) == (False, False)
        assert dry_run["would_switch"]["said"] == 12
        assert await contents(log) == before
        assert await stock(log) == WRONG_DAY
        assert (await client.post("/services/store/reset", json=back)).json()["takes_over"] is True
        assert (await over(client, f"/services/store/reruns/{name}"))["switched"]["said"] == 12
        assert await stock(log) == MENDED
        await settle(log)
        await log.prepare()
        await send(log, [("skipped", "A")])
        on = {"to": "latest", "reason": "a test"}
        dry = (await client.post("/services/store/reset", json={**on, "dry_run": True})).json()
        assert (dry["done"], [each["keys"] for each in dry["moves"]]) == (False, [{"skipped": 1}])
        await send(log, [("skipped too", "A")])
        same = on | {"as_previewed": dry["as_previewed"]}
        assert "the log has moved on" in (await client.post("/services/store/reset", json=same)).text
        dry = (await client.post("/services/store/reset", json={**on, "dry_run": True})).json()
        same = on | {"as_previewed": dry["as_previewed"]}
        assert (await client.post("/services/store/reset", json=same)).json()["moves"] == dry["moves"]
        await settle(log)
        assert await stock(log) == MENDED
        wrong = await client.post("/services/store/reset", json={"to": "7", "reason": "x"})
        assert (wrong.status_code, "offsets differ" in wrong.text) == (422, True)
        assert (
            "cannot go back in one of them"
            in (await client.post("/services/store/reset", json={**back, "topics": ["answers"]})).text
        )


async def test_a_server_that_stops_leaves_a_rerun_that_goes_on(tmp_path: Path) -> None:
    async with administered(tmp_path) as (_, client):
        await client.post(AGAIN, json={"reason": "forgotten"})
    async with open_log(f"sqlite:///{tmp_path}/log.db", market(), read_only=True) as log:
        app = create_admin(log, TOKEN, state_dir=str(tmp_path))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a", headers=headers) as client,
        ):
            await client.post(AGAIN, json={"reason": "forgotten"})
            assert (await over(client))["differences"][0]["same"] is False


async def test_what_an_interrupted_beginning_or_deletion_leaves_is_listed_and_deleted(tmp_path: Path) -> None:
    async with administered(tmp_path) as (log, client):
        await client.post(AGAIN, json={"reason": "a try"})
        await over(client)
        there = [name for name in await log.port.topics() if name.startswith("again.") and name != "again.control"]
        await log.port.delete_topics(there)
        (known,) = (await client.get("/reruns")).json()["reruns"]
        assert (known["name"], known["handled"]) == ("again", 0)
        assert (await client.post(f"{AGAIN}/drop")).json()["dropped"] is True
        assert await reruns(log) == []
