"""Thing's decider: pure functions, so the same events always give the same output."""

from dataclasses import replace
from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta

from .events import (
    ChargeRequested,
    OrderCharged,
    OrderCompleted,
    OrderConfirmed,
    OrderDeclined,
    OrderRefunded,
    OrderRequested,
    RefundRequested,
)
from .state import Order, Stage

CONFIRM_WITHIN = timedelta(minutes=15)

_REACHED: dict[type[Event], Stage] = {
    ChargeRequested: Stage.CHARGING,
    OrderDeclined: Stage.DECLINED,
    RefundRequested: Stage.REFUNDING,
    OrderRefunded: Stage.REFUNDED,
    OrderCompleted: Stage.COMPLETED,
}

orders = Decider("order", state=Order, key="order_id")


@orders.evolve
def evolve(state: Order, event: Event, meta: Meta) -> Order:
    """Return the state after one handled or emitted event."""
    match event:
        case OrderConfirmed():
            return replace(state, is_confirmed=True)
        case OrderCharged(charge_key=key):
            return replace(state, stage=Stage.CHARGED, charge_key=key, charged_at=meta.recorded_at)
        case _:
            return replace(state, stage=_REACHED.get(type(event), state.stage))


orders.follows(OrderDeclined, OrderRefunded)  # answers of effects that lead to nothing but a state


@orders.on
def begin(state: Order, request: OrderRequested) -> list[ChargeRequested]:
    """Request the charge, once."""
    if state.stage is not Stage.NEW:
        return []
    return [ChargeRequested(order_id=request.order_id, amount_cents=request.amount_cents)]


@orders.on
def charged(state: Order, charge: OrderCharged) -> list[OrderCompleted]:
    """Wait for the confirmation, unless it came first."""
    return _completed(state, charge.order_id)


@orders.on
def confirmed(state: Order, confirmation: OrderConfirmed) -> list[OrderCompleted]:
    """Complete what is charged; what came too late, or too early, is left to the other handlers."""
    return _completed(state, confirmation.order_id)


@orders.deadline
def confirm_by(state: Order) -> datetime | None:
    """Return when the customer has to have confirmed."""
    charged_at = state.charged_at if state.stage is Stage.CHARGED else None
    return None if charged_at is None else charged_at + CONFIRM_WITHIN


@confirm_by.passed
def refund(state: Order, meta: Meta) -> list[RefundRequested]:
    """Compensate: what was not confirmed in time is paid back."""
    return [RefundRequested(order_id=meta.subject or "", charge_key=state.charge_key)]


def _completed(state: Order, order_id: str) -> list[OrderCompleted]:
    is_complete = state.stage is Stage.CHARGED and state.is_confirmed
    return [OrderCompleted(order_id=order_id)] if is_complete else []
