"""Reruns and resets by forms: looked at before they begin, followed, compared, and taken over with who and why on the log."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from eventlib import EventLog, open_log
from eventlib.identity import Role
from eventlib.model.service import Service
from eventlib.operations.acts import acts
from eventlib.operations.reprocessing.listing import KnownRerun, reruns
from tests.apps.market import Code, market
from tests.console.browsers import running_console, visiting
from tests.console.markup import Part
from tests.console.windows import Window, opened, signed_in
from tests.integration.rerunning import send, settle, some_short_baskets
from tests.integration.test_admin_reruns import MENDED, WRONG_DAY, stock

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
WHY = "returns were <b>forgotten</b>"


@asynccontextmanager
async def mended(directory: Path) -> AsyncIterator[EventLog]:
    """A log that wrong code has written, opened with the mended code."""
    url = f"sqlite:///{directory}/log.db"
    async with open_log(url, market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with open_log(url, market(), read_only=True) as log:
        yield log


@asynccontextmanager
async def on_a_wrong_day(directory: Path, role: Role = Role.OPERATOR) -> AsyncIterator[tuple[EventLog, Window]]:
    """The same, and a window on its page of reruns."""
    async with mended(directory) as log, signed_in(log, directory, role, back="/reruns") as window:
        yield log, window


async def begin(window: Window) -> Part:
    """Begin a rerun, and return its page, once it is done and shows what differs."""
    await window.send("See what that goes through")
    assert "transactions of 8 tasks" in window.page.one(".summary").text
    await window.send("Begin", {"name": "again", "reason": WHY})
    assert window.path == "/reruns/store/again"
    await window.until("button", "Compare again")
    assert len(window.page.all("h2", "What differs")) == 1
    return window.page


async def test_a_rerun_is_begun_compared_and_taken_over(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path) as (log, window):
        page = await begin(window)
        row = page.labelled("What differs, by decider").one("tr", "basket")
        assert row.text.split() == ["basket", "6", "0", "24", "0", "12", "0"]
        assert len(page.all(".badge.good", "added")) == 12
        assert "left" in page.all(".diff")[0].text
        assert WHY in window.text
        assert await stock(log) == WRONG_DAY
        await window.send("Take over", {"reason": "returns were forgotten", "sure": "agan"})
        assert "write again to have store take over" in window.text
        assert {each.what for each in await acts(log)} == {"rerun"}
        await window.open("/reruns/store/again")
        await window.send("Take over", {"reason": "returns were forgotten", "sure": "again"})
        assert "12 events emitted now" in (await window.until(".note.good")).text
        assert len(window.page.all(".badge", "taken over")) == 1
        assert window.page.all("main form") == [], window.text
        assert await stock(log) == MENDED
        assert ("switch", "token:ada", "returns were forgotten") in {
            (each.what, each.by, each.reason) for each in await acts(log)
        }


async def test_pages_of_reruns_and_resets_follow_them_and_are_accessible(browser: "Browser", tmp_path: Path) -> None:
    async with mended(tmp_path) as log, running_console(log) as address, visiting(browser, address) as visit:
        page = await visit.open("/reruns/new?service=store")
        await page.fill("#rerun-name", "again")
        await page.fill("#rerun-reason", "forgotten")
        await page.get_by_role("button", name="Begin").click()
        await page.get_by_role("heading", name="What differs").wait_for()
        assert await visit.findings() == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.fill("#switch-reason", "forgotten")
        await page.fill("#sure", "again")
        await page.get_by_role("button", name="Take over").click()
        await page.locator("text=12 events emitted now").wait_for()
        assert await visit.findings() == []
        await settle(log)
        await log.prepare()
        await send(log, [("skipped", "A")])
        await visit.open("/reset?service=store&to=latest")
        assert await visit.findings() == []
        await page.fill("#reset-reason", "a test order")
        await page.fill("#sure", "1")
        await page.get_by_role("button", name="Skip for good").click()
        await page.locator("text=1 input skipped").wait_for()
        assert await visit.findings() == []


async def test_a_rerun_of_another_process_is_compared_and_deleted(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path) as (log, window):
        await begin(window)
        async with opened(log) as later:
            await later.open("/reruns/store/again")
            assert "not known to this console yet" in later.text
            await later.send("Compare now")
            await later.until("h2", "What differs")
            await later.send("Delete it")
            assert later.path == "/reruns"
            assert len(later.page.all(".empty")) == 1
        assert await reruns(log) == []
        await window.open("/reruns/store/again")
        assert await stock(log) == WRONG_DAY


async def test_a_page_that_is_read_while_its_rerun_ends_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_a_wrong_day(tmp_path) as (_, window):
        await begin(window)

        async def slowly(log: EventLog, service: Service) -> Sequence[KnownRerun]:
            found = await reruns(log, service)
            assert window.console is not None
            while (job := window.console.state.jobs.job("store", "again")) and not job.is_over:
                await asyncio.sleep(0.01)
            return found

        monkeypatch.setattr("eventlib.console.rerun_pages.reruns", slowly)
        await window.send("Take over", {"reason": "returns were forgotten", "sure": "again"})
        assert "every 1s" in window.page.one("#rerun").attributes.get("hx-trigger", ""), "what it shows is over"
        await window.until(".badge", "taken over")
        assert window.page.all("main form") == []


async def test_what_cannot_be_begun_is_said_beside_the_form(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path) as (log, window):
        for field, text in (("name", "a name"), ("since", "soon"), ("until", "later")):
            await window.open("/reruns/new?service=store")
            await window.send("Begin", {field: text, "reason": "a try"})
            assert text in window.alert
            assert window.page.one(f"#rerun-{field}")["value"] == text
        await window.open("/reruns/new?service=store")
        await window.send("Begin", {"name": "store", "reason": "a try"})
        await window.until("[role=alert]", "cannot be a rerun's name")
        assert await reruns(log) == []


async def test_a_reset_forwards_shows_what_it_skips(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path) as (log, window):
        await settle(log)
        await log.prepare()
        await send(log, [("skipped", "A")])
        await window.send("See what that does", {"to": "latest"})
        assert "store would skip 1 input for good" in window.text
        looked_at = window.path
        await window.send("Skip for good", {"reason": "a test order", "sure": "2"})
        assert "write how many inputs" in window.text
        await window.open(looked_at)
        await window.send("Skip for good", {"reason": "a test order", "sure": "1"})
        assert "1 input skipped" in window.text
        await settle(log)
        assert [(each.what, each.by, each.reason) for each in await acts(log)] == [
            ("reset", "token:ada", "a test order")
        ]
        await window.open("/reset?service=store&to=latest")
        assert "Nothing to do" in window.text
        await window.open("/reset?service=store&to=7")
        assert "write earliest, latest, or a time" in window.alert


async def test_a_reset_backwards_is_a_rerun_first(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path) as (log, window):
        await window.open("/reset?service=store&to=earliest")
        await window.send("Begin", {"reason": "forgotten"})
        assert window.path == "/reruns/store/store-reset-1"
        await window.until("h2", "What differs")
        assert await stock(log) == WRONG_DAY


async def test_an_auditor_sees_reruns_and_begins_none(tmp_path: Path) -> None:
    async with on_a_wrong_day(tmp_path, Role.AUDITOR) as (_, window):
        assert window.page.all("main form") == []
        for path in ("/reruns/new?service=store", "/reset?service=store"):
            await window.open(path)
            assert "this takes the role operator" in window.text


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
    kafka_url: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("console"))  # the indexes are in `var`
    async with open_log(kafka_url, market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with (
        open_log(kafka_url, market(), read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        await sent(client, "/reruns/new?service=store", "/reruns/new", service="store", name="again")
        await shows(client, "What differs")
        assert await stock(log) == WRONG_DAY
        await sent(client, AGAIN, f"{AGAIN}/switch", sure="again")
        await shows(client, "12 events emitted now")
        assert await stock(log) == MENDED
