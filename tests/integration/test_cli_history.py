"""`eventlib history` on a log: what came in, what was said, what changed; in words and as JSON."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.shop_log import LINES, Objects, Print


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


def test_many_events_of_one_kind_are_one_line_unless_all_are_wanted(shown: Print) -> None:
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
