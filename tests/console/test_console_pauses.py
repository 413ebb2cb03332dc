"""Pauses by forms: what would wait is counted first, then paused and resumed, with who and why on the log."""

from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.identity import Role
from eventlib.operations.acts import acts
from eventlib.operations.pausing import pause
from eventlib.queries.pauses import PauseTarget, pauses
from examples.payouts import desk
from tests.console.parked_rates import broken, parked_log, settled
from tests.console.rates_app import RateAsked
from tests.console.windows import signed_in

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_service_is_paused_seen_on_the_overview_and_resumed(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/overview")
        await window.follow("Pause rates")
        assert window.page.one("h1").text == "service rates"
        await window.send("See what would wait", {"what": "decider:quotes", "key": "MT"})
        assert window.page.one("h1").text == "key MT of quotes"
        assert [each.text for each in window.page.all(".summary dd")] == ["2", "0"]
        await window.send("Pause", {"reason": "a <b>call</b>"})
        assert window.page.one("button", "Resume").text == "Resume"
        (found,) = await pauses(log)
        assert (str(found.target), found.by, found.reason) == ("key MT of quotes", "token:ada", "a <b>call</b>")
        await window.open("/overview")
        paused = window.page.labelled("Paused")
        assert "key MT of quotes is paused" in paused.text
        await window.open(paused.one("a")["href"])
        await window.send("Resume", {"reason": "done"})
        assert window.page.one("button", "Pause").text == "Pause"
        assert await pauses(log) == []
        assert {(each.what, each.about, each.reason) for each in await acts(log)} >= {
            ("pause", "key MT of quotes", "a <b>call</b>"),
            ("resume", "key MT of quotes", "done"),
        }


async def test_a_paused_key_shows_what_its_inputs_would_come_to(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await pause(log, PauseTarget.of(log, "rates", key="NZ"), "eve", "a call")
        await log.publish(RateAsked(name="NZ", number=7))
        await settled(log)
        await window.open("/pause?service=rates&what=decider%3Aquotes&key=NZ")
        assert "would be handled, and 1 event be emitted." in window.page.one("#released").text
        with broken():
            await window.open("/pause?service=rates&what=decider%3Aquotes&key=NZ")
            assert "would park again: KeyError" in window.page.one("#released").text


async def test_a_limit_is_set_at_run_time_and_goes_back(tmp_path: Path) -> None:
    async with (
        open_log(f"sqlite:///{tmp_path}/desk.db", desk) as log,
        signed_in(log, tmp_path, Role.OPERATOR, back="/overview") as window,
    ):
        limits = window.page.labelled("Limits of effects").all("tbody tr")
        assert [[each.text for each in limit if each.tag in {"th", "td"}] for limit in limits] == [
            ["RecallRequested", "payout", "no numbers", "", "the decider's key", "3", "", "Change…"],
            ["bank", "payout", "50 a second, 8 at once, 16 concurrent", "", "customer_id", "1", "", "Change…"],
        ]
        await window.follow("Change limit bank of payout")
        assert window.page.one("h1").text == "limit bank of payout"
        assert window.page.all("button", "Pause") == []  # it would be all of the service
        await window.send("Set", {"per_second": "many", "reason": "they had an outage"})
        assert "per_second: Input should be a valid number" in window.alert
        await window.send("Set", {"per_second": "20", "reason": "they had an outage"})
        assert len(window.page.all("button", "Resume")) == 1
        (found,) = await pauses(log)
        assert (str(found.target), found.by, found.allows) == ("limit bank of payout", "token:ada", "20 a second")
        assert "they had an outage (20 a second)" in window.page.all(".note")[0].text
        await window.open("/overview")
        paused = window.page.labelled("Paused")
        assert "limit bank of payout is set to 20 a second" in paused.text
        assert "20 a second by token:ada" in window.page.labelled("Limits of effects").all("tbody tr")[-1].text
        await window.open(paused.one("a")["href"])
        assert window.page.one("h1").text == "limit bank of payout"
        await window.send("Resume", {"reason": "it is over"})
        assert window.page.all("button", "Resume") == []
        assert all(each.is_ending for each in await pauses(log))


async def test_a_pause_that_cannot_be_says_why(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/pause?service=rates&what=decider:nobody")
        assert "rates has no decider 'nobody'" in window.alert
        assert window.page.all("main form[method=post]") == []
