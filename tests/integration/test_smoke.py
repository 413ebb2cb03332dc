"""The smoke test finds what is wrong: a shop that does not answer, and a log that breaks an invariant."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.publication import Publication
from services import __main__ as commands
from services import shop
from services.order.events import OrderCompleted, OrderLine, OrderPlaced
from services.smoke import SmokeConfig, Smoked, judge_ends, judge_log
from tests.ports import free_port


def test_a_shop_that_does_not_answer_is_told_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api = f"http://127.0.0.1:{free_port()}"
    log = f"sqlite:///{tmp_path}/shop.db"
    assert commands.run(["smoke", "--api", api, "--log", log, "--patience", "1"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"services: {api}: the API is not ready within 1 s: ConnectError")
    assert complaint.count("\n") == 1
    assert [*tmp_path.iterdir()] == [], "nothing was written to a log of a shop that is not there"


async def test_a_law_that_is_broken_is_named_once_for_each_order(tmp_path: Path) -> None:
    found, since = Smoked(2), datetime.now(UTC) - timedelta(minutes=1)
    line = OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=250)
    async with open_log(f"sqlite:///{tmp_path}/shop.db", shop) as log:
        for order_id in ("paid-nothing", "somebody-elses"):
            placed = OrderPlaced(
                order_id=order_id,
                customer_id=None,
                country="Eire",
                currency="GBP",
                lines=(line,),
                amount_cents=250,
                placed_at=since,
            )
            await log.publish_many(
                [Publication(placed), Publication(OrderCompleted(order_id=order_id, amount_cents=250, currency="GBP"))]
            )
        await judge_log(log, since, {"order_id": {"paid-nothing"}, "sku": set()}, found)
    assert found.events == 2
    broken = {sentence.split(":")[0] for sentence in found.wrong if "paid-nothing" in sentence}
    assert "completed_orders_are_whole" in broken
    assert len(broken) == len(found.wrong)


@pytest.mark.parametrize(
    ("status", "taken", "refunded", "quantity", "wrong"),
    [
        ("completed", 250, 0, 1, ""),
        ("cancelled", 250, 250, 1, ""),
        ("completed", 250, 250, 1, "o: completed, and 0 instead of 250 cents are kept"),
        ("cancelled", 250, 0, 1, "o: cancelled, and 250 instead of 0 cents are kept"),
        ("completed", 250, 0, 101, "o: more was sold than there is"),
    ],
)
def test_an_end_that_is_not_what_it_says_is_told(
    status: str, taken: int, refunded: int, quantity: int, wrong: str
) -> None:
    order = {"order_id": "o", "amount_cents": 250, "status": status, "taken_cents": taken, "refunded_cents": refunded}
    found = Smoked(20)
    judge_ends([{**order, "lines": [{"quantity": quantity}]}], SmokeConfig("http://x", "memory://", 20), found)
    assert [each for each in found.wrong if each.startswith("o:")] == ([wrong] if wrong else [])
    assert ("no order was completed" in found.wrong) == (status != "completed")
