"""Two sagas side by side: aligned by the types of their events, and their states where these differ."""

from typing import TYPE_CHECKING

import pytest

from eventlib.console.compare_page import aligned
from eventlib.log.record import Record
from eventlib.model.saga import Saga, saga_of
from tests.console.browsers import visiting
from tests.console.rates_app import app

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


def saga(key: str, types: str) -> Saga:
    records = [
        Record("asked", 0, at, at, key.encode(), b"", id=f"{key}{at}", type=name) for at, name in enumerate(types)
    ]
    return saga_of(key, [(record, None) for record in records], app)


def shown(one: str, other: str) -> list[str]:
    pairs = aligned(saga("1", one), saga("2", other))
    return [
        f"{'-' if pair.one is None else pair.one.event.type}{'-' if pair.other is None else pair.other.event.type}"
        for pair in pairs
    ]


@pytest.mark.parametrize(
    ("one", "other", "lines"),
    [
        ("ABC", "ABC", "AA BB CC"),
        ("ABC", "ABDC", "AA BB -D CC"),
        ("ABC", "AC", "AA B- CC"),
        ("ABX", "ABYZ", "AA BB XY -Z"),
        ("A", "B", "AB"),
    ],
)
async def test_events_are_aligned_by_type(one: str, other: str, lines: str) -> None:
    assert shown(one, other) == lines.split()


async def test_a_saga_that_never_ends_is_compared_in_its_first_lines() -> None:
    assert len(shown("AB" * 3_000, "BA" * 3_000)) <= 1_000


async def test_two_sagas_are_compared_from_the_page_of_one(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/declined")
        await page.click("text=Compare")
        await page.wait_for_url("**/compare?one=declined")
        assert await visit.findings() == []
        await page.get_by_role("link", name="completed", exact=True).click()
        await page.wait_for_url("**/compare?one=declined&other=completed")
        rows = page.get_by_label("Events side by side").locator("tbody > tr")
        texts = [" ".join((await each.inner_text()).split()) for each in await rows.all()]
        (parted,) = [each for each in texts if "PaymentFailed" in each]
        assert "PaymentTaken" in parted
        assert "another event" in parted
        assert await page.locator("tr.apart").count() > 1
        states = await page.locator(".states").inner_text()
        payment = " ".join(states.partition("payment payment")[2].split())
        assert "stage failed taken" in payment
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
            assert await visit.findings() == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_a_saga_and_itself_do_not_differ(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/compare?one=declined&other=declined")
        assert "both have the same" in await page.locator("main").inner_text()
        assert await page.locator(".states .diff, .compare details").count() == 0


async def test_a_key_that_is_not_there_is_named(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/compare?one=declined&other=nothing")
        assert "nothing" in await page.locator("[role=alert]").inner_text()
        assert await page.input_value("[name=other]") == "nothing"
