"""Jobs of an operator from the first page to the answer, by mouse, on a phone, and by the keyboard alone."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from eventlib import EventLog, Publication
from services.order.events import OrderLine, OrderSubmitted
from tests.console.browsers import running_console, visiting
from tests.console.parked_rates import parked_log, settled
from tests.console.walks import Walk
from tests.integration.shop_log import order, served
from tests.saga.shop_runs import ROOT

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
NAME = "李 ليلى"
HERE = ".timeline tr[aria-current=step]"
GUIDE = ROOT / "docs" / "how-to" / "use-the-console.md"


Job = Callable[[Walk, EventLog], Awaitable[None]]
JOBS: dict[str, Job] = {}


def job(title: str) -> Callable[[Job], Job]:
    def registered(walked: Job) -> Job:
        JOBS[title] = walked
        return walked

    return registered


async def search(walk: Walk, text: str, key: str) -> None:
    """Find a saga by a text, from any page."""
    await walk.open("/overview")
    await walk.key("/")
    await walk.write("where", text)
    await walk.key("Enter")
    await walk.sees("a.row-link", key)


@job("Find the order of a customer")
async def find(walk: Walk, _log: EventLog) -> None:
    await search(walk, NAME, "theirs")


@job("Find the order of an event's id in a log line")
async def find_event(walk: Walk, log: EventLog) -> None:
    records = [each for p in range(8) for each in await log.port.read("payments", p, 0, 50)]
    declined = next(each for each in records if each.type == "PaymentFailed")
    await search(walk, declined.event_id, "declined")


@job("See why an order is stuck")
async def see_stuck(walk: Walk, _log: EventLog) -> None:
    await walk.open("/sagas?where=waiting_kind+%3D+'parked'&order_by=started_at+asc")
    await walk.link("broken")
    await walk.sees(".note.bad", "the gateway does not know us")


@job("See what an open order waits for")
async def see_open(walk: Walk, log: EventLog) -> None:
    key = f"waits-{token_hex(3)}"
    await log.publish_many([order(key)])
    await walk.open("/overview")
    await walk.click(walk.page.locator(".tile", has_text=re.compile(r"Open$")))
    await walk.link(key)
    await walk.sees(HERE, "OrderSubmitted")


@job("See what failed in an order that ended, and what was known before")
async def see_ended(walk: Walk, _log: EventLog) -> None:
    await walk.open("/sagas")
    await walk.link("Failed")
    await walk.link("declined")
    await walk.sees(HERE, "PaymentFailed")
    await walk.key("[")
    await walk.sees(HERE, "ChargeRequested")


@job("Find out that one step is slow, and for whom")
async def see_slow(walk: Walk, _log: EventLog) -> None:
    await walk.open("/choreography")
    await walk.click(walk.page.locator("table a.row-link", has_text="StockReserved").first)
    await walk.click(walk.page.locator("section", has_text="The slowest").locator("a.row-link").first)
    await walk.sees(HERE)


@job("Pause a service while its supplier is down, and resume it")
async def pause(walk: Walk, log: EventLog) -> None:
    await walk.open("/overview")
    await walk.link("Pause dispatch")
    await walk.write("pause-reason", "the carrier is down")
    await walk.click(walk.page.locator("button.primary", has_text="Pause"))
    await walk.sees(".badge", "paused")
    await walk.write("pause-reason", "it is up again")
    await walk.button("Resume")
    await served(log)
    await walk.open("/acts")
    await walk.sees("td", "it is up again")


@job("Go from a complaint to what mends it")
async def complaint(walk: Walk, _log: EventLog) -> None:
    await walk.open("/overview")
    await walk.click(walk.page.locator(".complaints p", has_text="parked").locator("a").first)
    await walk.sees(".group", "the gateway does not know us")


@job("See what is otherwise since a deployment")
async def changed(walk: Walk, _log: EventLog) -> None:
    await walk.open("/overview")
    await walk.key("g")
    await walk.key("d")
    await walk.click(walk.page.locator("[aria-label=Deployments] a.row-link").first)
    await walk.sees("h2", "Before and after")


@job("Retry all of one cause")
async def retry(walk: Walk, log: EventLog) -> None:
    await walk.open("/parked")
    await walk.link("Look, and act")
    await walk.sees(".prospect.is", "3")
    await walk.write("group-reason", "the table is mended")
    await walk.button("Retry")
    await walk.page.wait_for_url("**/parked/batch/*")
    await settled(log)
    await walk.sees(".prospect.is", "3")


@job("Mend one input, after a trial")
async def edit(walk: Walk, log: EventLog) -> None:
    await walk.open("/parked/rates/quotes/IS")
    await walk.write("field-number", "70")
    await walk.button("Preview")
    await walk.sees("#difference", "70")
    await walk.write("edit-reason", "a typo")
    await walk.button("Edit, and handle it")
    await walk.page.wait_for_url("**/parked/batch/*")
    await settled(log)
    await walk.sees(".badge", "handled")


OF_RATES = {"Retry all of one cause", "Mend one input, after a trial"}
"""Jobs on a log of their own, where inputs are parked."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def customer(log: EventLog) -> None:
    """An order of somebody whose name is written from the right to the left, and from the left to the right."""
    line = OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=250)
    theirs = OrderSubmitted(
        order_id="theirs", customer_id=NAME, country="France", currency="EUR", lines=(line,), placed_at=None
    )
    await log.publish_many([Publication(theirs)])
    await served(log)


@asynccontextmanager
async def place(title: str, log: EventLog, console: str, directory: Path) -> AsyncIterator[tuple[EventLog, str]]:
    """The log of a job, and a console that shows it."""
    if title not in OF_RATES:
        yield log, console
        return
    async with parked_log(directory) as rates, running_console(rates) as url:
        yield rates, url


async def walked(browser: "Browser", where: tuple[EventLog, str], title: str, manner: str) -> Walk:
    log, url = where
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"} if manner == "phone" else {}
    async with visiting(browser, url, **phone) as visit:
        walk = Walk(visit, by_keyboard=manner == "keyboard")
        await JOBS[title](walk, log)
        assert await visit.findings() == []
        assert await walk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return walk


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("title", JOBS)
async def test_a_job_takes_the_steps_that_the_guide_says(
    browser: "Browser", log: EventLog, console: str, tmp_path: Path, title: str
) -> None:
    async with place(title, log, console, tmp_path) as where:
        walk = await walked(browser, where, title, "mouse")
    row = re.search(rf"^\| {re.escape(title)} \| (\d+) \| (\d+) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    print(f"| {title} | {walk.clicks} | {walk.texts} | {walk.waited_s:.1f} s |")
    assert row is not None, "the guide has a line for each job"
    assert (walk.clicks, walk.texts) == (int(row[1]), int(row[2]))


@pytest.mark.extended
@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("manner", ["phone", "keyboard"])
@pytest.mark.parametrize("title", JOBS)
async def test_a_job_is_done_on_a_phone_and_by_the_keyboard_alone(
    browser: "Browser", log: EventLog, console: str, tmp_path: Path, title: str, manner: str
) -> None:
    async with place(title, log, console, tmp_path) as where:
        await walked(browser, where, title, manner)
