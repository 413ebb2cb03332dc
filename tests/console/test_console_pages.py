"""Each page as it is rendered: what it shows of the log."""

import pytest

from eventlib.operations.edge_traffic import Passage, Passages
from tests.console.windows import Window

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
    assert "order_cancelled" in window.page.one(".title").text
    events = [each.text for each in window.page.all(".timeline .event strong")]
    assert (events[0], events[-1]) == ("OrderSubmitted", "OrderCancelled")
    await window.open("/saga/declined?at=7")  # PaymentFailed: what follows may share its millisecond, or not
    moment = await window.part(window.page.one("#moment"))
    assert "charging → failed" in moment.all(".decider", "payment")[-1].text


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
