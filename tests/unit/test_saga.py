"""One saga from its records: order, causes, ending, and what is compensation."""

from itertools import permutations

from eventlib.errors import UndecodableRecord
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.record import Record
from eventlib.model.saga import Decoded, Saga, saga_of
from services import shop
from services.dispatch.events import DispatchCancelled, DispatchFailed, OrderDispatched
from services.order.events import OrderCancelled, OrderCancelRequested, OrderCompleted, OrderPlaced
from services.payment.events import PaymentFailed, PaymentTaken, RefundRequested
from services.stock.events import (
    LineRefused,
    LineReleased,
    LineReleaseRequested,
    LineRequested,
    LineReserved,
    StockReleased,
    StockReserved,
)

PLACED = OrderPlaced.model_construct(order_id="1", amount_cents=500, currency="GBP")


def said(at_ms: int, event_id: str, event: Event, source: str, cause: str | None = None) -> Decoded:
    contract = contract_of(type(event))
    key = key_of(event) or ""
    subject = "A" if source == "stock/shelf" else "1"
    record = Record(contract.topic.name, 0, at_ms, at_ms, key.encode(), b"", event_id, contract.type, source, subject)
    return record.replace(correlation_id="root", causation_id=cause), event


def requested(line_no: int = 1) -> LineRequested:
    return LineRequested(order_id="1", line_no=line_no, sku="A", quantity=2)


def reserved(line_no: int = 1) -> LineReserved:
    return LineReserved(order_id="1", line_no=line_no, sku="A", quantity=2)


def refused(line_no: int = 2) -> LineRefused:
    return LineRefused(order_id="1", line_no=line_no, sku="B", quantity=2, available=0, reason="out_of_stock")


def release() -> LineReleaseRequested:
    return LineReleaseRequested(order_id="1", line_no=1, sku="A", quantity=2)


COMPLETED = [
    said(0, "placed", PLACED, "order/order", "submitted"),
    said(5, "asked", requested(), "stock/reservation", "placed"),
    said(5, "reserved", reserved(), "stock/shelf", "asked"),
    said(7, "dispatched", OrderDispatched(order_id="1", tracking="T"), "dispatch/shipment", "reserved"),
    said(9, "end", OrderCompleted(order_id="1", amount_cents=500, currency="GBP"), "order/order", "dispatched"),
]


def roles(saga: Saga) -> dict[str, str]:
    return {event.type: event.role for event in saga.events}


def test_causes_come_before_effects_whatever_order_the_records_come_in() -> None:
    for shuffled in permutations(COMPLETED):
        saga = saga_of("1", shuffled, shop)
        assert [event.record.id for event in saga.events] == ["placed", "asked", "reserved", "dispatched", "end"]


def test_a_saga_that_a_final_event_of_its_key_has_ended() -> None:
    saga = saga_of("1", COMPLETED, shop)
    assert saga.ended is True
    assert saga.ending is not None
    assert saga.ending.type == "OrderCompleted"
    assert saga.duration_ms == 9
    assert set(roles(saga).values()) == {"step"}


def test_a_saga_that_has_not_ended() -> None:
    saga = saga_of("1", COMPLETED[:3], shop)
    assert saga.ended is False
    assert saga.ending is None
    assert saga.duration_ms == 5


def test_a_key_that_no_event_can_end() -> None:
    assert saga_of("A", [said(0, "asked", requested(), "stock/reservation")], shop).ended is None


def test_the_tree_follows_causes_and_begins_with_what_came_from_outside() -> None:
    saga = saga_of("1", COMPLETED, shop)
    (root,) = saga.roots
    assert root.type == "OrderPlaced"
    (asked,) = saga.caused_by(root)
    assert asked.type == "LineRequested"
    assert asked.cause is not None
    assert asked.cause.type == "OrderPlaced"
    assert saga.caused_by(saga.events[-1]) == ()


def test_what_follows_from_a_failed_payment_is_compensation() -> None:
    story = [
        *COMPLETED[:3],
        said(10, "failed", PaymentFailed(order_id="1", reason="declined"), "payment/payment", "reserved"),
        said(11, "release", release(), "stock/reservation", "failed"),
        said(12, "back", LineReleased(order_id="1", line_no=1, sku="A", quantity=2), "stock/shelf", "release"),
        said(13, "free", StockReleased(order_id="1", reason="declined"), "stock/reservation", "back"),
        said(
            14,
            "end",
            OrderCancelled(order_id="1", reason="declined", refunded_cents=0, currency="GBP"),
            "order/order",
            "free",
        ),
    ]
    assert roles(saga_of("1", story, shop)) == {
        "OrderPlaced": "step",
        "LineRequested": "step",
        "LineReserved": "step",
        "PaymentFailed": "failure",
        "LineReleaseRequested": "compensation",
        "LineReleased": "compensation",
        "StockReleased": "compensation",
        "OrderCancelled": "compensation",
    }


def test_a_parcel_that_cannot_be_delivered_is_what_turned_the_saga_around() -> None:
    story = [
        *COMPLETED[:3],
        said(10, "failed", DispatchFailed(order_id="1", reason="undeliverable"), "dispatch/shipment", "reserved"),
        said(11, "release", release(), "stock/reservation", "failed"),
    ]
    found = roles(saga_of("1", story, shop))
    assert (found["DispatchFailed"], found["LineReleaseRequested"]) == ("failure", "compensation")


def test_a_line_that_is_reserved_after_another_was_refused_is_released_as_compensation() -> None:
    story = [
        said(0, "placed", PLACED, "order/order"),
        said(1, "asked", requested(), "stock/reservation", "placed"),
        said(2, "refused", refused(), "stock/shelf", "placed"),
        said(3, "reserved", reserved(), "stock/shelf", "asked"),
        said(4, "release", release(), "stock/reservation", "reserved"),
    ]
    found = roles(saga_of("1", story, shop))
    assert found["LineRefused"] == "failure"
    assert found["LineReserved"] == "step"
    assert found["LineReleaseRequested"] == "compensation"


def test_a_late_payment_is_a_step_and_its_refund_compensation() -> None:
    stock = StockReserved(order_id="1", amount_cents=500, currency="GBP", country="France")
    taken = PaymentTaken(order_id="1", amount_cents=500, currency="GBP", country="France", charge_key="k")
    refund = RefundRequested(order_id="1", charge_key="k", amount_cents=500, currency="GBP", reason="customer")
    story = [
        said(0, "stock", stock, "stock/reservation"),
        said(1, "wish", OrderCancelRequested(order_id="1", reason="customer"), "order/order"),
        said(2, "off", DispatchCancelled(order_id="1", reason="customer"), "dispatch/shipment", "wish"),
        said(3, "taken", taken, "payment/payment", "stock"),
        said(4, "refund", refund, "payment/payment", "taken"),
    ]
    found = roles(saga_of("1", story, shop))
    assert found["OrderCancelRequested"] == "step"
    assert found["DispatchCancelled"] == "failure"
    assert found["RefundRequested"] == "compensation"


def test_a_completed_order_is_no_compensation_even_after_a_wish_to_cancel() -> None:
    story = [
        said(0, "wish", OrderCancelRequested(order_id="1", reason="customer"), "order/order"),
        said(1, "end", OrderCompleted(order_id="1", amount_cents=5, currency="GBP"), "order/order", "wish"),
    ]
    assert roles(saga_of("1", story, shop))["OrderCompleted"] == "step"


def test_what_cannot_be_decoded_has_its_place_and_its_reason() -> None:
    record = Record("payments", 3, 7, 100, b"1", b"\x89", type="PaymentTaken")
    saga = saga_of("1", [(record, UndecodableRecord("not Avro", "payments", 3, 7))], shop)
    (event,) = saga.events
    assert (event.type, event.service, event.error, event.facts) == ("PaymentTaken", "outside", "not Avro", {})
    assert saga.ended is False


def test_an_event_of_no_known_type_says_so() -> None:
    record = Record("payments", 3, 7, 100, b"1", b"", type="Unheard")
    (event,) = saga_of("1", [(record, None)], shop).events
    assert event.error == "Unheard is not an event of this choreography"


def test_a_request_that_is_on_the_log_twice_stands_in_the_saga_twice() -> None:
    first = said(0, "placed", PLACED, "order/order")
    again = first[0].replace(offset=99), PLACED
    saga = saga_of("1", [first, again, *COMPLETED[1:]], shop)
    assert len(saga.roots) == 2


def test_news_leaves_out_the_key_and_says_once_what_never_changes() -> None:
    story = [
        said(0, "placed", PLACED, "order/order"),
        said(1, "one", reserved(1), "stock/shelf", "placed"),
        said(2, "two", reserved(2), "stock/shelf", "placed"),
    ]
    _, one, two = saga_of("1", story, shop).news()
    assert one == {"line_no": 1, "sku": "A", "quantity": 2}
    assert two == {"line_no": 2}


def test_causes_in_a_circle_do_not_hang() -> None:
    story = [said(0, "a", requested(1), "stock/x", "b"), said(0, "b", requested(2), "stock/x", "a")]
    assert len(saga_of("1", story, shop).events) == 2


def test_a_failure_that_also_reverses_its_own_step_is_a_failure() -> None:
    story = [
        *COMPLETED[:4],
        said(10, "failed", DispatchFailed(order_id="1", reason="x"), "dispatch/shipment", "reserved"),
    ]
    assert roles(saga_of("1", story, shop))["DispatchFailed"] == "failure"
