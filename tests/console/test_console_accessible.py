"""Each page in a real browser: accessible in light and dark, fit for a phone, and asking no other host."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from eventlib import EventLog
from eventlib.operations.parked_groups import grouped
from eventlib.operations.pausing import pause
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget
from tests.console.browsers import DESKTOP, Visit, visiting

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
OPEN = "for (const each of [...document.querySelectorAll('main details:not([hx-get])')].slice(0, 4)) each.open = true"
"""Opens some of what a page keeps closed, but no record: one is looked at where it is read."""
GROUP = "/parked/group/"
PAGES = ("/sagas?where=status+=+'open'", "/sagas?where=nothing+=+1", "/sagas?where=declined", "/sagas/words?text=T-completed", "/saga/large?view=tree", "/saga/broken?view=effects&scale=time", "/parked", "/parked/payment/payment/broken", "/parked/order/order/garbled", GROUP, "/choreography", "/choreography/arrow?source=OrderSubmitted&target=OrderPlaced", "/topics", "/topics/orders", "/record/orders/0/0", "/send/OrderSubmitted", "/compare?one=declined&other=large", "/deployment", "/reruns", "/reruns/new?service=order", "/pause?service=order", "/overview", "/acts", "/login", "/nothing")  # fmt: skip

SAGAS = (
    "broken",
    "garbled",
    "declined?at=3&view=tree",
    "large?at=30&all=true",
    *(
        pytest.param(each, marks=pytest.mark.extended)
        for each in ("broken?view=effects", "declined", "completed?scale=steps")
    ),
)
"""Sagas that are stuck, open and ended: as they open, and at a moment."""
PALEST = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).slice(0, 4).map((each) => each / 255);
  const light = (color) => parts(color).map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0.05);
  const of = (selector, name) => [...document.querySelectorAll(selector)].map((each) => light(getComputedStyle(each)[name]));
  const papers = [...of(".card", "backgroundColor"), ...of(".lane.odd, rect.cut", "fill")];
  return Math.min(...of(".swimlane text", "fill").flatMap((ink) => papers.map((each) => Math.max(ink, each) / Math.min(ink, each))));
}"""
"""The least contrast of a text in a swimlane, which is on a card, a lane or a cut."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def visit(browser: "Browser", console: str) -> AsyncIterator[Visit]:
    """One window for all pages."""
    async with visiting(browser, console) as visit:
        yield visit


@pytest.mark.parametrize("path", PAGES)
async def test_pages_are_accessible_in_light_and_dark_and_fit_on_a_phone(
    log: EventLog, visit: Visit, path: str
) -> None:
    if path == GROUP:
        path += grouped(await parkings(log))[0].fingerprint
    if path.startswith("/pause"):  # the overview and the acts, which follow, show it
        await pause(log, PauseTarget.of(log, "order"), "os:ada", "a call")
    await visit.page.set_viewport_size(DESKTOP)
    page = await visit.open(path)
    await page.evaluate(OPEN)
    colors = set()
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)
        colors.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        rule = None if scheme == "light" else "color-contrast"  # the only one that looks at colors
        assert await visit.findings(rule) == [], scheme
    assert len(colors) == 2
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    visit.check()


@pytest.mark.parametrize("path", SAGAS)
async def test_a_saga_is_accessible_and_nothing_of_its_contrast_is_in_doubt(visit: Visit, path: str) -> None:
    for width in (1440, 390):
        await visit.page.set_viewport_size({"width": width, "height": 844})
        page = await visit.open(f"/saga/{path}")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in ("dark", "light"):
            await page.emulate_media(color_scheme=scheme)
            await page.evaluate("scrollTo(0, 0)")  # nothing is below the bar
            assert await visit.findings() == [], (scheme, width)
            assert await visit.findings("color-contrast", "incomplete") == [], (scheme, width)
            assert await page.evaluate(PALEST) >= 4.5, (scheme, width)
    top = "(selector) => document.querySelector(selector).getBoundingClientRect().top"
    assert await page.evaluate(top, ".story, .effects") < await page.evaluate(top, ".lanes"), "the story comes first"
    visit.check()
