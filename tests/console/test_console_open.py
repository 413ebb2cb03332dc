"""What is not over yet: the page of an open saga works as that of an ended one, and what is looked at stays."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from eventlib import EventLog
from eventlib.console.moments import moment_of
from eventlib.console.reading import ConsoleIndex, SagaReader
from eventlib.json_form import json_of
from tests.console.browsers import visiting
from tests.integration.shop_log import order

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_of_an_open_saga_works(browser: "Browser", console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/saga/broken")
        assert await page.locator("#saga[hx-get]").count() == 1, "it is open, and follows what happens"
        await page.locator("#moment .decider .fields").first.wait_for()
        now = await page.locator("#moment-number").inner_text()
        assert now.startswith("now, after all")
        await page.focus("#moment-slider")
        await page.keyboard.press("Home")
        await page.locator("#moment .moment-head", has_text="OrderSubmitted").wait_for()
        await page.locator("[data-act=now]").click()
        await page.locator("#moment .moment-head", has_text="OrderSubmitted").wait_for(state="detached")
        event = page.locator("details.keep").first
        await event.locator("summary").click()
        await event.locator(".record pre, .record dl, .record table").first.wait_for()


@pytest.mark.parametrize("key", ["broken", "declined"])
async def test_now_is_after_what_handled_the_last_event(log: EventLog, key: str) -> None:
    async with ConsoleIndex(log) as index:
        assert await index.caught_up(30)
        reader = SagaReader(index)
        saga = await reader.saga(key, personal=True)
        assert saga is not None
        histories = [
            replace(each, steps=[*each.steps[:-1], replace(each.steps[-1], at=each.steps[-1].at + timedelta(hours=1))])
            for each in await reader.histories(saga)
        ]
    now = moment_of(saga, histories, len(saga.events), personal=True)
    shown = {each.history.decider.name: {field.name: field.value for field in each.fields} for each in now}
    latest = {each.decider.name: each.steps[-1].after for each in histories}
    assert shown.items() >= {name: json_of(state) for name, state in latest.items() if state is not None}.items()


@pytest.mark.parametrize(
    ("text", "query"),
    [("broken", "saga = 'broken'"), (" France ", "country = 'France'"), ("no such order", "no such order")],
)
async def test_a_pasted_key_or_value_is_found(browser: "Browser", console: str, text: str, query: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas")
        await page.fill("#where", text)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**where=*")
        assert await page.input_value("#where") == query
        assert await page.locator("[role=alert]").count() == 0
        assert (await page.locator("#found [data-row]").count() > 0) is ("such" not in text)
        await visit.open("/sagas?where=status")
        assert await page.locator("[role=alert]").count() == 1, "the name of an attribute begins a query"


async def test_what_is_looked_at_stays_and_what_is_new_waits(browser: "Browser", log: EventLog, console: str) -> None:
    async with visiting(browser, console) as visit:
        page = await visit.open("/sagas")
        row = page.locator("#found [data-row]").first
        await row.hover()
        key = await row.locator("a.row-link").inner_text()
        await log.publish_many([order("later-1"), order("later-2")])
        await page.locator("#news", has_text="2 new").wait_for()
        assert await page.locator("#found [data-row] a.row-link").first.inner_text() == key
        await page.locator("#news").click()
        await page.locator("#found a.row-link", has_text="later-2").wait_for()
        await page.locator("#news").wait_for(state="hidden")
        await page.locator("#found [data-row]").first.hover()
        await log.publish_many([order("later-3")])
        await page.locator("#news", has_text="1 new").wait_for()
        await page.locator("h1, .brand").first.hover()
        await page.locator("#found a.row-link", has_text="later-3").wait_for()
