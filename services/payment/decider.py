"""The payment decider: takes an order's money once, and returns it if the order cannot complete."""

from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta, replace
from services.dispatch.events import DispatchCancelled, DispatchFailed
from services.order.events import OrderCancelled, OrderCompleted
from services.payment.events import (
    ChargeRequested,
    ChargeUncertain,
    PaymentFailed,
    PaymentRefunded,
    PaymentTaken,
    PaymentVoided,
    PaymentWaived,
    RefundRequested,
    VoidRequested,
)
from services.payment.state import Payment, Stage
from services.stock.events import StockReserved

KEPT = timedelta(days=1)
"""How long an ended order's payment is remembered. A waived one must outlive the order: a StockReserved that comes
late would be charged."""

payments = Decider("payment", state=Payment, key="order_id")

_REACHED: dict[type[Event], Stage] = {
    PaymentTaken: Stage.TAKEN,
    PaymentFailed: Stage.FAILED,
    RefundRequested: Stage.REFUNDING,
    PaymentRefunded: Stage.REFUNDED,
    VoidRequested: Stage.VOIDING,
    PaymentVoided: Stage.VOIDED,
    PaymentWaived: Stage.WAIVED,
}


@payments.evolve
def follow(payment: Payment, event: Event, meta: Meta) -> Payment:
    """Track the charge; its idempotency key is the id of the event that requests it."""
    match event:
        case ChargeRequested():
            return replace(
                payment,
                stage=Stage.CHARGING,
                charge_key=meta.id,
                amount_cents=event.amount_cents,
                currency=event.currency,
            )
        case DispatchFailed() | DispatchCancelled():
            return replace(payment, called_off=payment.called_off or event.reason)
        case OrderCompleted() | OrderCancelled():
            return replace(payment, ended_at=meta.recorded_at)
        case _:
            stage = _REACHED.get(type(event))
            return payment if stage is None else replace(payment, stage=stage)


@payments.on
def charge(payment: Payment, stock: StockReserved) -> list[ChargeRequested]:
    """Request the charge, unless the order was called off before its stock was reserved."""
    if payment.stage is not Stage.NEW:
        return []
    return [
        ChargeRequested(
            order_id=stock.order_id,
            amount_cents=stock.amount_cents,
            currency=stock.currency,
            country=stock.country,
        )
    ]


@payments.on
def taken(payment: Payment, money: PaymentTaken) -> list[RefundRequested]:
    """Keep the money, unless the order was called off during the charge."""
    return [_refund(payment, money.order_id)] if payment.called_off else []


@payments.on
def void(payment: Payment, charge: ChargeUncertain) -> list[VoidRequested]:
    """Void the charge: an unknown outcome is resolved, never guessed."""
    return [
        VoidRequested(
            order_id=charge.order_id,
            charge_key=payment.charge_key,
            currency=payment.currency,
            reason=charge.reason,
        )
    ]


@payments.on
def undo(payment: Payment, failure: DispatchFailed) -> list[RefundRequested]:
    """Refund what was taken; a charge still in flight is refunded when it is answered."""
    return [_refund(payment, failure.order_id)] if payment.stage is Stage.TAKEN else []


@payments.on
def call_off(payment: Payment, cancelled: DispatchCancelled) -> list[RefundRequested | PaymentWaived]:
    """Refund what was taken, or waive the payment; a charge in flight is handled when it is answered."""
    match payment.stage:
        case Stage.NEW:
            return [PaymentWaived(order_id=cancelled.order_id, reason=cancelled.reason)]
        case Stage.TAKEN:
            return [_refund(payment, cancelled.order_id)]
        case _:
            return []


payments.follows(PaymentFailed, PaymentVoided, PaymentRefunded)  # no money is kept


payments.follows(OrderCompleted, OrderCancelled)  # allows the key to be forgotten


@payments.forget
def forgotten_at(payment: Payment) -> datetime | None:
    """Return when an ended order's payment is forgotten."""
    return None if payment.ended_at is None else payment.ended_at + KEPT


def _refund(payment: Payment, order_id: str) -> RefundRequested:
    return RefundRequested(
        order_id=order_id,
        charge_key=payment.charge_key,
        amount_cents=payment.amount_cents,
        currency=payment.currency,
        reason=payment.called_off,
    )
