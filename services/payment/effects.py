"""What payment asks of the gateway, and what its answers mean."""

from eventlib import FOREVER, Meta, Retry
from services.payment.decider import payments
from services.payment.events import (
    ChargeRequested,
    ChargeUncertain,
    PaymentFailed,
    PaymentRefunded,
    PaymentTaken,
    PaymentVoided,
    RefundRequested,
    VoidRequested,
)
from services.payment.ports import Charged, Declined, Gateway

PAYMENT_UNCERTAIN = "payment_uncertain"


def uncertain(request: ChargeRequested) -> ChargeUncertain:
    """Say that nobody knows whether the money was taken."""
    return ChargeUncertain(order_id=request.order_id, reason=PAYMENT_UNCERTAIN)


@payments.effect(ChargeRequested, retry=Retry(attempts=5), timeout_s=10, otherwise=uncertain)
async def charge(request: ChargeRequested, gateway: Gateway, meta: Meta) -> PaymentTaken | PaymentFailed:
    """Take the order's amount, under the request's id."""
    match await gateway.charge(meta.id, request.order_id, request.amount_cents, request.currency):
        case Charged():
            return PaymentTaken(
                order_id=request.order_id,
                amount_cents=request.amount_cents,
                currency=request.currency,
                country=request.country,
                charge_key=meta.id,
            )
        case Declined(reason=reason):
            return PaymentFailed(order_id=request.order_id, reason=reason)


@payments.effect(VoidRequested, retry=FOREVER, timeout_s=10)
async def void(request: VoidRequested, gateway: Gateway) -> PaymentVoided:
    """Undo a charge of unknown outcome; a compensation does not give up."""
    voided = await gateway.void(request.charge_key)
    return PaymentVoided(
        order_id=request.order_id,
        charge_key=request.charge_key,
        amount_cents=voided.returned_cents,
        currency=request.currency,
        reason=request.reason,
    )


@payments.effect(RefundRequested, retry=FOREVER, timeout_s=10)
async def refund(request: RefundRequested, gateway: Gateway, meta: Meta) -> PaymentRefunded:
    """Return what was taken, under the request's id; a compensation does not give up."""
    await gateway.refund(meta.id, request.charge_key, request.amount_cents, request.currency)
    return PaymentRefunded(
        order_id=request.order_id,
        charge_key=request.charge_key,
        amount_cents=request.amount_cents,
        currency=request.currency,
        reason=request.reason,
    )
