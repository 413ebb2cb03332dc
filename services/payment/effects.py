"""Payment's effects: calls of the gateway, and the events they emit."""

from eventlib import FOREVER, Meta, Retry
from services.payment.decider import confirmed_by, payments
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
    RefundRequested,
    VoidRequested,
)
from services.payment.ports import Accepted, Declined, Gateway

PAYMENT_UNCERTAIN = "payment_uncertain"


def uncertain(request: ChargeRequested) -> ChargeUncertain:
    """Emit that the outcome of the charge is unknown."""
    return ChargeUncertain(order_id=request.order_id, reason=PAYMENT_UNCERTAIN)


@payments.effect(
    ChargeRequested,
    retry=Retry(attempts=5),
    timeout_s=10,
    otherwise=uncertain,
    awaits=(ChargeConfirmed, ChargeDeclined),
    within=confirmed_by,
)
async def charge(
    request: ChargeRequested, gateway: Gateway, meta: Meta
) -> PaymentTaken | ChargeAccepted | PaymentFailed:
    """Charge the order's amount; the request's id is the idempotency key."""
    answer = await gateway.charge(meta.id, request.order_id, request.amount_cents, request.currency)
    if isinstance(answer, Declined):
        return PaymentFailed(order_id=request.order_id, reason=answer.reason)
    follows = ChargeAccepted if isinstance(answer, Accepted) else PaymentTaken
    return follows(
        order_id=request.order_id,
        amount_cents=request.amount_cents,
        currency=request.currency,
        country=request.country,
        charge_key=meta.id,
    )


@payments.effect(VoidRequested, retry=FOREVER, timeout_s=10)
async def void(request: VoidRequested, gateway: Gateway) -> PaymentVoided:
    """Void a charge of unknown outcome; a compensation retries without limit."""
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
    """Refund what was taken; a compensation retries without limit."""
    await gateway.refund(meta.id, request.charge_key, request.amount_cents, request.currency)
    return PaymentRefunded(
        order_id=request.order_id,
        charge_key=request.charge_key,
        amount_cents=request.amount_cents,
        currency=request.currency,
        reason=request.reason,
    )
