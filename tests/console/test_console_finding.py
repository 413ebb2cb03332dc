"""The list of sagas: one box that finds, columns, files, filters of the team, and acts on what is chosen."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

from eventlib import EventLog
from eventlib.console.saga_list import Column
from eventlib.errors import ContractError
from eventlib.identity import Role
from eventlib.index.attributes import INTEGER, Attribute
from eventlib.model.searchable import Kind
from eventlib.operations.acts import acts
from eventlib.operations.pausing import paused
from eventlib.operations.saga_filters import SagaFilter, SagaFilters
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget
from tests.console.test_console_pages import keys
from tests.console.windows import Window, opened, signed_in

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_text_with_one_meaning_is_that_query(window: Window) -> None:
    await window.open("/sagas?where=broken&column=country")
    assert window.page.one("#where")["value"] == "saga = 'broken'"
    assert keys(window) == ["broken"]
    assert "country" in window.path
    await window.follow("Look for “broken” in the payloads of recent events")
    assert window.path.startswith("/sagas/words")
    assert {each.text for each in window.page.one("#words").all("a.row-link")} == {"broken"}


async def test_a_text_with_several_meanings_has_one_page_with_all(window: Window) -> None:
    await window.open("/sagas?where=order_cancelled")
    assert keys(window) == ["declined"]
    await window.open("/sagas?where=declined")
    found = {each.one("h2").text: [key.text for key in each.all("tbody th")] for each in window.page.all(".meaning")}
    assert found == {"saga = 'declined'": ["declined"], "reason = 'declined'": ["declined"]}


async def test_a_word_of_a_payload_is_found_and_the_page_says_what_was_looked_at(window: Window) -> None:
    await window.open("/sagas?where=T-completed")
    assert "No saga has “T-completed”" in window.text
    part = await window.part(window.page.one(".look"))
    assert [each.text for each in part.all("a.row-link")] == ["completed"]
    assert "Looked at: texts and whole numbers of" in part.text
    assert "Personal fields are never looked at" in part.text


async def test_the_columns_are_in_the_address_and_amounts_are_money(window: Window) -> None:
    await window.open("/sagas?where=saga+=+'large'")
    heads = [each.text for each in window.page.all("#found thead th")]
    assert heads == [
        "",
        "Saga",
        "Status",
        "Waits for",
        "Reason",
        "Started ↓",
        "Took",
        "Events",
        "Customer id",
        "Country",
        "Amount",
    ]
    assert window.page.all("#found tbody td")[-1].text == "30.00 EUR"
    await window.send("Show these", {"column": ["outcome", "amount_cents"]})
    assert window.path.endswith("column=outcome&column=amount_cents")
    assert [each.text for each in window.page.all("#found tbody td")][1:] == ["Order completed", "30.00 EUR"]
    await window.send("Search", {"where": "status = 'ended'"})
    assert len(window.page.all("#found thead th")) == 4
    await window.open("/sagas?column=nothing")
    assert window.status == 422
    assert "has not the column 'nothing'" in window.alert


@pytest.mark.parametrize(
    ("kind", "amount", "currency", "shown"),
    [
        (INTEGER, 123456, "GBP", "1,234.56 GBP"),
        (INTEGER, 123456, "JPY", "123,456 JPY"),
        (INTEGER, -5, "KWD", "-0.005 KWD"),
        (Kind("decimal", places=2), "12.50", "JPY", "12.5 JPY"),
        (Kind("decimal", places=2), "12.00", "EUR", "12.00 EUR"),
        (INTEGER, 7, None, "7"),
        (INTEGER, None, "EUR", "–"),  # noqa: RUF001  a dash for what is not there
    ],
)
async def test_money_has_the_decimals_of_its_currency(kind: Kind, amount: object, currency: str, shown: str) -> None:
    column = Column(Attribute("paid", kind, "", "", currency="unit"))
    value = Decimal(amount) if isinstance(amount, str) else amount
    assert column.money({"paid": value, "unit": currency}) == shown


async def test_a_list_is_a_file_with_its_columns(window: Window) -> None:
    way = "where=country+=+'France'&order_by=saga+asc&column=reason&column=amount_cents&column=started_at"
    answer = await window.client.get(f"/sagas/export.csv?{way}")
    assert answer.headers["content-disposition"] == 'attachment; filename="sagas.csv"'
    rows = [*csv.DictReader(answer.text.splitlines())]
    every = (await window.client.get(f"/sagas/export.txt?{way}")).text.split()
    assert every == ["broken", "completed", "declined", "large"]
    assert [row["saga"] for row in rows] == every
    declined = rows[every.index("declined")]
    assert (declined["reason"], declined["amount_cents"], declined["currency"]) == ("declined", "250", "EUR")
    assert declined["started_at"].endswith("Z")
    found = json.loads((await window.client.get(f"/sagas/export.json?{way}")).text)
    assert [row["saga"] for row in found] == every
    assert found[every.index("declined")].items() >= {"reason": "declined", "amount_cents": 250}.items()
    assert json.loads((await window.client.get("/sagas/export.json?where=saga+=+'no'")).text) == []
    assert (await window.client.get("/sagas/export.csv?where=nothing+=+1")).status_code == 422


async def test_operators_share_filters_which_all_readers_see(log: EventLog, tmp_path: Path) -> None:
    async with signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/sagas?where=compensations+%3E+0&column=reason")
        await window.send("For the team", {"to": "To refund"})
        (saved,) = (await SagaFilters(log).all()).values()
        assert (saved.name, saved.where, saved.columns, saved.by) == (
            "To refund",
            "compensations > 0",
            ("reason",),
            "token:ada",
        )
        async with opened(log) as other:
            await other.open("/sagas")
            await other.open(other.page.labelled("Filters of the team").one("a")["href"])
            assert keys(other) == ["declined"]
            assert [each.text for each in other.page.all("#found thead th")][-1] == "Reason"
        await window.send("Rename", {"to": "Refunds"})
        assert [*await SagaFilters(log).all()] == ["Refunds"]
        await SagaFilters(log).save(SagaFilter("Other", "failures > 0"), "os:ada")
        with pytest.raises(ContractError, match="there is a filter 'Other' already"):
            await SagaFilters(log).rename("Refunds", "Other", "os:ada")
    async with signed_in(log, tmp_path / "auditor", Role.AUDITOR) as auditor:
        await auditor.open("/sagas")
        assert [each.text.split()[0] for each in auditor.page.labelled("Filters of the team").all("a")] == [
            "Other",
            "Refunds",
        ]
        assert "For the team" not in auditor.text
    for name in ("Other", "Refunds"):
        await SagaFilters(log).delete(name, "os:ada")
    assert await SagaFilters(log).all() == {}


async def test_what_is_parked_in_chosen_sagas_is_retried_after_a_preview(window: Window, log: EventLog) -> None:
    await window.open("/sagas")
    await window.send("Retry what is parked…", {"chosen": ["broken", "completed"]})
    assert "Retry what is parked in 2 sagas" in window.text
    assert "1 would be" in window.text or "1 would" in window.text
    left = {each.one("th").text: each.one("td").text for each in window.page.labelled("Left out").all("tbody tr")}
    assert left == {"completed": "nothing of it is parked"}
    before = len(await acts(log))
    await window.send("Retry 1", {"reason": "the gateway knows us now"})
    assert window.path.startswith("/parked/batch/")
    assert "the gateway knows us now" in window.text
    (act,) = (await acts(log))[before:]
    assert (act.what, act.about) == (
        "retry",
        f"payment {next(each.id for each in await parkings(log) if each.key == 'broken')}",
    )


async def test_a_preview_that_is_too_old_does_nothing(window: Window, log: EventLog) -> None:
    await window.open("/sagas?where=saga+=+'broken'")
    await window.send("Discard what is parked…", {"which": "all"})
    token = window.page.one("[name=form_token]")["value"]
    before = len(await acts(log))
    for fields, says in (
        ({"sure": "1", "as_previewed": "old"}, "moved on"),
        ({"sure": "7"}, "write that number"),
        ({"reason": " "}, "reason"),
    ):
        about = {"form_token": token, "act": "discard", "chosen": "broken", "step": "do", "reason": "r", **fields}
        answer = await window.client.post("/sagas/acts", data=about)
        assert answer.status_code == 422
        assert says in answer.text
    assert len(await acts(log)) == before


async def test_the_keys_of_chosen_sagas_are_paused_and_resumed(window: Window, log: EventLog) -> None:
    target = PauseTarget("payment", "payment", "large")
    await window.open("/sagas")
    await window.send("Pause…", {"chosen": ["large"]})
    await window.send("Preview this", {"decider": "payment/payment", "reason": "not yet"})
    assert [each.text for each in window.page.all(".plain-list li")] == ["payment/payment/large"]
    assert await paused(log, target) is None
    await window.send("Pause 1", {"reason": "a call"})
    assert "asked to be paused" in window.text
    assert await paused(log, target) is not None
    await window.open("/sagas")
    await window.send("Pause…", {"chosen": ["large"]})
    left = {each.one("th").text: each.one("td").text for each in window.page.labelled("Left out").all("tbody tr")}
    assert "paused already" in left["large in payment"]
    await window.open("/sagas")
    await window.send("Resume…", {"chosen": ["large"]})
    await window.send("Resume 1", {"reason": "over"})
    assert [each.text for each in window.page.all(".plain-list li")] == ["payment/payment/large"]


async def test_nothing_chosen_is_said(window: Window) -> None:
    await window.open("/sagas")
    await window.send("Pause…")
    assert window.status == 422
    assert "choose sagas" in window.text


@pytest.mark.parametrize(
    "text", ["\x00", "a\nb", "'", "'''", "\u202e", "%_", "a'b", "(((", "x" * 3_900, "1e5", "<script>", "9" * 30, "a\\"]
)
async def test_odd_texts_are_answered(window: Window, text: str) -> None:
    for path in ("/sagas", "/sagas/count"):
        assert (await window.client.get(path, params={"where": text})).status_code in {200, 422}
    for path in ("/sagas/complete", "/sagas/words"):
        assert (await window.client.get(path, params={"text": text})).status_code in {200, 422}


async def test_a_place_that_no_index_has_is_refused(window: Window) -> None:
    for before in ("-1", str(2**63), "x"):
        assert (await window.client.get("/sagas/words", params={"text": "a", "before": before})).status_code == 422
