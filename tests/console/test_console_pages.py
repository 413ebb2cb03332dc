"""Each page as it is rendered: what it shows of the log."""

from html import unescape
from pathlib import Path

import httpx
import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from eventlib import open_log
from eventlib.config.console import console_options
from eventlib.ground.variables import SettingsError
from eventlib.log.open import open_port
from eventlib.model.identity import is_sampled
from eventlib.model.record import key_text
from eventlib.operations.edge_traffic import Passage, Passages
from services import shop
from tests.console.browsers import running_console
from tests.console.parked_rates import settled
from tests.console.rates_app import RateAsked, app
from tests.console.windows import Window
from tests.golden.shops.shops import unpack_embedded
from tests.integration.shop_log import fill

pytestmark = pytest.mark.asyncio(loop_scope="session")


def keys(window: Window) -> list[str]:
    """Return the sagas that a page of them lists."""
    return [each.text for each in window.page.all("#found tbody th")]


async def test_sagas_are_found_by_a_query_whose_address_can_be_sent(window: Window) -> None:
    await window.open("/sagas")
    assert len(keys(window)) == 5
    await window.send("Search", {"where": "outcome = 'order_cancelled'"})
    assert keys(window) == ["declined"]
    colleague = Window(window.client)
    await colleague.open(window.path)
    assert keys(colleague) == ["declined"]


async def test_a_wrong_query_is_marked_where_it_is_wrong(window: Window) -> None:
    await window.open("/sagas?where=status+=+'open'+and+nothing+=+1")
    assert window.page.one("#wrong mark").text == "nothing = 1"
    assert "status" in window.page.one("#wrong p").text


async def test_a_saga_shows_what_happened_and_what_was_known(window: Window) -> None:
    await window.open("/saga/declined")
    assert "Order cancelled" in window.page.one(".title").text
    events = [each.text for each in window.page.all(".timeline .event strong")]
    assert (events[0], events[-1]) == ("OrderSubmitted", "OrderCancelled")
    await window.open("/saga/declined?at=7")  # PaymentFailed: what follows may share its millisecond, or not
    moment = await window.part(window.page.one("#moment"))
    (changed,) = [
        each for each in moment.all(".decider", "payment")[-1].all(".changed") if each.one("dt").text == "stage"
    ]
    assert (changed.one("del").text, changed.one("ins").text) == ("charging", "failed")


async def test_an_arrow_leads_to_the_sagas_that_went_along_it(window: Window) -> None:
    await window.open("/choreography")
    await window.until(".diagram a text", "ms")
    (row,) = window.page.labelled("Arrows").all("tr", "PaymentFailed payment/payment.charge")
    cells = [each.text for each in row.all("td")]
    assert cells[3] == "1"
    assert cells[4] == cells[5]
    assert cells[5].endswith("ms")
    way = row.one("a[href]")["href"]
    in_picture = window.page.all(f".diagram a[href='{way}']")
    assert len(in_picture) == 2, "the arrow, and what stands on it"
    assert cells[5].replace(" ", "") in in_picture[-1].text.replace(" ", "")
    await window.open(way)
    for title in ("The slowest", "The latest"):
        assert [each.text for each in window.page.labelled(title).all("tbody th")] == ["declined"]
    assert window.page.labelled("The slowest").one("a", "declined")["href"] == "/saga/declined"


async def test_sinks_and_subscribers_stand_below_what_they_get(window: Window) -> None:
    await window.open("/choreography")
    await window.until("td", "webhook billing")
    rows = window.page.labelled("Arrows").all("tbody tr", "webhook billing")
    assert len(rows) == 2
    (placed,) = [each for each in rows if "OrderPlaced" in each.text]
    cells = [each.text for each in placed.all("td")]
    assert cells[:3] == ["OrderPlaced", "billing", "webhook billing"]
    assert cells[3].isdecimal()
    drawn = window.page.one(".diagram").text
    assert [name for name in ("sinks", "webhooks", "reports", "billing") if name not in drawn] == []


async def test_the_newest_and_the_slowest_of_an_arrow_are_kept() -> None:
    passages = Passages(3)
    for at_ms, took_ms in enumerate((5, 90, 1, 2, 80, 3, 70, 4)):
        passages.add(Passage(took_ms, at_ms, ("t", 0, at_ms), "c"))
    assert [each.took_ms for each in passages.slowest] == [90, 80, 70]
    assert [each.took_ms for each in passages.newest] == [3, 70, 4]


ARROW = "/choreography/arrow?source=OrderSubmitted&target=OrderPlaced"
PAGES = ("/overview", "/sagas", "/parked", "/choreography", ARROW, "/topics", "/acts", "/deployment", "/reruns", "/reruns/new?service=order", "/reset?service=order&to=earliest", "/compare", "/send/OrderSubmitted", "/readyz", "/healthz")  # fmt: skip


async def test_it_counts_on_a_log_that_a_topic_was_declared_after(tmp_path: Path) -> None:
    async with (
        open_log(unpack_embedded(tmp_path), shop, read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        async for attempt in AsyncRetrying(wait=wait_fixed(0.1), stop=stop_after_delay(60), reraise=True):
            with attempt:
                assert '<th scope="row">' in (await client.get(ARROW)).text
                assert 'class="row-link code"' in (await client.get("/sagas")).text


async def test_it_waits_for_the_topics_of_services_that_start_later(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    await (await open_port(url)).close()
    async with (
        open_log(url, shop, read_only=True) as log,
        running_console(log) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        answers = {path: await client.get(path) for path in PAGES}
        assert {path: each.text for path, each in answers.items() if each.status_code != 200} == {}
        await fill(url)
        async for attempt in AsyncRetrying(wait=wait_fixed(0.1), stop=stop_after_delay(60), reraise=True):
            with attempt:
                assert "OrderCompleted" in (await client.get("/saga/completed")).text
                assert "Order completed" in (await client.get("/sagas")).text
                assert "completed</a>" in (await client.get(ARROW)).text


async def test_a_saga_that_is_traced_leads_to_its_trace(tmp_path: Path) -> None:
    options = console_options(trace_url="https://traces.example/t?id={trace_id}&ui=1")
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        for number in range(400):  # one in fifty is traced, by an id that is not known before
            await log.publish(RateAsked(name=f"N{number}", number=number))
        await settled(log)
        asked = [each for p in range(4) for each in await log.port.read("asked", p, 0, 400)]
        traces = {key_text(each): (each.traceparent or "")[3:35] for each in asked if is_sampled(each.traceparent)}
        untraced = next(key_text(each) for each in asked if key_text(each) not in traces)
        name, trace = next(iter(traces.items()))
        async with running_console(log, options=options) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert f'href="https://traces.example/t?id={trace}&ui=1"' in unescape(
                (await client.get(f"/saga/{name}")).text
            )
            assert "traces.example" not in (await client.get(f"/saga/{untraced}")).text


@pytest.mark.parametrize("url", ["javascript:alert('{trace_id}')", "https://traces.example/"])
async def test_an_address_that_is_none_of_a_trace_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"EVENTLIB_CONSOLE_TRACE_URL.*\{trace_id\}"):
        console_options(trace_url=url)
