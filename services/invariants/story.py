"""Folds the events of one order into the state that the shop's invariants check."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventlib import Event, replace
from eventlib.invariants import Fold
from services.dispatch.events import (
    BookingAccepted,
    CancelRefused,
    DispatchCancelled,
    DispatchRequested,
    OrderDispatched,
    ParcelCollected,
    RecallRequested,
)
from services.order.events import CancelSubmitted, OrderCancelled, OrderCompleted, OrderPlaced, OrderSubmitted
from services.payment.events import (
    ChargeAccepted,
    ChargeConfirmed,
    ChargeRequested,
    PaymentFailed,
    PaymentRefunded,
    PaymentTaken,
    PaymentVoided,
    PaymentWaived,
    RefundRequested,
    VoidRequested,
)
from services.stock.events import (
    LineRefused,
    LineReleased,
    LineReleaseRequested,
    LineRequested,
    LineReserved,
    LineShipped,
    StockRejected,
    StockReleased,
    StockReserved,
    StockShipped,
)


@dataclass(frozen=True)
class Story:
    """One order according to the log: how often each step happened, its lines' units, its money in minor units."""

    submitted: int = 0
    placed: int = 0
    amount_cents: int = 0
    lines: int = 0
    units: int = 0
    requested: int = 0
    refused: int = 0
    reserved: int = 0
    reserved_units: int = 0
    release_requested: int = 0
    released: int = 0
    released_units: int = 0
    shipped: int = 0
    shipped_units: int = 0
    stock_reserved: int = 0
    stock_closed: int = 0
    charges: int = 0
    taken_cents: int = 0
    returned_cents: int = 0
    compensations: int = 0
    charges_accepted: int = 0
    charges_confirmed: int = 0
    payments_taken: int = 0
    payment_answers: int = 0
    payment_waived: int = 0
    dispatches: int = 0
    dispatched: int = 0
    bookings_accepted: int = 0
    collected: int = 0
    recalls: int = 0
    called_off: int = 0
    wishes: int = 0
    wishes_refused: int = 0
    completed: int = 0
    cancelled: int = 0
    refunded_cents: int = 0
    reasons: frozenset[str] = frozenset()
    end_reason: str = ""


story = Fold("story", state=Story, key="order_id")

_COUNTED: Mapping[type[Event], str] = {
    OrderSubmitted: "submitted",
    LineRequested: "requested",
    LineRefused: "refused",
    LineReleaseRequested: "release_requested",
    StockReserved: "stock_reserved",
    StockRejected: "stock_closed",
    StockReleased: "stock_closed",
    StockShipped: "stock_closed",
    ChargeRequested: "charges",
    ChargeAccepted: "charges_accepted",
    ChargeConfirmed: "charges_confirmed",
    VoidRequested: "compensations",
    RefundRequested: "compensations",
    PaymentFailed: "payment_answers",
    PaymentWaived: "payment_waived",
    DispatchRequested: "dispatches",
    OrderDispatched: "dispatched",
    BookingAccepted: "bookings_accepted",
    ParcelCollected: "collected",
    RecallRequested: "recalls",
    DispatchCancelled: "called_off",
    CancelSubmitted: "wishes",
    CancelRefused: "wishes_refused",
}


@story.evolve
def add(totals: Story, event: Event) -> Story:
    """Take one event into its order's story."""
    if type(event) in _COUNTED:  # most are
        return _counted(totals, event)
    match event:
        case LineReserved() | LineReleased() | LineShipped():
            return _moved(totals, event)
        case PaymentTaken() | PaymentVoided() | PaymentRefunded():
            return _money(totals, event)
        case OrderPlaced() | OrderCompleted() | OrderCancelled():
            return _begun_or_ended(totals, event)
        case _:
            return _counted(totals, event)


def _counted(totals: Story, event: Event) -> Story:
    reason, counted = vars(event).get("reason"), _COUNTED.get(type(event))
    if reason is not None and reason not in totals.reasons:
        totals = replace(totals, reasons=totals.reasons | {reason})
    return totals if counted is None else replace(totals, **{counted: getattr(totals, counted) + 1})


def _moved(totals: Story, event: LineReserved | LineReleased | LineShipped) -> Story:
    units = event.quantity
    match event:
        case LineReserved():
            return replace(totals, reserved=totals.reserved + 1, reserved_units=totals.reserved_units + units)
        case LineReleased():
            return replace(totals, released=totals.released + 1, released_units=totals.released_units + units)
        case LineShipped():
            return replace(totals, shipped=totals.shipped + 1, shipped_units=totals.shipped_units + units)


def _money(totals: Story, event: PaymentTaken | PaymentVoided | PaymentRefunded) -> Story:
    cents = event.amount_cents
    match event:
        case PaymentTaken():
            taken, answers = totals.payments_taken + 1, totals.payment_answers + 1
            return replace(
                totals, payments_taken=taken, payment_answers=answers, taken_cents=totals.taken_cents + cents
            )
        case PaymentVoided():
            taken, returned = totals.taken_cents + cents, totals.returned_cents + cents
            return replace(
                totals, payment_answers=totals.payment_answers + 1, taken_cents=taken, returned_cents=returned
            )
        case PaymentRefunded():
            return replace(totals, returned_cents=totals.returned_cents + cents)


def _begun_or_ended(totals: Story, event: OrderPlaced | OrderCompleted | OrderCancelled) -> Story:
    match event:
        case OrderPlaced():
            units = sum(line.quantity for line in event.lines)
            amount_cents, lines = event.amount_cents, len(event.lines)
            return replace(totals, placed=totals.placed + 1, amount_cents=amount_cents, lines=lines, units=units)
        case OrderCompleted():
            return replace(totals, completed=totals.completed + 1)
        case OrderCancelled():
            return replace(
                totals,
                cancelled=totals.cancelled + 1,
                refunded_cents=event.refunded_cents,
                end_reason=event.reason,
            )
