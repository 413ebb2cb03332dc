"""Which services of a log are the first ones, and so have no past: no task begins with effects that nobody expects."""

from collections.abc import Mapping

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Service, Topic, open_log
from eventlib.errors import LogDenied
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import NO_PAST, FirstServices, InputStart, beginnings
from eventlib.runtime.records import JournalEntry, Positions, Step
from eventlib.runtime.runtime import prepare_own
from tests.apps.bank import Account, Deposited, RateSet


def service(name: str, *events: type[Event]) -> Service:
    decider: Decider[Account] = Decider(name, state=Account, key="account")
    decider.follows(*events)
    return Service(name, deciders=[decider])


def app(*services: Service) -> Choreography:
    return Choreography("app", services or [service("mail", Deposited), service("bills", Deposited)])


async def ready(log: EventLog) -> EventLog:
    await prepare_own(log, log.choreography.services)
    return log


async def journalled(log: EventLog, journal: str, *steps: Step) -> None:
    entry = log.codec.encode(JournalEntry("code", 1, steps))
    await log.port.append([Record(journal, 0, -1, 1, b"", entry, type="JournalEntry")])


async def started(log: EventLog, name: str = "mail") -> list[InputStart]:
    return [*await beginnings(log, FirstServices(log), log.choreography.service(name), 0, Positions())]


async def test_where_no_service_has_run_all_of_the_application_are_first_and_it_is_written_down() -> None:
    async with open_log("memory://", app()) as log:
        await log.publish(Deposited(account="1", cents=1))
        first, control = await started(await ready(log))
        assert first == InputStart("deposits", 0, 0, NO_PAST)
        assert control.detail == "first services: bills mail"


@pytest.mark.parametrize(("names", "past_end"), [("bills mail", 0), ("bills", 1)])
async def test_what_ran_first_says_which_others_are_first(names: str, past_end: int) -> None:
    async with open_log("memory://", app()) as log:
        await log.publish(Deposited(account="1", cents=1))
        begun = Step("begin", "bills.control", detail=f"first services: {names}")
        await journalled(await ready(log), "bills.journal", begun)
        first, _ = await started(log)
        assert (first.past_end, first.detail) == (past_end, "" if past_end else NO_PAST)


async def test_a_log_of_an_earlier_version_has_a_past_that_nothing_is_known_of() -> None:
    async with open_log("memory://", app()) as log:
        await log.publish(Deposited(account="1", cents=1))
        await journalled(await ready(log), "bills.journal", Step("begin", "deposits"))
        assert [start.detail for start in await started(log)] == ["", ""]


async def test_what_others_wrote_or_another_application_has_emitted_is_a_past() -> None:
    async with open_log("memory://", app(service("mail", Deposited), service("bank", RateSet))) as log:
        await log.port.append([Record("rates", 0, -1, 1, b"1", b'{"account": "1"}')])
        value = log.codec.encode(Deposited(account="1", cents=1))
        await log.port.append([Record("deposits", 0, -1, 1, b"1", value, "id", "Deposited", "shop/cart")])
        await ready(log)
        for name, topic in (("bank", "rates"), ("mail", "deposits")):
            start, control = await started(log, name)
            assert start == InputStart(topic, 0, 1), "its effects wait for a person"
            assert control.detail == "first services: bank mail"


async def test_who_may_not_see_what_others_have_done_acts_on_no_past(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_log("memory://", app()) as log:
        await log.publish(Deposited(account="1", cents=1))
        await ready(log)
        topics, start = log.port.topics, log.port.start

        async def visible() -> Mapping[str, Topic]:
            return {name: topic for name, topic in (await topics()).items() if not name.startswith("bills.")}

        async def refused(topic: str, partition: int) -> int:
            if topic == "bills.journal":
                raise LogDenied("no right to read bills.journal")
            return await start(topic, partition)

        monkeypatch.setattr(log.port, "topics", visible)
        monkeypatch.setattr(log.port, "start", refused)
        first, _ = await started(log)
        assert first == InputStart("deposits", 0, 1)
