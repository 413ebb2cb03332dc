"""The reservation decider: reserves all lines of an order or none, across any number of shelves."""

from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta, replace
from services.dispatch.events import DispatchCancelled, DispatchFailed, OrderDispatched
from services.order.events import OrderPlaced
from services.payment.events import ChargeUncertain, PaymentFailed, PaymentVoided
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
from services.stock.shelf import OUT_OF_STOCK
from services.stock.state import HeldLine, Reservation

KEPT = timedelta(days=1)
"""How long a closed reservation is remembered. No later event reopens it for good: an order is placed once, and an
order called off before it was seen, or after it was forgotten, holds nothing and closes at once."""

reservations = Decider("reservation", state=Reservation, key="order_id")


@reservations.evolve
def follow(reservation: Reservation, event: Event, meta: Meta) -> Reservation:  # noqa: PLR0911  one return for each event
    """Count the answers, and keep what is held."""
    match event:
        case LineReserved():
            line = HeldLine(event.line_no, event.sku, event.quantity)
            return replace(reservation, answered=reservation.answered + 1, held=(*reservation.held, line))
        case LineReleased():
            return replace(reservation, releasing=reservation.releasing - 1)
        case LineReleaseRequested():  # all held lines go back at once
            return replace(reservation, releasing=reservation.releasing + 1, held=())
        case LineRefused():
            return replace(reservation, answered=reservation.answered + 1, refused=True)
        case OrderPlaced():
            return replace(
                reservation,
                asked=len(event.lines),
                amount_cents=event.amount_cents,
                currency=event.currency,
                country=event.country,
            )
        case StockRejected() | StockReleased() | StockShipped():
            return replace(reservation, held=(), closed_at=meta.recorded_at)
        case PaymentVoided() if reservation.called_off:
            return reservation  # called off when the charge became uncertain
        case PaymentFailed() | ChargeUncertain() | PaymentVoided() | DispatchFailed() | DispatchCancelled():
            closed_at = reservation.closed_at if reservation.asked else meta.recorded_at
            return replace(reservation, called_off=reservation.called_off or event.reason, closed_at=closed_at)
        case _:
            return reservation


@reservations.on
def ask(reservation: Reservation, order: OrderPlaced) -> list[LineRequested | StockReleased]:
    """Request each line from its shelf, unless the order was called off first."""
    if reservation.called_off:
        return [StockReleased(order_id=order.order_id, reason=reservation.called_off)]
    return [
        LineRequested(order_id=order.order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)
        for line in order.lines
    ]


@reservations.on
def join(reservation: Reservation, line: LineReserved) -> list[StockReserved | LineReleaseRequested]:
    """Join the shelves' answers; after a refusal, release late reservations at once."""
    if reservation.refused or reservation.called_off:
        return [*_let_go(reservation, line.order_id)]
    if reservation.answered < reservation.asked:
        return []
    return [
        StockReserved(
            order_id=line.order_id,
            amount_cents=reservation.amount_cents,
            currency=reservation.currency,
            country=reservation.country,
        )
    ]


@reservations.on
def refuse(reservation: Reservation, line: LineRefused) -> list[LineReleaseRequested | StockRejected]:
    """Release what is held; reject if nothing is held and every shelf has answered."""
    if reservation.held:
        return [*_let_go(reservation, line.order_id)]
    return [StockRejected(order_id=line.order_id, reason=OUT_OF_STOCK)] if reservation.is_back else []


@reservations.on
def returned(reservation: Reservation, line: LineReleased) -> list[StockRejected | StockReleased]:
    """Close once the last line is released."""
    if not reservation.is_back:
        return []
    if reservation.refused:
        return [StockRejected(order_id=line.order_id, reason=OUT_OF_STOCK)]
    return [StockReleased(order_id=line.order_id, reason=reservation.called_off)]


@reservations.on
def call_off(
    reservation: Reservation,
    failure: PaymentFailed | ChargeUncertain | PaymentVoided | DispatchFailed | DispatchCancelled,
) -> list[LineReleaseRequested]:
    """Release what is held; answers still in flight are released when they arrive."""
    return _let_go(reservation, failure.order_id)


@reservations.on
def ship(reservation: Reservation, dispatched: OrderDispatched) -> list[LineShipped | StockShipped]:
    """Ship the held lines."""
    order_id = dispatched.order_id
    shipped = [
        LineShipped(order_id=order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)
        for line in reservation.held
    ]
    return [*shipped, StockShipped(order_id=order_id)]


@reservations.forget
def forgotten_at(reservation: Reservation) -> datetime | None:
    """Return when a closed reservation is forgotten."""
    return None if reservation.closed_at is None else reservation.closed_at + KEPT


def _let_go(reservation: Reservation, order_id: str) -> list[LineReleaseRequested]:
    return [
        LineReleaseRequested(order_id=order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)
        for line in reservation.held
    ]
