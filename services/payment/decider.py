"""The payment decider: takes an order's money once, and returns it if the order cannot complete."""

from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta, replace
from services.dispatch.events import DispatchCancelled, DispatchFailed
from services.order.events import OrderCancelled, OrderCompleted
from services.payment.events import (
    ChargeAccepted,
    ChargeConfirmed,
    ChargeDeclined,
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

CONFIRM_WITHIN = timedelta(hours=1)
"""How long a customer has to confirm a charge that the gateway accepted."""

PAYMENT_UNCONFIRMED = "payment_unconfirmed"

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
        case ChargeAccepted() if payment.stage is Stage.CHARGING:  # it may come when a callback has ended all, days ago
            return replace(payment, accepted_at=meta.recorded_at, country=event.country)
        case ChargeConfirmed(charge_key=payment.charge_key):
            return replace(payment, is_confirmed=True)
        case DispatchFailed() | DispatchCancelled():
            return replace(payment, called_off=payment.called_off or event.reason)
        case OrderCompleted() | OrderCancelled():
            return replace(payment, ended_at=meta.recorded_at)
        case _:
            return _reached(payment, event)


def _reached(payment: Payment, event: Event) -> Payment:
    """Go on to the stage that an event leads to; money that `_settled` took is read again, and may be refunded by then."""
    stage = _REACHED.get(type(event))
    is_known = stage is Stage.TAKEN and payment.stage is not Stage.CHARGING
    return payment if stage is None or is_known else replace(payment, stage=stage)


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
def accepted(payment: Payment, charge: ChargeAccepted) -> list[PaymentTaken | VoidRequested]:
    """Wait for the callback, unless it came first, or the order was called off meanwhile."""
    if payment.stage is Stage.CHARGING and payment.called_off:
        return [_void(payment, charge.order_id, payment.called_off)]
    return [*_settled(payment, charge.order_id)]


@payments.on
def confirmed(payment: Payment, charge: ChargeConfirmed) -> list[PaymentTaken]:
    """Count the money as taken; a charge that is voided already is left to the void."""
    return _settled(payment, charge.order_id)


@payments.on
def declined(payment: Payment, charge: ChargeDeclined) -> list[PaymentFailed]:
    """End a payment that still waits; a void may have come before."""
    if payment.stage is not Stage.CHARGING or charge.charge_key != payment.charge_key:
        return []
    return [PaymentFailed(order_id=charge.order_id, reason=charge.reason)]


@payments.deadline
def confirmed_by(payment: Payment) -> datetime | None:
    """Return when a charge that was accepted has to be confirmed."""
    accepted_at = payment.accepted_at if payment.stage is Stage.CHARGING else None
    return None if accepted_at is None else accepted_at + CONFIRM_WITHIN


@confirmed_by.passed
def unconfirmed(payment: Payment, meta: Meta) -> list[VoidRequested]:
    """Void the charge: a callback that comes later finds no money to keep."""
    return [_void(payment, meta.subject, PAYMENT_UNCONFIRMED)]


@payments.on
def taken(payment: Payment, money: PaymentTaken) -> list[RefundRequested]:
    """Keep the money, unless the order was called off during the charge."""
    is_held = payment.stage is Stage.TAKEN  # what `_settled` took may be refunded when it is read here
    return [_refund(payment, money.order_id)] if payment.called_off and is_held else []


@payments.on
def void(payment: Payment, charge: ChargeUncertain) -> list[VoidRequested]:
    """Void the charge: an unknown outcome is resolved, never guessed."""
    return [_void(payment, charge.order_id, charge.reason)] if payment.stage is Stage.CHARGING else []


@payments.on
def undo(payment: Payment, failure: DispatchFailed) -> list[RefundRequested]:
    """Refund what was taken; a charge still in flight is refunded when it is answered."""
    return [_refund(payment, failure.order_id)] if payment.stage is Stage.TAKEN else []


@payments.on
def call_off(payment: Payment, cancelled: DispatchCancelled) -> list[RefundRequested | PaymentWaived | VoidRequested]:
    """Refund what was taken, void what waits for its callback, or waive; a charge in flight is handled when it is answered."""
    match payment.stage:
        case Stage.NEW:
            return [PaymentWaived(order_id=cancelled.order_id, reason=cancelled.reason)]
        case Stage.TAKEN:
            return [_refund(payment, cancelled.order_id)]
        case Stage.CHARGING if payment.accepted_at is not None:
            return [_void(payment, cancelled.order_id, payment.called_off)]
        case _:
            return []


payments.follows(PaymentFailed, PaymentVoided, PaymentRefunded)  # no money is kept


payments.follows(OrderCompleted, OrderCancelled)  # allows the key to be forgotten


@payments.forget
def forgotten_at(payment: Payment) -> datetime | None:
    """Return when an ended order's payment is forgotten."""
    return None if payment.ended_at is None else payment.ended_at + KEPT


def _settled(payment: Payment, order_id: str) -> list[PaymentTaken]:
    """Take the money when both are there, in whatever order: the gateway's own answer, and its callback."""
    if payment.stage is not Stage.CHARGING or payment.accepted_at is None or not payment.is_confirmed:
        return []
    return [
        PaymentTaken(
            order_id=order_id,
            amount_cents=payment.amount_cents,
            currency=payment.currency,
            country=payment.country,
            charge_key=payment.charge_key,
        )
    ]


def _refund(payment: Payment, order_id: str) -> RefundRequested:
    return RefundRequested(
        order_id=order_id,
        charge_key=payment.charge_key,
        amount_cents=payment.amount_cents,
        currency=payment.currency,
        reason=payment.called_off,
    )


def _void(payment: Payment, order_id: str, reason: str) -> VoidRequested:
    return VoidRequested(order_id=order_id, charge_key=payment.charge_key, currency=payment.currency, reason=reason)
