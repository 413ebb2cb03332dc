"""Each page in a real browser: what it shows, that it is accessible, and that it asks no other host."""

import re
from typing import TYPE_CHECKING

import pytest

from eventlib import EventLog
from eventlib.operations.edge_traffic import Passage, Passages
from eventlib.operations.parked_commands import request_retries
from eventlib.queries.parked import parkings
from tests.console.browsers import visiting
from tests.integration.shop_log import order, served

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_sagas_are_found_by_a_query_whose_address_can_be_sent(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas")
        assert await page.locator("#found tbody tr").count() == 5
        await page.keyboard.press("/")
        await page.keyboard.type("outcome = 'order_cancelled'")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/sagas?where=outcome*")
        assert await page.locator("#found tbody th").all_inner_texts() == ["declined"]
        async with visiting(browser, console) as colleague:
            other = await colleague.open(page.url.removeprefix(console))
            assert await other.locator("#found tbody th").all_inner_texts() == ["declined"]


async def test_a_wrong_query_is_marked_where_it_is_wrong(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas?where=status+=+'open'+and+nothing+=+1")
        assert await page.locator("#wrong mark").inner_text() == "nothing = 1"
        assert "status" in await page.locator("#wrong p").inner_text()
        assert await visit.findings() == []


async def test_a_saga_shows_what_happened_and_what_was_known(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/declined")
        assert "order_cancelled" in await page.locator(".title").inner_text()
        events = await page.locator(".timeline .event strong").all_inner_texts()
        assert events[0] == "OrderSubmitted"
        assert events[-1] == "OrderCancelled"
        await visit.open("/saga/declined?at=7")  # PaymentFailed: what follows may share its millisecond, or not
        payment = page.locator(".decider", has_text="payment").last
        assert "charging → failed" in (await payment.inner_text()).replace("\n", " ")


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


async def test_an_event_opens_with_its_data_and_what_it_changed(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/declined")
        event = page.locator("#e7 details")
        await event.locator("summary").click()
        await event.locator(".json").wait_for()
        assert '"reason": "declined"' in await event.locator(".json").inner_text()
        assert await event.locator(".did").count() >= 1
        assert await event.locator(".diff ins").count() >= 1
        assert await visit.findings() == []


PAGES = ("/overview", "/sagas", "/sagas?where=status+=+'open'", "/saga/declined", "/saga/large?view=tree", "/saga/broken?view=effects&scale=time", "/parked", "/parked/payment/payment/broken", "/parked/order/order/garbled", "/choreography", "/choreography/arrow?source=OrderSubmitted&target=OrderPlaced", "/topics", "/topics/orders", "/record/orders/0/0", "/send/OrderSubmitted", "/compare", "/compare?one=declined&other=large", "/acts", "/deployment", "/reruns", "/reruns/new?service=order", "/reset?service=order&to=latest", "/login", "/nothing")  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
async def test_pages_are_accessible_in_light_and_dark_and_fit_on_a_phone(
    browser: "Browser", console: str, path: str
) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open(path)
        colors = set()
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            colors.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
            rule = None if scheme == "light" else "color-contrast"  # the only one that looks at colors
            assert await visit.findings(rule) == [], scheme
        assert len(colors) == 2
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360


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
    async with visiting(browser, console, color_scheme="light") as visit:
        page = await visit.open("/sagas")
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.keyboard.press("t")
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await visit.open("/parked")
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == dark != light


async def test_a_browser_keeps_filters_of_its_own(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas?where=compensations+%3E+0")
        await page.click("text=Keep this filter")
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
        assert await page.locator(".timeline tbody tr").count() == 6
        await request_retries(log, await parkings(log, {"broken"}), by="os:ada", reason="a test")
        await log.publish_many([order("new")])
        await served(log, mended=True)
        await page.locator(".timeline tr.ends").wait_for()
        assert await page.locator(".title .badge").inner_text() == "order_completed"
        assert await page.evaluate("window.same")
        await sagas.locator("#found tbody .badge", has_text="order_completed").wait_for()


async def test_an_arrow_leads_to_the_sagas_that_went_along_it(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/choreography")
        row = page.get_by_label("Arrows").locator("tr", has=page.get_by_role("link", name="PaymentFailed")).first
        await row.wait_for()
        cells = await row.locator("td").all_inner_texts()
        assert cells[3] == "1"
        assert cells[4] == cells[5]
        assert cells[5].endswith("ms")
        way = await row.get_by_role("link").get_attribute("href")
        in_picture = page.locator(f".diagram a[href='{way}']")
        assert await in_picture.count() == 2, "the arrow, and what stands on it"
        assert cells[5].replace(" ", "") in (await in_picture.last.text_content() or "").replace(" ", "")
        await in_picture.last.click()
        await page.wait_for_url("**/choreography/arrow?*")
        assert await visit.findings() == []
        for title in ("The slowest", "The latest"):
            assert await page.get_by_label(title).locator("tbody th").all_inner_texts() == ["declined"]
        await page.get_by_label("The slowest").get_by_role("link", name="declined").click()
        await page.wait_for_url("**/saga/declined")


async def test_sinks_and_subscribers_stand_below_what_they_get(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/choreography")
        rows = page.get_by_label("Arrows").locator("tbody tr", has_text="webhook billing")
        placed = rows.filter(has_text="OrderPlaced")
        await placed.locator("td:nth-child(4)", has_text=re.compile(r"\d")).wait_for()
        assert (await placed.locator("td").all_inner_texts())[:3] == ["OrderPlaced", "billing", "webhook billing"]
        assert await rows.count() == 2
        drawn = await page.locator(".diagram").text_content() or ""
        assert [name for name in ("sinks", "webhooks", "reports", "billing") if name not in drawn] == []
        assert await visit.findings() == []


async def test_the_newest_and_the_slowest_of_an_arrow_are_kept() -> None:
    passages = Passages(3)
    for at_ms, took_ms in enumerate((5, 90, 1, 2, 80, 3, 70, 4)):
        passages.add(Passage(took_ms, at_ms, ("t", 0, at_ms), "c"))
    assert [each.took_ms for each in passages.slowest] == [90, 80, 70]
    assert [each.took_ms for each in passages.newest] == [3, 70, 4]
