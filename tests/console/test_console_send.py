"""Sending an event from a form made of its schema: looked at first, sent once, with who and why on the log."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib import EventLog
from eventlib.errors import ContractError
from eventlib.identity import Role
from eventlib.operations.acts import acts
from eventlib.publication import Signature
from tests.console.parked_rates import logged_in, parked_log, settled
from tests.console.rates_app import RateAsked
from tests.console.test_console_acts import quoted
from tests.console.windows import Window, signed_in

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def asked(log: EventLog) -> list[tuple[str, int, str | None]]:
    records = [each for p in range(4) for each in await log.port.read("asked", p, 0, 100)]
    return sorted((e.name, e.number, e.note) for _, e in await log.decode_many(records) if isinstance(e, RateAsked))


async def test_an_event_is_sent_from_its_contract(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path, []) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/topics/asked")
        await page.click(".contract summary")
        await page.click("text=Send one")
        await page.wait_for_url("**/send/RateAsked")
        assert await page.is_checked("[name='none.note']")
        await page.fill("#field-name", "<b>MT</b>")
        await page.fill("#field-number", "many")
        await page.click("button[value=preview]")
        assert "number: 'many' is no integer" in await page.locator("[role=alert]").inner_text()
        await page.fill("#field-number", "5")
        await page.fill("#field-note", "urgent")
        assert not await page.is_checked("[name='none.note']"), "who types a value wants it"
        await page.click("button[value=preview]")
        assert '"name": "<b>MT</b>"' in await page.locator("#preview").inner_text()
        assert await visit.findings() == []
        await page.click("button[value=send]")
        assert "give a reason" in await page.locator("[role=alert]").inner_text()
        assert await asked(log) == []
        await page.fill("#send-reason", "asked by phone")
        await page.click("button[value=send]")
        await page.wait_for_url("**/record/asked/**")
        assert "asked by phone" in await page.locator("main").inner_text()
        assert await asked(log) == [("<b>MT</b>", 5, "urgent")]
        await settled(log)
        assert await quoted(log) == [("<b>MT</b>", 5)]
        assert [(a.what, a.service, a.about, a.by, a.reason) for a in await acts(log)] == [
            ("send", "rates", "RateAsked <b>MT</b>", "token:ada", "asked by phone")
        ]
        await visit.open("/acts")
        assert await page.locator("a[href='/saga/%3Cb%3EMT%3C%2Fb%3E']").count() == 1


async def test_a_form_that_is_sent_again_sends_one_event(tmp_path: Path) -> None:
    async with parked_log(tmp_path, []) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/send/RateAsked")
        fields = {"field.name": "MT", "field.number": "1", "reason": "twice"}
        twice = [window.request("Send", fields) for _ in range(2)]
        ways = [(await window.client.send(each, follow_redirects=False)).headers["location"] for each in twice]
        assert ways[0] == ways[1]
        assert await asked(log) == [("MT", 1, None)]


async def test_what_deciders_emit_is_not_sent(tmp_path: Path) -> None:
    async with parked_log(tmp_path, []) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/topics/asked")
        assert len(window.page.all("a", "Send one")) == 1
        await window.open("/topics/quoted")
        assert window.page.all("a", "Send one") == []
        await window.open("/send/RateQuoted")
        assert "is a fact that decider quotes emits" in window.text
        await window.open("/send/Nothing")
        assert "Nothing" in window.text


async def test_a_form_outlines_what_is_nested(window: Window) -> None:
    await window.open("/send/OrderSubmitted")
    assert '"sku": ""' in window.page.one("#field-lines").text


async def test_a_signature_is_no_header_that_others_set(tmp_path: Path) -> None:
    async with parked_log(tmp_path, []) as log:
        for name in ("sent_by", "sent_reason"):
            with pytest.raises(ContractError, match=f"the header '{name}' is the library's own"):
                await log.publish(RateAsked(name="MT", number=1), headers={name: "os:eve"})
        await log.publish(RateAsked(name="MT", number=1), headers={"who": "eve"})
        records = [each for p in range(4) for each in await log.port.read("asked", p, 0, 100)]
        assert [Signature.of(each) for each in records] == [None]
        assert await acts(log) == []
