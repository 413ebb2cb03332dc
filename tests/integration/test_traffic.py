"""What a log tells of each arrow of the picture: counted in one pass, whatever stands next to what."""

from collections.abc import Sequence

import pytest

from eventlib import open_log
from eventlib.analysis.diagram.model import Traffic
from eventlib.model.event import EventType, contract_of
from eventlib.model.record import Record
from eventlib.operations.edge_traffic import Counted, count_traffic
from services import shop
from services.order.events import OrderCancelRequested, OrderPlaced, OrderSubmitted
from services.payment.events import ChargeRequested, PaymentTaken
from services.stock.events import LineRequested, LineReserved, StockReserved

CHARGE = "effect/payment/ChargeRequested"
FIRST_MS = 1_700_000_000_000


def said(event: EventType, event_id: str, at_ms: int, source: str | None = None, cause: str | None = None) -> Record:
    """Return a record of which only the attributes matter."""
    contract = contract_of(event)
    record = Record(contract.topic.name, 0, -1, FIRST_MS + at_ms, b"1", b"", event_id, contract.type, source)
    return record.replace(causation_id=cause)


STORY = [
    said(OrderSubmitted, "s", 0),
    said(OrderPlaced, "p", 10, "order/order", "s"),
    said(LineRequested, "r", 10, "stock/reservation", "p"),  # in the millisecond of its cause
    said(LineReserved, "l", 40, "stock/shelf", "r"),
    said(StockReserved, "k", 45, "stock/reservation", "l"),
    said(ChargeRequested, "c", 50, "payment/payment", "k"),
    said(PaymentTaken, "t", 550, "payment/payment", "c"),
]


async def counted(records: Sequence[Record], most_causes: int = 1_000) -> Counted:
    async with open_log("memory://", shop) as log:
        await log.port.create_topics(shop.topics)
        for record in records:
            await log.port.append([record])
        return await count_traffic(log, most_causes)


async def test_each_arrow_has_its_count_and_how_long_it_took() -> None:
    found = await counted(STORY)
    assert found.arrows == {
        ("OrderSubmitted", "OrderPlaced"): Traffic(1, 10, 10),
        ("OrderPlaced", "LineRequested"): Traffic(1, 0, 0),
        ("LineRequested", "LineReserved"): Traffic(1, 30, 30),
        ("LineReserved", "StockReserved"): Traffic(1, 5, 5),
        ("StockReserved", "ChargeRequested"): Traffic(1, 5, 5),
        ("ChargeRequested", CHARGE): Traffic(1),
        (CHARGE, "PaymentTaken"): Traffic(1, 500, 500),
    }
    assert found.counts == dict.fromkeys((record.type for record in STORY), 1)
    assert (found.total, found.unexplained, found.without_cause) == (7, 0, 0)


async def test_percentiles_are_those_of_all() -> None:
    roots = [said(OrderSubmitted, f"s{n}", 0) for n in range(100)]
    placed = [said(OrderPlaced, f"p{n}", n + 1, "order/order", f"s{n}") for n in range(100)]
    found = await counted([*roots, *placed])
    assert found.arrows["OrderSubmitted", "OrderPlaced"] == Traffic(100, 95, 99)


async def test_what_a_deadline_led_to() -> None:
    late = said(OrderCancelRequested, "late", 90_000, "order/order", "p")
    found = await counted([*STORY, late])
    assert found.arrows["deadline/order/overdue_at", "OrderCancelRequested"].count == 1
    assert found.arrows["deadline/order/overdue_at", "OrderCancelRequested"].p95_ms == pytest.approx(89_990, rel=0.011)


async def test_what_these_services_do_not_say_is_counted_apart() -> None:
    by_force = said(PaymentTaken, "forced", 600, "payment/payment", "s")
    elsewhere = said(LineReserved, "odd", 600, "payment/payment", "r")
    without = [said(PaymentTaken, "x", 600), said(PaymentTaken, "y", 600, "payment/payment", "nobody")]
    found = await counted([*STORY, by_force, elsewhere, *without])
    assert (found.unexplained, found.without_cause) == (2, 2)
    assert found.counts["PaymentTaken"] == 4
    assert found.arrows[CHARGE, "PaymentTaken"].count == 1


async def test_a_cause_that_lies_too_far_back_is_not_remembered() -> None:
    between = [said(OrderSubmitted, f"b{n}", 20 + n) for n in range(100)]
    placed = said(OrderPlaced, "p", 500, "order/order", "s")
    records = [said(OrderSubmitted, "s", 0), *between, placed]
    near, far = await counted(records, 300), await counted(records, 80)
    assert (near.without_cause, far.without_cause) == (0, 1)
    assert near.arrows["OrderSubmitted", "OrderPlaced"] == Traffic(1, 500, 500)
    assert far.arrows == {}
