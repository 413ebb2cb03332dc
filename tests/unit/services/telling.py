"""One order's events, ready to be told: two lines, 7.50 GBP, to France."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.identity import derived_id
from eventlib.testing import given
from services.dispatch import events as dispatch
from services.order import events as order
from services.payment import events as payment
from services.stock import events as stock

ORDERED_AT = datetime(2010, 12, 1, 8, 26, tzinfo=UTC)
CHARGE_KEY = derived_id("ChargeRequested", "payment", "1", 0)
"""The id that the test kit gives a ChargeRequested in an order's history."""

BOOKING_KEY = derived_id("DispatchRequested", "shipment", "1", 0)

LINES = (
    order.OrderLine(line_no=1, sku="A", quantity=2, unit_price_cents=250),
    order.OrderLine(line_no=2, sku="B", quantity=1, unit_price_cents=250),
)
SUBMITTED = order.OrderSubmitted(
    order_id="1", customer_id="17850", country="France", currency="GBP", lines=LINES, placed_at=ORDERED_AT
)
CANCEL_SUBMITTED = order.CancelSubmitted(order_id="1")
PLACED = order.OrderPlaced(
    order_id="1",
    customer_id="17850",
    country="France",
    currency="GBP",
    amount_cents=750,
    lines=LINES,
    placed_at=ORDERED_AT,
)
CANCEL_REQUESTED = order.OrderCancelRequested(order_id="1", reason="customer")
COMPLETED = order.OrderCompleted(order_id="1", amount_cents=750, currency="GBP")

A_REQUESTED = stock.LineRequested(order_id="1", line_no=1, sku="A", quantity=2)
B_REQUESTED = stock.LineRequested(order_id="1", line_no=2, sku="B", quantity=1)
A_RESERVED = stock.LineReserved(order_id="1", line_no=1, sku="A", quantity=2)
B_RESERVED = stock.LineReserved(order_id="1", line_no=2, sku="B", quantity=1)
B_REFUSED = stock.LineRefused(order_id="1", line_no=2, sku="B", quantity=1, available=0, reason="out_of_stock")
A_RELEASE = stock.LineReleaseRequested(order_id="1", line_no=1, sku="A", quantity=2)
B_RELEASE = stock.LineReleaseRequested(order_id="1", line_no=2, sku="B", quantity=1)
A_RELEASED = stock.LineReleased(order_id="1", line_no=1, sku="A", quantity=2)
B_RELEASED = stock.LineReleased(order_id="1", line_no=2, sku="B", quantity=1)
A_SHIPPED = stock.LineShipped(order_id="1", line_no=1, sku="A", quantity=2)
B_SHIPPED = stock.LineShipped(order_id="1", line_no=2, sku="B", quantity=1)
RESERVED = stock.StockReserved(order_id="1", amount_cents=750, currency="GBP", country="France")
REJECTED = stock.StockRejected(order_id="1", reason="out_of_stock")
STOCK_SHIPPED = stock.StockShipped(order_id="1")

CHARGE = payment.ChargeRequested(order_id="1", amount_cents=750, currency="GBP", country="France")
TAKEN = payment.PaymentTaken(order_id="1", amount_cents=750, currency="GBP", country="France", charge_key=CHARGE_KEY)
DECLINED = payment.PaymentFailed(order_id="1", reason="declined")
ACCEPTED = payment.ChargeAccepted(
    order_id="1", amount_cents=750, currency="GBP", country="France", charge_key=CHARGE_KEY
)
CONFIRMED = payment.ChargeConfirmed(order_id="1", charge_key=CHARGE_KEY)
NOT_CONFIRMED = payment.ChargeDeclined(order_id="1", charge_key=CHARGE_KEY, reason="declined")
UNCERTAIN = payment.ChargeUncertain(order_id="1", reason="payment_uncertain")
VOID = payment.VoidRequested(order_id="1", charge_key=CHARGE_KEY, currency="GBP", reason="payment_uncertain")
VOIDED = payment.PaymentVoided(
    order_id="1", charge_key=CHARGE_KEY, amount_cents=750, currency="GBP", reason="payment_uncertain"
)

DISPATCH = dispatch.DispatchRequested(order_id="1", country="France")
DISPATCH_UNCERTAIN = dispatch.DispatchUncertain(order_id="1", reason="carrier_silent")
RECALL = dispatch.RecallRequested(order_id="1", booking_key=BOOKING_KEY, reason="carrier_silent")
DISPATCHED = dispatch.OrderDispatched(order_id="1", tracking="P-1")
BOOKING_ACCEPTED = dispatch.BookingAccepted(order_id="1")
COLLECTED = dispatch.ParcelCollected(order_id="1", booking_key=BOOKING_KEY, tracking="P-1")
NOT_COLLECTED = dispatch.ParcelRefused(order_id="1", booking_key=BOOKING_KEY, reason="undeliverable")
UNDELIVERABLE = dispatch.DispatchFailed(order_id="1", reason="undeliverable")
DISPATCH_CANCELLED = dispatch.DispatchCancelled(order_id="1", reason="customer")
TOO_LATE = dispatch.CancelRefused(order_id="1", reason="dispatched")


def released(reason: str) -> stock.StockReleased:
    return stock.StockReleased(order_id="1", reason=reason)


def waived(reason: str = "customer") -> payment.PaymentWaived:
    return payment.PaymentWaived(order_id="1", reason=reason)


def refund(reason: str) -> payment.RefundRequested:
    return payment.RefundRequested(order_id="1", charge_key=CHARGE_KEY, amount_cents=750, currency="GBP", reason=reason)


def refunded(reason: str) -> payment.PaymentRefunded:
    return payment.PaymentRefunded(order_id="1", charge_key=CHARGE_KEY, amount_cents=750, currency="GBP", reason=reason)


def cancelled(reason: str, refunded_cents: int = 0) -> order.OrderCancelled:
    return order.OrderCancelled(order_id="1", reason=reason, refunded_cents=refunded_cents, currency="GBP")


class Course(NamedTuple):
    """After a history, an event: what is emitted, and fields of the state that is left."""

    history: Sequence[Event]
    event: Event
    emitted: Sequence[Event]
    state: Mapping[str, Any] = {}

    def check(self, decider: Decider[Any]) -> None:
        given(decider, *self.history).when(self.event).then(*self.emitted).then_state(**self.state)
