"""Sagas and states of keys as the command line tells them: ended, compensated, waiting, at a time, and followed."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlib import open_log
from eventlib.operations.saga_filters import SagaFilter, SagaFilters
from services import shop
from tests.integration.shop_log import LINES, Objects, Print


def test_the_saga_of_a_completed_order(objects: Objects) -> None:
    (saga,) = objects("saga", "completed")
    assert saga["ended"] is True
    assert saga["ending"] == "OrderCompleted"
    events = saga["events"]
    assert events[0]["type"] == "OrderSubmitted"
    assert events[0]["cause"] is None
    assert {event["role"] for event in events} == {"step"}
    ids = {event["id"] for event in events}
    assert all(event["causation_id"] in ids for event in events[1:])
    assert {event["service"] for event in events} == {"outside", "order", "stock", "payment", "dispatch"}
    requested = [event for event in events if event["type"] == "LineRequested"]
    assert [event["key"] for event in requested] == ["A"]


def test_the_saga_of_a_declined_order_shows_its_compensation(shown: Print, objects: Objects) -> None:
    (saga,) = objects("saga", "declined")
    found = {event["type"]: event["role"] for event in saga["events"]}
    assert found["PaymentFailed"] == "failure"
    assert found["LineReleased"] == found["StockReleased"] == "compensation"
    printed = shown("saga", "declined")
    assert "declined  ended with OrderCancelled after" in printed
    assert "✗ PaymentFailed" in printed
    assert "↩ LineReleased" in printed
    assert "■ OrderCancelled" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_many_events_of_one_kind_are_one_line_unless_all_are_wanted(shown: Print) -> None:
    assert f"LineReserved ×{LINES}" in shown("saga", "large")  # noqa: RUF001  the sign for "times"
    assert shown("saga", "large", "--all", "--tree").count("LineReserved") == LINES


def test_a_saga_that_waits_for_a_person_says_why(shown: Print, objects: Objects) -> None:
    printed = " ".join(shown("saga", "broken").split())
    assert "not ended" in printed
    assert "ChargeRequested is parked since" in printed
    assert "the gateway does not know us" in printed
    (saga,) = objects("saga", "broken")
    assert [parked["effect"] for parked in saga["parked"]] == ["ChargeRequested"]


def test_a_saga_that_nobody_has_heard_of(shown: Print) -> None:
    assert "no event on this log has the key 'nope'" in shown("saga", "nope", code=1)


def test_a_saga_as_it_stood_at_a_time(shown: Print, objects: Objects) -> None:
    (whole,) = objects("saga", "declined")
    by_type = {event["type"]: event for event in whole["events"]}
    at = by_type["ChargeRequested"]["recorded_at"]
    (then,) = objects("saga", "declined", "--at", at)
    assert then["events"] == [event for event in whole["events"] if event["recorded_at"] <= at]
    assert then["ended"] is False
    assert "OrderCancelled" not in {event["type"] for event in then["events"]}
    states = {each["decider"]: each for each in then["states"]}
    assert list(states) == ["order", "reservation", "payment"], "dispatch has not heard of it"
    assert (states["payment"]["state"]["stage"], states["payment"]["waits"]) == ("charging", None)
    assert list(states["order"]["deadlines"]) == ["overdue_at"]
    printed = shown("saga", "declined", "--at", at)
    assert f"declined  not ended by {at} over" in printed
    assert "stage=charging" in printed
    assert "deadline overdue_at: 20" in printed
    assert "its first event is of" in shown("saga", "declined", "--at", "2020-01-01", code=1)
    assert "'soon' is no time" in shown("saga", "declined", "--at", "soon", code=2)


def test_a_saga_as_it_stood_says_what_waited_for_a_person(shown: Print, objects: Objects) -> None:
    (then,) = objects("saga", "broken", "--at", "2999-01-01")
    waits = {each["decider"]: each["waits"] for each in then["states"]}
    assert waits == {"order": None, "reservation": None, "payment": "TerminalError: the gateway does not know us"}
    assert "waits: TerminalError: the gateway does not know us" in shown("saga", "broken", "--at", "2999-01-01")
    (then,) = objects("saga", "garbled", "--at", "2999-01-01")
    assert {each["state"] for each in then["states"]} == {None}
    assert all("magic byte" in each["waits"] for each in then["states"])
    assert shown("saga", "garbled", "--at", "2999-01-01").count("waits: PaymentTaken: ") == len(then["states"])


def test_following_a_saga_that_has_ended_shows_it_and_ends(shown: Print, objects: Objects) -> None:
    (whole,) = objects("saga", "declined")
    assert objects("saga", "declined", "--follow") == whole["events"]
    printed = shown("saga", "declined", "--follow")
    assert [line.count("LineReserved") for line in printed.splitlines()].count(1) == 1
    assert "declined  ended with OrderCancelled after" in printed.splitlines()[-1]
    assert "excludes --at and --tree" in shown("saga", "declined", "--follow", "--tree", code=2)


def test_the_state_of_a_key(objects: Objects, shown: Print) -> None:
    (known,) = objects("state", "shelf", "A")
    assert known["state"] == {"on_hand": 100 - 2 - LINES, "reserved": 1, "shipped": 1 + LINES}
    (known,) = objects("state", "order", "broken")
    assert known["changed_by"] in {line["id"] for line in objects("tail")}
    assert [*known["deadlines"]] == ["overdue_at"]
    assert known["requests_answered"] == 1
    assert "deadline overdue_at" in shown("state", "order", "broken")


def test_the_state_of_a_key_at_a_time_and_after_an_event(objects: Objects, shown: Print) -> None:
    (saga,) = objects("saga", "declined")
    by_type = {event["type"]: event for event in saga["events"]}
    asked, failed = by_type["ChargeRequested"], by_type["PaymentFailed"]
    (then,) = objects("state", "payment", "declined", "--at", asked["recorded_at"])
    assert (then["state"]["stage"], then["recorded_at"]) == ("charging", asked["recorded_at"])
    (then,) = objects("state", "payment", "declined", "--at", failed["id"])
    assert then["state"]["stage"] == "failed"
    (now,) = objects("state", "payment", "declined")
    assert objects("state", "payment", "declined", "--at", "2999-01-01") == [now]
    assert "stage         charging" in shown("state", "payment", "declined", "--at", asked["id"][:8])
    assert "payment had no state of 'declined' then" in shown(
        "state", "payment", "declined", "--at", "2020-01-01", code=1
    )
    assert "no event on this log has the id 'soon'" in shown("state", "payment", "declined", "--at", "soon", code=1)


def test_states_that_are_not_there(shown: Print) -> None:
    assert "there is no decider 'nope'; known are delivery" in shown("state", "nope", "1", code=1)
    assert "decider order knows nothing of key 'nope'" in shown("state", "order", "nope", code=1)


def test_every_step_of_a_declined_payment(objects: Objects, shown: Print) -> None:
    reserved, answered, failed, ended = objects("history", "payment", "declined")
    assert [step["kind"] for step in (reserved, answered, failed, ended)] == [
        "handled",
        "answered",
        "handled",
        "handled",
    ]
    (charge,), (answer,) = reserved["said"], answered["said"]
    assert (charge["type"], charge["causation_id"]) == ("ChargeRequested", reserved["input"]["id"])
    assert (answered["input"]["id"], answer["causation_id"]) == (charge["id"], charge["id"])
    assert (failed["input"], failed["said"]) == (answer, [])
    assert failed["changes"] == [{"path": "stage", "before": "charging", "after": "failed"}]
    assert failed["state"]["stage"] == "failed"
    assert (failed["deadlines"], failed["forgotten_at"]) == ({}, None)
    assert ended["forgotten_at"] > ended["at"]
    printed = shown("history", "payment", "declined")
    assert f"StockReserved {reserved['input']['id'][:8]}  from stock/reservation, because of" in printed
    assert f"emits ChargeRequested {charge['id'][:8]}  amount_cents=250 currency=EUR country=France" in printed
    assert (
        f"PaymentFailed {answer['id'][:8]}  from payment/payment, because of ChargeRequested {charge['id'][:8]}"
        in printed
    )
    assert "stage=charging→failed" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_an_order_opens_with_a_deadline_that_goes_when_it_ends(objects: Objects, shown: Print) -> None:
    opened, *_, ended = objects("history", "order", "completed")
    assert list(opened["deadlines"]) == ["overdue_at"]
    assert ended["deadlines"] == {}
    printed = shown("history", "order", "completed")
    assert f"deadline overdue_at: {opened['deadlines']['overdue_at']}" in printed
    assert "deadline overdue_at: no more" in printed


def test_what_was_parked_is_a_step_with_its_reason(objects: Objects, shown: Print) -> None:
    (parked,) = objects("history", "payment", "garbled")
    assert (parked["kind"], parked["state"], parked["input"]["data"]) == ("parked", None, None)
    assert "magic byte" in parked["reason"]
    assert "magic byte" in parked["input"]["error"]
    assert "PaymentTaken g is parked: " in shown("history", "payment", "garbled")
    stalled = objects("history", "payment", "broken")[-1]
    assert (stalled["kind"], stalled["input"]["type"]) == ("stalled", "ChargeRequested")
    assert "is parked: TerminalError: the gateway does not know us" in shown("history", "payment", "broken")


def test_many_events_of_one_step_are_one_line_unless_all_are_wanted(shown: Print) -> None:
    assert f"emits LineRequested ×{LINES}" in shown("history", "reservation", "large")  # noqa: RUF001  the sign for "times"
    assert shown("history", "reservation", "large", "--all").count("emits LineRequested ") == LINES


def test_what_enters_a_state_and_what_leaves_it(shown: Print) -> None:
    printed = shown("history", "reservation", "declined")
    assert "held + (line_no=1 sku=A quantity=1)" in printed
    assert "held − (line_no=1 sku=A quantity=1)" in printed  # noqa: RUF001  a minus sign


def test_histories_that_are_not_there(shown: Print) -> None:
    assert "there is no decider 'nope'; known are delivery" in shown("history", "nope", "1", code=1)
    assert "decider order knows nothing of key 'nope'" in shown("history", "order", "nope", code=1)


async def test_the_history_that_the_docs_show_runs(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "debug-a-payment.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "var").mkdir()
    shutil.copy(filled.removeprefix("sqlite:///"), tmp_path / "var" / "shop.db")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block, page.name, "exec"), names)  # noqa: S102  our own text, as a reader would run it
    await names["story"]("declined")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "ChargeRequested(order_id='declined'" in lines[0]
    assert "Change(path='stage', before=<Stage.CHARGING: 'charging'>, after=<Stage.FAILED: 'failed'>)" in lines[2]


def test_sagas_are_listed_by_a_filter_that_operators_share(
    filled: str, tmp_path: Path, shown: Print, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(Path(filled.removeprefix("sqlite:///")).parent, tmp_path / "copy")
    url = f"sqlite:///{copy}/shop.db"
    monkeypatch.setenv("EVENTLIB_LOG", url)

    async def save() -> None:
        async with open_log(url, shop) as log:
            content = SagaFilter("To refund", "compensations > 0 or failures > 0", "saga asc")
            await SagaFilters(log).save(content, "os:ada")

    asyncio.run(save())
    (page,) = objects("sagas", "list", "--filter", "To refund")
    assert [each["saga"] for each in page["sagas"]] == ["declined"]
    (none,) = objects("sagas", "list", "--filter", "To refund", "--where", "saga = 'large'")
    assert none["sagas"] == []
    assert "'refund' is not saved: those that are: To refund" in shown("sagas", "list", "--filter", "refund", code=1)
