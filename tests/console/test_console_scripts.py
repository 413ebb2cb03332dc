"""What the console's scripts do, in a real browser: keys, the slider, parts that open, the theme, own filters, and following the log."""

from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from eventlib import EventLog
from eventlib.queries.parked import parkings
from tests.console.browsers import visiting
from tests.integration.shop_log import order, served
from tests.operators import request_retries

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_search_is_begun_by_a_key(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas")
        await page.keyboard.press("/")
        await page.keyboard.type("outcome = 'order_cancelled'")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/sagas?where=outcome*")
        assert await page.locator("#found tbody th").all_inner_texts() == ["declined"]


async def test_the_search_box_completes_by_keys_alone(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas")
        box, options = page.locator("#where"), page.locator("#completions [role=option]")
        await page.keyboard.press("/")
        await page.keyboard.type("outc")
        await options.first.wait_for()
        assert await box.get_attribute("aria-expanded") == "true"
        assert await visit.findings() == []
        await page.keyboard.press("ArrowDown")
        assert await box.get_attribute("aria-activedescendant") == await options.first.get_attribute("id")
        await page.keyboard.press("Enter")
        await page.keyboard.type("= 'order_ca")
        await options.filter(has_text="'order_cancelled'").wait_for()
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        assert await box.input_value() == "outcome = 'order_cancelled' "
        await options.filter(has_text="and").wait_for()
        await page.keyboard.press("Escape")
        assert await box.get_attribute("aria-expanded") == "false"
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/sagas?where=outcome*")
        assert await page.locator("#found tbody th").all_inner_texts() == ["declined"]


async def test_times_are_shown_in_utc_and_as_local(browser: "Browser", console: str) -> None:
    async with visiting(browser, console, timezone_id="Asia/Kolkata") as visit:
        page = await visit.open("/sagas?where=saga+=+'declined'")
        time = page.locator("#found time").first
        assert (await time.inner_text()).endswith(" ago")
        at = datetime.fromisoformat(await time.get_attribute("datetime") or "")
        await page.click("[data-act=times]")
        assert await time.inner_text() == f"{at:%Y-%m-%d %H:%M:%S} Z"
        await page.keyboard.press("u")
        assert await time.inner_text() == f"{at.astimezone(ZoneInfo('Asia/Kolkata')):%Y-%m-%d %H:%M:%S}"
        assert await page.locator("[data-act=times]").inner_text() in {"Times: Asia/Kolkata", "Times: Asia/Calcutta"}
        await visit.open("/sagas?order_by=started_at+asc")
        assert not (await page.locator("#found time").first.inner_text()).endswith(" ago")


async def test_keys_of_chosen_rows_are_copied(browser: "Browser", console: str) -> None:
    async with visiting(browser, console, permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = await visit.open("/sagas")
        for key in ("large", "declined"):
            await page.check(f"input[value={key}]")
        await page.click("summary:has-text('Export')")
        await page.click("[data-act=copy]")
        await page.locator("[data-act=copy]", has_text="2 keys copied").wait_for()
        assert {*(await page.evaluate("navigator.clipboard.readText()")).split()} == {"large", "declined"}


async def test_the_slider_moves_the_whole_saga(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/declined")
        await page.locator("#moment-slider").focus()
        await page.keyboard.press("Home")
        await page.wait_for_url("**at=1")
        await page.locator(".moment-head", has_text="OrderSubmitted").wait_for()
        assert await page.locator(".decider.quiet", has_text="payment").count() == 1
        assert await page.locator(".timeline tr.later").count() == 10
        assert await page.locator(".mark.later").count() == 10
        await visit.open(page.url.removeprefix(console))
        assert await page.locator(".timeline tr.later").count() == 10


@pytest.mark.parametrize("is_first_failure", [True, False])
async def test_an_event_opens_with_its_data_and_what_it_changed(
    browser: "Browser", console: str, is_first_failure: bool
) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/declined" if is_first_failure else "/saga/declined?at=1")
        event = page.locator("#e7 details.keep, #e7 details[open]").first
        if not is_first_failure:
            await event.locator("summary").click()
        await event.locator(".json").wait_for()
        assert '"reason": "declined"' in await event.locator(".json").inner_text()
        assert await event.locator(".did").count() >= 1
        assert await event.locator(".diff ins").count() >= 1
        assert await visit.findings() == []


async def test_the_picture_and_the_list_show_the_same_moment(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/large?at=1")
        mark, row = page.locator(".mark.now-at"), page.locator("tr.now-at")

        async def shown() -> str | None:
            for each in (mark, row):
                assert await each.evaluate("""each => {
                  const inside = (outer) => { const [a, b] = [each, outer].map(e => e.getBoundingClientRect()); return a.left >= b.left - 1 && a.left < b.right && a.top >= b.top - 1 && a.top < b.bottom };
                  return inside(each.closest(".lanes-scroll, .story")) && each.getBoundingClientRect().top < innerHeight;
                }""")
            number = await row.get_attribute("data-number")
            assert await mark.get_attribute("data-number") == number
            return number

        assert await shown() == "1"
        for key, number in (("]", "2"), ("]", "3"), ("]", "15"), ("[", "3")):  # the 3rd to the 14th are one line
            await page.keyboard.press(key)
            assert await shown() == number
        assert await page.locator("tr details[open]").count() == 0, "what was open as the page began is behind"
        assert await mark.get_attribute("data-label") == "LineRequested ×12"  # noqa: RUF001  the sign for "times"
        await page.locator(".mark").last.click()
        last = await shown()
        assert last is not None
        assert int(last) > 40
        await page.locator("tr.now-at a[href^='#e']").click()
        assert int(await shown() or 0) < int(last), "its cause"
        await page.locator("#e2 summary").first.click()
        assert await shown() == "2"
        await page.locator("#moment .moment-head", has_text="OrderPlaced").wait_for()
        await page.wait_for_url("**at=2")
        page = await visit.open("/saga/large#e15")
        assert await shown() == "15"


async def test_everything_can_be_reached_by_keys(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/overview")
        for key, path in (("s", "/sagas"), ("p", "/parked"), ("c", "/choreography"), ("t", "/topics"), ("a", "/acts")):
            await page.keyboard.press("g")
            await page.keyboard.press(key)
            await page.wait_for_url(f"{console}{path}")
            await visit.settled()
        await page.keyboard.press("?")
        assert await page.locator("#keys").is_visible()
        assert await visit.findings() == []
        await page.keyboard.press("Escape")
        assert not await page.locator("#keys").is_visible()
        await visit.open("/sagas?where=status+%3C%3E+'open'")  # each of these has several moments
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        second = await page.locator("#found tbody th").nth(1).inner_text()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{console}/saga/{second}")
        await page.keyboard.press("[")
        await page.wait_for_url("**at=*")


async def test_the_theme_is_chosen_and_kept(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        await visit.page.emulate_media(color_scheme="light")
        page = await visit.open("/sagas")
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.keyboard.press("t")
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await visit.open("/parked")
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == dark != light


async def test_a_browser_keeps_filters_of_its_own(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas?where=compensations+%3E+0")
        await page.click("text=Filters")
        await page.fill("#filter-name", "<b>mine</b>")
        await page.keyboard.press("Enter")
        await page.locator("#own-filters .count", has_text="1").wait_for()
        await visit.open("/sagas")
        await page.locator("#own-filters .count", has_text="1").wait_for()
        assert (await page.locator("#own-filters a").inner_text()).split() == ["<b>mine</b>", "1"]
        await page.click("#own-filters a")
        await page.wait_for_url("**compensations*")
        await page.click("#own-filters button")
        assert await page.locator("#own-filters li").count() == 0


async def test_open_pages_follow_what_happens(browser: "Browser", log: EventLog, console: str) -> None:
    async with visiting(browser, console) as visit, visiting(browser, console) as other:
        page, sagas = await visit.open("/saga/broken"), await other.open("/sagas?where=saga+%3D+'new'")
        await page.evaluate("window.same = true")
        assert await page.locator("tr[data-number]").count() == 6
        await request_retries(log, await parkings(log, {"broken"}), by="os:ada", reason="a test")
        await log.publish_many([order("new")])
        await served(log, mended=True)
        await page.locator(".timeline tr.ends").wait_for()
        assert await page.locator(".title .badge").inner_text() == "Order completed"
        assert await page.evaluate("window.same")
        await sagas.locator("#found tbody .badge", has_text="Order completed").wait_for()
