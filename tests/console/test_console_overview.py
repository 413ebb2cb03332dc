"""The overview: what is wrong leads to where it is mended, and each number is that of the list that it leads to."""

import re
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from eventlib import Choreography, Event, Publication, Service, open_log
from eventlib.console.app import create_console
from eventlib.console.overview import trend
from eventlib.console.sessions import SessionIdentity
from eventlib.errors import DamagedRecord
from eventlib.identity import IdentityOptions, Role
from eventlib.index.hours import HOUR_MS
from eventlib.log.base import OpenTransaction
from eventlib.model.topic import Topic
from eventlib.operations.complaints import Limits, damage_of, found_wrong
from eventlib.operations.input_health import HeldInput, InputLoss
from eventlib.operations.startup_waits import Waiting
from eventlib.operations.status import SagaCount, Status, TaskStatus
from eventlib.search import SagaSearch
from eventlib.values import from_ms, now_ms
from tests.console.parked_rates import parked_log
from tests.console.rates_app import RateAsked, app
from tests.console.windows import Window, signed_in
from tests.integration import test_losses
from tests.integration.damaging import change

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_each_number_is_that_of_the_list_that_it_leads_to(window: Window) -> None:
    await window.open("/overview")
    tiles = {tile["href"]: tile.one(".big-count").text for tile in window.page.all("a.tile")}
    bars = {bar["href"]: bar.text for bar in window.page.all("#trends td a")}
    assert {name for href in bars for name in [href.split("/")[2]]} >= {"Started", "Completed", "Failed", "Parked"}
    for href, count in tiles.items():
        await window.open(f"{href}&limit=200")
        assert str(len(window.page.all("table.sagas tbody tr[data-row]"))) == count, href
    for href, count in bars.items():
        await window.open(href)
        assert window.status == 200
        if "/Duration/" in href:
            assert window.page.all("table.sagas tbody tr[data-row]") != []
        elif "/Parked/" in href:  # what is parked by now may be less than what has been
            assert window.path.startswith("/parked?where=since")
        else:
            assert str(len(window.page.all("table.sagas tbody tr[data-row]"))) == count, href
    await window.open("/overview?span=week")
    assert len(window.page.all("svg.hours")) == 6
    assert window.page.one("#trends [aria-current]").text == "week"
    await window.open("/overview?span=year")
    assert window.status == 422


async def test_a_picture_has_a_bar_for_each_hour_with_something_and_none_for_an_empty_one(window: Window) -> None:
    await window.open("/overview")
    for picture in window.page.all("svg.hours"):
        heights = [float(bar["height"]) for bar in picture.all("rect.amount")]
        assert len(heights) <= 2, "all was within an hour, or the next one"
        assert not heights or max(heights) == 60
        assert picture.all("rect.unknown") == []
    assert "22 more hours have nothing." in window.page.one("#trends").text or "23 more" in window.text


async def test_hours_are_unknown_and_never_zero_while_the_index_is_made(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        asked = [Publication(RateAsked(name=f"N{number}", number=number)) for number in range(8_000)]
        await log.publish_many(asked)
        console = create_console(log, SessionIdentity(IdentityOptions()))
        console.state.index.batch = 1
        transport = httpx.ASGITransport(console, client=("127.0.0.1", 1))
        async with (
            console.router.lifespan_context(console),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9000") as client,
        ):
            window = Window(client, console)
            await window.open("/overview")
            assert "records to go" in window.page.one("#trends [role=status]").text
            assert len(window.page.all("#trends rect.unknown")) == 6 * 24
            assert window.page.all("#trends rect.amount") == []
            assert {tile.one(".big-count").text for tile in window.page.all("a.tile")} == {"?"}
            assert "24 are not known" in window.page.one("#trends").text
            console.state.index.batch = 500
            assert await console.state.index.caught_up(60)
            await window.open("/overview")
            assert window.page.all("#trends rect.unknown") == []
            assert "8,000" in window.page.one("#trends").text


async def test_no_page_of_a_browser_names_a_command(window: Window) -> None:
    for path in ("/overview", "/parked", "/acts", "/sagas", "/topics", "/reruns"):
        await window.open(path)
        assert not re.search(r"`eventlib|eventlib [a-z]+ ", window.text), path
    await window.open("/overview")
    complaints = window.page.labelled("Complaints")
    assert "parked" in complaints.text
    for link in complaints.all("a"):
        assert (await window.client.get(link["href"])).status_code == 200


async def test_each_complaint_has_a_page_and_the_text_of_a_terminal_as_before() -> None:
    now, at = from_ms(now_ms()), from_ms(0)
    task = TaskStatus("pay ment", 0, None, 3, 100.0, None, 0, 0, 0, 0, None)
    status = Status(
        now, [task], True, {}, [], [SagaCount("charged", 2, 2, False)], [Waiting("m/7", "all", now, "the log")], (), (),
        [InputLoss("order", "a/b", 3, "2 inputs", True)], [HeldInput("t", 1, 5, [OpenTransaction("x", 0, 0)])], ["topic t is gone"],
    )  # fmt: skip
    found = found_wrong(status, Limits())
    assert [each.text.partition(":")[0] for each in found] == [
        "all (m/7)", "pay ment", "pay ment", "topic t is gone", "order has lost inputs", "t/1", "2 sagas overdue"
    ]  # fmt: skip
    assert "`eventlib reset order --accept-loss --reason WHY`" in found[4].text
    assert not [each for each in found if "`" in each.sentence]
    assert found[4].page == "/loss?service=order"
    assert "service+%3D+%27pay+ment%27" in found[1].page
    (damage,) = damage_of(Status(at, [], True, {}, [], None, damaged=[DamagedRecord("its checksum", "t", 1, 7, 8)]))
    assert (damage.sentence, damage.page) == ("t/1/7 is damaged: its checksum", "/topics/t?partition=1&offset=7")


async def test_a_group_shows_what_its_members_have_in_common_and_its_act_is_one_line(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/parked")
        await window.open(window.page.one(".group .button")["href"])
        cause = window.path.rpartition("/")[2]
        common = await window.part(window.page.one(".common-card [hx-get]"))
        rows = {row.one("th").text: row.all("td")[1].text for row in common.all("tbody tr")}
        assert rows == {"parked on (UTC)": "all 3", "code": "all 3"}
        preview = await window.part(window.page.one(".preview-card [hx-get]"))
        await window.send("Retry", {"reason": "mended"}, [preview])
        await window.open("/acts")
        await window.until("main tbody tr")
        assert window.page.one("main summary").text == f"3 of cause {cause}"
        assert {each.text for each in window.page.all("main details p")} == {"quotes FO", "quotes IS", "quotes MT"}
        assert (await window.client.get("/parked/common/nothing", headers={"accept": "text/html"})).status_code == 404


HEARD = Topic("heard", partitions=1, retention=timedelta(hours=1))


class Heard(Event, topic=HEARD, key="key", final=True):
    key: str


listening = Choreography("listening", [], facts=[Heard])


async def test_hours_of_which_the_log_has_dropped_records_are_unknown_and_not_empty() -> None:
    async with open_log("memory://", listening) as log:

        async def hear(key: str, at_ms: int) -> None:
            (record,) = log.records_of(Publication(Heard(key=key)), 0)
            await log.port.append([record.replace(timestamp_ms=at_ms)])

        await hear("gone", now_ms() - 400 * HOUR_MS)
        await log.port.compact()
        five_ago = now_ms() - 5 * HOUR_MS
        start = await log.port.log_start("heard", 0)
        assert start > 0
        await hear("kept", five_ago)
        async with SagaSearch(log) as index:
            assert await index.caught_up(60)
            day = await trend(index, "day")
    first, last = (day.hours[at].sagas.hour for at in (0, -1))
    assert {day.hours[at].sagas.hour for at in day.unknown} == {*range(first, five_ago // HOUR_MS)}
    (started, *_) = day.series
    assert sum(started.bars) == 1
    assert last - five_ago // HOUR_MS in {5, 6}


async def test_a_log_whose_oldest_record_is_damaged_has_hours_all_the_same(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", listening) as log:
        for key, hours in (("gone", 400), ("damaged", 7), ("kept", 5)):
            (record,) = log.records_of(Publication(Heard(key=key)), 0)
            await log.port.append([record.replace(timestamp_ms=now_ms() - hours * HOUR_MS)])
            if key == "gone":
                await log.port.compact()
        start = await log.port.log_start("heard", 0)
    change(
        tmp_path / "log.db",
        "UPDATE records SET value = x'00' WHERE position & 0xffffffffff = ? AND type = 'Heard'",
        start,
    )
    async with open_log(f"sqlite:///{tmp_path}/log.db", listening) as log, SagaSearch(log) as index:
        with pytest.raises(DamagedRecord):
            await log.port.read("heard", 0, start, 1)
        assert await index.caught_up(60)
        day = await trend(index, "day")
    assert {at for at, count in enumerate(day.series[0].bars) if not count} > {*day.unknown} != set()


class Over(Event, topic="over", key="key", final=True):
    key: str


async def test_a_loss_is_seen_and_accepted_with_a_reason(tmp_path: Path) -> None:
    app = Choreography("listening", [Service("hears", deciders=[test_losses.hears])], facts=[Over])
    async with (
        open_log(f"sqlite:///{tmp_path}/log.db", app) as log,
        signed_in(log, tmp_path, Role.OPERATOR) as window,
    ):
        await test_losses.dropped(log, 2, 5)
        await test_losses.settle(log)
        await window.open("/overview")
        link = await window.until("main a", "See it, and accept the loss")  # the status is read once in a second
        await window.open(link["href"])
        assert "has dropped offsets 2 to 6 before they were read" in window.page.labelled("Lost inputs").text
        await window.send("Accept the loss", {"reason": "they were tests"})
        assert window.path == "/overview"
        await test_losses.settle(log)
        await window.open("/loss?service=hears")
        assert (window.status, "nothing was changed" in window.alert) == (422, True)
