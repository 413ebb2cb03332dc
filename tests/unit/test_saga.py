"""One saga from its records: order, causes, ending, and what is compensation."""

from itertools import permutations

import pytest

from eventlib.errors import UndecodableRecord
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.record import Record
from eventlib.model.saga import Decoded, Saga, saga_of
from services import shop
from services.stock.events import LineReserved
from tests.unit.services import telling as order

SERVICES = {"orders": "order/order", "order.requests": "order/order", "payments": "payment/payment"}
SERVICES |= {"stock": "stock/reservation", "stock.requests": "stock/reservation", "stock.lines": "stock/shelf"}
SERVICES |= {"dispatches": "dispatch/shipment", "payment.requests": "payment/payment"}


def said(at_ms: int, event_id: str, event: Event, cause: str | None = None) -> Decoded:
    contract = contract_of(type(event))
    key, source = key_of(event) or "", SERVICES[contract.topic.name]
    subject = "A" if source == "stock/shelf" else "1"
    record = Record(contract.topic.name, 0, at_ms, at_ms, key.encode(), b"", event_id, contract.type, source, subject)
    return record.replace(correlation_id="root", causation_id=cause), event


COMPLETED = [
    said(0, "placed", order.PLACED, "submitted"),
    said(5, "asked", order.A_REQUESTED, "placed"),
    said(5, "reserved", order.A_RESERVED, "asked"),
    said(7, "dispatched", order.DISPATCHED, "reserved"),
    said(9, "end", order.COMPLETED, "dispatched"),
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
    assert (saga.ended, saga.ending, saga.duration_ms) == (False, None, 5)


def test_a_key_that_no_event_can_end() -> None:
    assert saga_of("A", [said(0, "asked", order.A_REQUESTED)], shop).ended is None


def test_the_tree_follows_causes_and_begins_with_what_came_from_outside() -> None:
    saga = saga_of("1", COMPLETED, shop)
    (root,) = saga.roots
    assert root.type == "OrderPlaced"
    (asked,) = saga.caused_by(root)
    assert asked.type == "LineRequested"
    assert asked.cause is not None
    assert asked.cause.type == "OrderPlaced"
    assert saga.caused_by(saga.events[-1]) == ()


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        pytest.param(
            [
                *COMPLETED[:3],
                said(10, "failed", order.DECLINED, "reserved"),
                said(11, "release", order.A_RELEASE, "failed"),
                said(12, "back", order.A_RELEASED, "release"),
                said(13, "free", order.released("declined"), "back"),
                said(14, "end", order.cancelled("declined"), "free"),
            ],
            "OrderPlaced step; LineRequested step; LineReserved step; PaymentFailed failure; LineReleaseRequested "
            "compensation; LineReleased compensation; StockReleased compensation; OrderCancelled compensation",
            id="what_follows_from_a_failed_payment_is_compensation",
        ),
        pytest.param(
            [
                *COMPLETED[:3],
                said(10, "failed", order.UNDELIVERABLE, "reserved"),
                said(11, "release", order.A_RELEASE, "failed"),
            ],
            "OrderPlaced step; LineRequested step; LineReserved step; DispatchFailed failure; LineReleaseRequested "
            "compensation",
            id="a_parcel_that_cannot_be_delivered_is_what_turned_the_saga_around",
        ),
        pytest.param(
            [
                said(0, "placed", order.PLACED),
                said(1, "asked", order.A_REQUESTED, "placed"),
                said(2, "refused", order.B_REFUSED, "placed"),
                said(3, "reserved", order.A_RESERVED, "asked"),
                said(4, "release", order.A_RELEASE, "reserved"),
            ],
            "OrderPlaced step; LineRequested step; LineRefused failure; LineReserved step; LineReleaseRequested "
            "compensation",
            id="a_line_that_is_reserved_after_another_was_refused_is_released_as_compensation",
        ),
        pytest.param(
            [
                said(0, "stock", order.RESERVED),
                said(0, "charge", order.CHARGE, "stock"),
                said(1, "wish", order.CANCEL_REQUESTED),
                said(2, "off", order.DISPATCH_CANCELLED, "wish"),
                said(3, "taken", order.TAKEN, "charge"),
                said(4, "refund", order.refund("customer"), "taken"),
            ],
            "StockReserved step; ChargeRequested step; OrderCancelRequested step; DispatchCancelled failure; PaymentTaken "
            "step; RefundRequested compensation",
            id="a_late_payment_is_a_step_and_its_refund_compensation",
        ),
        pytest.param(
            [said(0, "wish", order.CANCEL_REQUESTED), said(1, "end", order.COMPLETED, "wish")],
            "OrderCancelRequested step; OrderCompleted step",
            id="a_completed_order_is_no_compensation_even_after_a_wish_to_cancel",
        ),
        pytest.param(
            [*COMPLETED[:4], said(10, "failed", order.UNDELIVERABLE, "reserved")],
            "OrderPlaced step; LineRequested step; LineReserved step; OrderDispatched step; DispatchFailed failure",
            id="a_failure_that_also_reverses_its_own_step_is_a_failure",
        ),
    ],
)
def test_what_is_a_step_a_failure_or_compensation(story: list[Decoded], expected: str) -> None:
    found = roles(saga_of("1", story, shop))
    assert "; ".join(f"{each} {role}" for each, role in found.items()) == expected


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
    first = said(0, "placed", order.PLACED)
    again = first[0].replace(offset=99), order.PLACED
    saga = saga_of("1", [first, again, *COMPLETED[1:]], shop)
    assert len(saga.roots) == 2


def test_news_leaves_out_the_key_and_says_once_what_never_changes() -> None:
    two_of_a = LineReserved(order_id="1", line_no=2, sku="A", quantity=2)
    story = [
        said(0, "placed", order.PLACED),
        said(1, "one", order.A_RESERVED, "placed"),
        said(2, "two", two_of_a, "placed"),
    ]
    _, one, two = saga_of("1", story, shop).news()
    assert one == {"line_no": 1, "sku": "A", "quantity": 2}
    assert two == {"line_no": 2}


def test_causes_in_a_circle_do_not_hang() -> None:
    story = [said(0, "a", order.A_REQUESTED, "b"), said(0, "b", order.B_REQUESTED, "a")]
    assert len(saga_of("1", story, shop).events) == 2
