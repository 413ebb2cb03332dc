"""Acts from a browser: what is parked is looked at, tried, edited, retried, discarded; once, with who and why on the log."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from eventlib import EventLog
from eventlib.identity import Role
from eventlib.operations.acts import acts
from eventlib.queries.parked import parkings
from tests.console.parked_rates import broken, logged_in, parked_log, settled
from tests.console.rates_app import RateAsked, RateQuoted, app
from tests.saga.shop_runs import ROOT

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def quoted(log: EventLog) -> list[tuple[str, int]]:
    topic = next(topic for topic in app.topics if topic.name == "quoted")
    records = [each for p in range(topic.partitions) for each in await log.port.read("quoted", p, 0, 100)]
    events = [event for _, event in await log.decode_many(records)]
    return sorted((event.name, event.number) for event in events if isinstance(event, RateQuoted))


async def test_a_group_is_tried_and_retried_once_by_two_operators(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        assert await page.locator(".group").count() == 1, "KeyErrors about other names are one cause"
        await page.locator(".group .button").click()
        await page.locator(".prospect").first.wait_for()
        assert "3 would be handled" in (await page.locator("#preview-retry").inner_text()).replace("\n", " ")
        assert "4 RateQuoted" in await page.locator("#preview-retry").inner_text()
        discarded = (await page.locator("#preview-discard").inner_text()).replace("\n", " ")
        assert ("3 would be discarded" in discarded, "1 RateQuoted" in discarded) == (True, True)
        assert await visit.findings() == []
        other = await visit.context.new_page()
        await other.goto(page.url)
        for each in (page, other):
            await each.fill("#group-reason", "mended by <b>ada</b>")
        await asyncio.gather(*(each.get_by_role("button", name="Retry").click() for each in (page, other)))
        await page.wait_for_url("**/parked/batch/*")
        assert "3 asked, not handled yet" in (await page.locator(".prospects").inner_text()).replace("\n", " ")
        await settled(log)
        await page.locator(".prospect.is .big-count", has_text="3").wait_for()
        assert await quoted(log) == [("FO", 2), ("IS", 1), ("MT", 0), ("MT", 3)]
        assert {(act.what, act.by, act.reason) for act in await acts(log)} == {
            ("retry", "token:ada", "mended by <b>ada</b>")
        }
        await visit.open("/acts")
        assert "mended by <b>ada</b>" in await page.locator("main").inner_text()


async def test_two_retry_at_once_while_the_service_is_killed_and_each_input_is_handled_once(
    browser: "Browser", tmp_path: Path
) -> None:
    names, drawn = [f"N{number}" for number in range(30)], Random(22)
    async with parked_log(tmp_path, names) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await page.locator(".group .button").click()
        other = await visit.context.new_page()
        await other.goto(page.url)
        for each in (page, other):
            await each.locator(".prospect").first.wait_for()
            await each.fill("#group-reason", "mended")
        command = [sys.executable, "-m", "eventlib", "run", "--app", "tests.console.rates_app:app"]
        command += ["--log", f"sqlite:///{tmp_path}/log.db"]
        clicks = [asyncio.ensure_future(each.get_by_role("button", name="Retry").click()) for each in (page, other)]
        for _ in range(4):
            service = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=DEVNULL)
            await asyncio.sleep(drawn.uniform(0.5, 2))
            service.kill()
            await service.wait()
        await asyncio.gather(*clicks)
        following = [asyncio.ensure_future(each.wait_for_url("**/parked/batch/*")) for each in (page, other)]
        done, slower = await asyncio.wait(following, return_when=asyncio.FIRST_COMPLETED)
        for found in done:
            found.result()
        for refused in slower:  # perhaps: if all was handled by then, its preview no longer holds
            refused.cancel()
        await asyncio.gather(*slower, return_exceptions=True)
        await settled(log)
        assert await quoted(log) == sorted([*zip(names, range(30), strict=True), (names[0], 30)])
        assert await parkings(log) == []


async def test_some_are_chosen_and_what_parks_again_is_told_before_and_after(
    browser: "Browser", tmp_path: Path
) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (_, page):
        with broken():
            await page.locator(".group .button").click()
            await page.locator("#preview-retry .prospect.parks", has_text="3").wait_for()
            assert "no rate for" in await page.locator(".preview-card").inner_text()
            await page.check("input[name=chosen] >> nth=0")
            await page.check("input[value=chosen]")
            await page.fill("#group-reason", "a try")
            await page.get_by_role("button", name="Retry").click()
            await page.wait_for_url("**/parked/batch/*")
            await settled(log)
            await page.locator(".prospect.parks .big-count", has_text="1").wait_for()
        assert len(await parkings(log)) == 3
        assert await quoted(log) == []


async def test_an_input_is_edited_after_its_difference_was_shown(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/parked/rates/quotes/IS")
        await page.fill("#field-number", "seven")
        await page.click("button[value=preview]")
        assert "is no integer" in await page.locator("[role=alert]").inner_text()
        await page.fill("#field-number", "70")
        await page.click("button[value=preview]")
        assert (await page.locator("#difference tbody").inner_text()).split() == ["number", "1", "70"]
        assert (await page.locator("#preview-edit .facts").inner_text()).split() == ["name", "IS", "number", "70"]
        await page.click("button[value=send]")
        assert "give a reason" in await page.locator("[role=alert]").inner_text()
        assert await acts(log) == []
        await page.fill("#edit-reason", "a typo")
        await page.click("button[value=send]")
        await page.wait_for_url("**/parked/batch/*")
        await settled(log)
        await page.locator(".badge", has_text="handled").wait_for()
        assert ("IS", 70) in await quoted(log)
        assert [(act.what, act.reason) for act in await acts(log)] == [("edit", "a typo")]


async def test_an_act_is_refused_when_the_log_has_moved_on_since_its_page(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/parked/rates/quotes/IS")
        assert "it would be discarded" in await page.locator("#preview-discard").inner_text()
        await log.publish(RateAsked(name="IS", number=9))
        with broken():
            await settled(log)  # another input waits behind the first
        await page.fill("#retry-reason", "mended")
        await page.get_by_role("button", name="Retry").click()
        assert "the log has moved on" in await page.locator("main").inner_text()
        assert await acts(log) == []
        await visit.open("/parked/rates/quotes/IS")
        assert "2 of 2 inputs go through" in await page.locator("#preview-retry").inner_text()
        await page.fill("#retry-reason", "mended")
        await page.get_by_role("button", name="Retry").click()
        await page.wait_for_url("**/parked/batch/*")
        await settled(log)
        assert ("IS", 9) in await quoted(log)


async def test_a_group_is_discarded_only_by_its_number(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (_, page):
        await page.locator(".group .button").click()
        await page.fill("#group-reason", "tests")
        await page.fill("#sure", "2")
        await page.get_by_role("button", name="Discard for good").click()
        assert "write that number" in await page.locator("main").inner_text()
        assert await acts(log) == []
        await page.go_back()
        await page.fill("#group-reason", "tests")
        await page.fill("#sure", "3")
        await page.get_by_role("button", name="Discard for good").click()
        await page.wait_for_url("**/parked/batch/*")
        await settled(log)
        assert [act.what for act in await acts(log)] == ["discard"] * 3
        assert [each.key for each in await parkings(log)] == []
        assert await quoted(log) == [("MT", 3)]


async def test_a_group_that_has_grown_since_its_preview_is_not_retried(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (_, page):
        await page.locator(".group .button").click()
        await page.locator(".prospect").first.wait_for()
        await log.publish(RateAsked(name="IS", number=9))
        await settled(log)
        await page.fill("#group-reason", "mended")
        await page.get_by_role("button", name="Retry").click()
        await page.get_by_text("the log has moved on").wait_for()
        assert await acts(log) == []
        await page.go_back()
        await page.reload()
        await page.locator(".prospect").first.wait_for()
        await page.fill("#group-reason", "mended")
        await page.get_by_role("button", name="Retry").click()
        await page.wait_for_url("**/parked/batch/*")
        await settled(log)
        assert ("IS", 9) in await quoted(log)


async def test_what_is_parked_is_found_by_a_query(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        for where, count in (("key = 'IS'", "1"), ("waiting > 1", "1"), ("age > 2h", "0")):
            await page.fill("input[name=where]", where)
            await page.keyboard.press("Enter")
            await page.locator(".title .badge", has_text=count).wait_for()
        await page.fill("input[name=where]", "nothing = 1")
        await page.keyboard.press("Enter")
        assert "column 1" in await page.locator("[role=alert]").inner_text()
        assert await visit.findings() == []
