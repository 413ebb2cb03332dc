"""Pauses in a browser: what would wait is counted first, then paused and resumed, with who and why on the log."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib import open_log
from eventlib.identity import Role
from eventlib.operations.acts import acts
from eventlib.operations.pausing import pause
from eventlib.queries.pauses import PauseTarget, pauses
from examples.payouts import desk
from tests.console.parked_rates import broken, logged_in, parked_log, settled
from tests.console.rates_app import RateAsked

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_service_is_paused_seen_on_the_overview_and_resumed(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/overview")
        await page.get_by_role("link", name="Pause rates").click()
        assert await page.locator("h1").inner_text() == "service rates"
        assert await visit.findings() == []
        await page.get_by_label("Part").select_option("decider:quotes")
        await page.get_by_label("Key of the decider").fill("MT")
        await page.get_by_role("button", name="See what would wait").click()
        assert await page.locator("h1").inner_text() == "key MT of quotes"
        assert (await page.locator(".summary dd").all_inner_texts()) == ["2", "0"]
        await page.fill("#pause-reason", "a <b>call</b>")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await page.get_by_role("button", name="Resume").wait_for()
        (found,) = await pauses(log)
        assert (str(found.target), found.by, found.reason) == ("key MT of quotes", "token:ada", "a <b>call</b>")
        assert await visit.findings() == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.set_viewport_size({"width": 1280, "height": 800})
        await visit.open("/overview")
        assert "key MT of quotes is paused" in await page.get_by_label("Paused").inner_text()
        assert await visit.findings() == []
        await page.get_by_label("Paused").get_by_role("link").click()
        await page.fill("#pause-reason", "done")
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_role("button", name="Pause", exact=True).wait_for()
        assert await pauses(log) == []
        assert {(each.what, each.about, each.reason) for each in await acts(log)} >= {
            ("pause", "key MT of quotes", "a <b>call</b>"),
            ("resume", "key MT of quotes", "done"),
        }


async def test_a_paused_key_shows_what_its_inputs_would_come_to(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await pause(log, PauseTarget.of(log, "rates", key="NZ"), "eve", "a call")
        await log.publish(RateAsked(name="NZ", number=7))
        await settled(log)
        await visit.open("/pause?service=rates&what=decider%3Aquotes&key=NZ")
        assert "would be handled, and 1 event be emitted." in await page.locator("#released").inner_text()
        assert await visit.findings() == []
        with broken():
            await visit.open("/pause?service=rates&what=decider%3Aquotes&key=NZ")
            assert "would park again: KeyError" in await page.locator("#released").inner_text()


async def test_a_limit_is_set_at_run_time_and_goes_back(browser: "Browser", tmp_path: Path) -> None:
    async with (
        open_log(f"sqlite:///{tmp_path}/desk.db", desk) as log,
        logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page),
    ):
        await visit.open("/overview")
        limits = page.get_by_role("region", name="Limits of effects").locator("tbody tr")
        assert [await each.locator("th, td").all_inner_texts() for each in await limits.all()] == [
            ["RecallRequested", "payout", "no numbers", "", "the decider's key", "3", "", "Change…"],
            ["bank", "payout", "50 a second, 8 at once, 16 concurrent", "", "customer_id", "1", "", "Change…"],
        ]
        await page.get_by_role("link", name="Change limit bank of payout").click()
        assert await page.locator("h1").inner_text() == "limit bank of payout"
        assert await page.get_by_role("button", name="Pause", exact=True).count() == 0  # it would be all of the service
        await page.get_by_label("Attempts a second").fill("many")
        await page.fill("#limit-reason", "they had an outage")
        await page.get_by_role("button", name="Set", exact=True).click()
        assert "are numbers above 0" in await page.get_by_role("alert").inner_text()
        await page.get_by_label("Attempts a second").fill("20")
        await page.fill("#limit-reason", "they had an outage")
        await page.get_by_role("button", name="Set", exact=True).click()
        await page.get_by_role("button", name="Resume").wait_for()
        (found,) = await pauses(log)
        assert (str(found.target), found.by, found.allows) == ("limit bank of payout", "token:ada", "20 a second")
        assert "they had an outage (20 a second)" in await page.locator(".note").first.inner_text()
        assert await visit.findings() == []
        await visit.open("/overview")
        assert "limit bank of payout is set to 20 a second" in await page.get_by_label("Paused").inner_text()
        assert "20 a second by token:ada" in await limits.last.inner_text()
        assert await visit.findings() == []
        await page.get_by_label("Paused").get_by_role("link").click()
        assert await page.locator("h1").inner_text() == "limit bank of payout"
        await page.fill("#pause-reason", "it is over")
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_role("button", name="Resume").wait_for(state="detached")
        assert all(each.is_ending for each in await pauses(log))


async def test_a_pause_that_cannot_be_says_why(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/pause?service=rates&what=decider:nobody")
        assert "rates has no decider 'nobody'" in await page.get_by_role("alert").inner_text()
        assert await page.locator("main form[method=post]").count() == 0
