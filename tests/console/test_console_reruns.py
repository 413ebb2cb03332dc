"""Reruns and resets in a browser: looked at before they begin, followed, compared, and taken over with who and why on the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib import EventLog, open_log
from eventlib.console.sessions import SessionIdentity
from eventlib.identity import Role, add_token
from eventlib.identity.options import identity_options
from eventlib.operations.acts import acts
from eventlib.operations.reprocessing.listing import reruns
from tests.console.browsers import Visit, running_console, visiting
from tests.integration.market import Code, market
from tests.integration.rerunning import send, settle, some_short_baskets
from tests.integration.test_admin_reruns import MENDED, WRONG_DAY, stock
from tests.issuers import SECRET

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def on_a_wrong_day(
    browser: "Browser", directory: Path, role: Role = Role.OPERATOR
) -> "AsyncIterator[tuple[EventLog, Visit, Page]]":
    """A console of the mended code, on a log that wrong code has written; a window on its page of reruns."""
    url, file = f"sqlite:///{directory}/log.db", directory / "tokens.json"
    async with open_log(url, market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    text, _ = add_token(file, "ada", [role])
    identity = SessionIdentity(identity_options(tokens_file=file, key=SECRET))
    async with (
        open_log(url, market(), read_only=True) as log,
        running_console(log, identity) as address,
        visiting(browser, address) as visit,
    ):
        page = await visit.open("/reruns")
        await page.fill("#token", text)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{address}/reruns")
        yield log, visit, page


async def begin(page: "Page") -> None:
    await page.get_by_role("button", name="See what that goes through").click()
    await page.fill("#rerun-name", "again")
    await page.fill("#rerun-reason", "returns were <b>forgotten</b>")
    await page.get_by_role("button", name="Begin").click()
    await page.wait_for_url("**/reruns/store/again")


async def test_a_rerun_is_begun_compared_and_taken_over(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path) as (log, visit, page):
        assert await visit.findings() == []
        await page.get_by_role("button", name="See what that goes through").click()
        assert "transactions of 8 tasks" in await page.locator(".summary").inner_text()
        assert await visit.findings() == []
        await page.go_back()
        await begin(page)
        await page.get_by_role("heading", name="What differs").wait_for()
        row = page.get_by_label("What differs, by decider").locator("tr", has_text="basket")
        assert (await row.inner_text()).split() == ["basket", "6", "0", "24", "0", "12", "0"]
        assert await page.locator(".badge.good", has_text="added").count() == 12
        assert "left" in await page.locator(".diff").first.inner_text()
        assert "returns were <b>forgotten</b>" in await page.locator("main").inner_text()
        assert await visit.findings() == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        assert await stock(log) == WRONG_DAY
        await page.fill("#switch-reason", "returns were forgotten")
        await page.fill("#sure", "agan")
        await page.get_by_role("button", name="Take over").click()
        assert "write again to have store take over" in await page.locator("main").inner_text()
        assert {each.what for each in await acts(log)} == {"rerun"}
        await page.go_back()
        await page.fill("#switch-reason", "returns were forgotten")
        await page.fill("#sure", "again")
        await page.get_by_role("button", name="Take over").click()
        await page.locator("text=12 events emitted now").wait_for()
        assert await page.locator(".badge", has_text="taken over").count() == 1
        assert await page.locator("main form").count() == 0
        assert await visit.findings() == []
        assert await stock(log) == MENDED
        assert ("switch", "token:ada", "returns were forgotten") in {
            (each.what, each.by, each.reason) for each in await acts(log)
        }


async def test_a_rerun_of_another_process_is_compared_and_deleted(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path) as (log, visit, page):
        await begin(page)
        await page.get_by_role("heading", name="What differs").wait_for()
        async with running_console(log) as other, visiting(browser, other) as later:
            window = await later.open("/reruns/store/again")
            assert "not known to this console yet" in await window.locator("main").inner_text()
            await window.get_by_role("button", name="Compare now").click()
            await window.get_by_role("heading", name="What differs").wait_for()
            await window.get_by_role("button", name="Delete it").click()
            await window.wait_for_url(f"{other}/reruns")
            assert await window.locator(".empty").count() == 1
        assert await reruns(log) == []
        await visit.open("/reruns/store/again")
        assert await stock(log) == WRONG_DAY


async def test_what_cannot_be_begun_is_said_beside_the_form(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path) as (log, visit, page):
        for field, text, said in (
            ("#rerun-name", "a name", "a name"),
            ("#rerun-since", "soon", "soon"),
            ("#rerun-until", "later", "later"),
        ):
            await visit.open("/reruns/new?service=store")
            await page.fill(field, text)
            await page.fill("#rerun-reason", "a try")
            await page.get_by_role("button", name="Begin").click()
            assert said in await page.locator("[role=alert]").inner_text()
            assert await page.input_value(field) == text
        await visit.open("/reruns/new?service=store")
        await page.fill("#rerun-name", "store")
        await page.fill("#rerun-reason", "a try")
        await page.get_by_role("button", name="Begin").click()
        await page.locator("[role=alert]", has_text="cannot be a rerun's name").wait_for()
        assert await reruns(log) == []


async def test_a_reset_forwards_shows_what_it_skips(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path) as (log, visit, page):
        await settle(log)
        await log.prepare()
        await send(log, [("skipped", "A")])
        await page.fill("[name=to]", "latest")
        await page.get_by_role("button", name="See what that does").click()
        assert "store would skip 1 input for good" in await page.locator("main").inner_text()
        assert await visit.findings() == []
        await page.fill("#reset-reason", "a test order")
        await page.fill("#sure", "2")
        await page.get_by_role("button", name="Skip for good").click()
        assert "write how many inputs" in await page.locator("main").inner_text()
        await page.go_back()
        await page.fill("#reset-reason", "a test order")
        await page.fill("#sure", "1")
        await page.get_by_role("button", name="Skip for good").click()
        await page.locator("text=1 input skipped").wait_for()
        assert await visit.findings() == []
        await settle(log)
        assert [(each.what, each.by, each.reason) for each in await acts(log)] == [
            ("reset", "token:ada", "a test order")
        ]
        await visit.open("/reset?service=store&to=latest")
        assert "Nothing to do" in await page.locator("main").inner_text()
        await visit.open("/reset?service=store&to=7")
        assert "write earliest, latest, or a time" in await page.locator("[role=alert]").inner_text()


async def test_a_reset_backwards_is_a_rerun_first(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path) as (log, visit, page):
        await visit.open("/reset?service=store&to=earliest")
        assert await visit.findings() == []
        await page.fill("#reset-reason", "forgotten")
        await page.get_by_role("button", name="Begin").click()
        await page.wait_for_url("**/reruns/store/store-reset-1")
        await page.get_by_role("heading", name="What differs").wait_for()
        assert await stock(log) == WRONG_DAY


async def test_an_auditor_sees_reruns_and_begins_none(browser: "Browser", tmp_path: Path) -> None:
    async with on_a_wrong_day(browser, tmp_path, Role.AUDITOR) as (_, visit, page):
        assert await page.locator("main form").count() == 0
        for path in ("/reruns/new?service=store", "/reset?service=store"):
            await visit.open(path)
            assert "this takes the role operator" in await page.locator("main").inner_text()
