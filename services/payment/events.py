"""The events of the payment service: the gateway's requests and answers, and the state of each order's money."""

from datetime import timedelta

from eventlib import Event
from services.fields import AmountCents, Country, Currency, GatewayKey, OrderId, Reason, UtcTime

AGAIN = timedelta(days=3)
"""For how long the gateway repeats a callback that was not answered."""


class ChargeRequested(Event, topic="payments", key="order_id"):
    """The gateway is asked for the order's amount; this event's id is the charge's key."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country


class ChargeAccepted(Event, topic="payments", key="order_id"):
    """The gateway accepted the charge, and calls back when the customer has confirmed it; it repeats what was asked."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country
    charge_key: GatewayKey


class ChargeConfirmed(Event, topic="payment.callbacks", key="order_id", request=True, once_for=AGAIN):
    """The gateway reports that it took the money of a charge that it had accepted."""

    order_id: OrderId
    charge_key: GatewayKey


class ChargeDeclined(Event, topic="payment.callbacks", key="order_id", request=True, once_for=AGAIN, failure=True):
    """The gateway reports that no money will come of a charge that it had accepted."""

    order_id: OrderId
    charge_key: GatewayKey
    reason: Reason


class PaymentTaken(Event, topic="payments", key="order_id"):
    """The gateway took the order's amount."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country
    charge_key: GatewayKey


TAKING = (ChargeAccepted, ChargeConfirmed, PaymentTaken)
"""By which money is on its way to the shop; a void and a refund return it."""


class PaymentFailed(Event, topic="payments", key="order_id", failure=True):
    """The gateway refused: nothing was taken, and nothing will be."""

    order_id: OrderId
    reason: Reason


class ChargeUncertain(Event, topic="payments", key="order_id"):
    """The gateway did not say whether it took the money, for as long as it was asked."""

    order_id: OrderId
    reason: Reason


class VoidRequested(Event, topic="payments", key="order_id"):
    """The gateway is asked to undo a charge, whether it was made or not, and to refuse its key from now on."""

    order_id: OrderId
    charge_key: GatewayKey
    currency: Currency
    reason: Reason


class PaymentVoided(Event, topic="payments", key="order_id", reverses=TAKING):
    """A charge that was uncertain, or not confirmed, is undone for good; `amount_cents` had been taken and was returned (0: it never landed)."""

    order_id: OrderId
    charge_key: GatewayKey
    amount_cents: AmountCents
    currency: Currency
    reason: Reason


class RefundRequested(Event, topic="payments", key="order_id"):
    """The gateway is asked to return what it took."""

    order_id: OrderId
    charge_key: GatewayKey
    amount_cents: AmountCents
    currency: Currency
    reason: Reason


class PaymentRefunded(Event, topic="payments", key="order_id", reverses=TAKING):
    """The gateway returned what it had taken."""

    order_id: OrderId
    charge_key: GatewayKey
    amount_cents: AmountCents
    currency: Currency
    reason: Reason


class PaymentWaived(Event, topic="payments", key="order_id"):
    """The order was called off in time: nothing was charged, and nothing will be."""

    order_id: OrderId
    reason: Reason


class PaymentsDegraded(Event, topic="payments.alerts", key="country"):
    """A live view has seen too many payments of a country fail within five minutes: so many, when it was noticed."""

    country: Country
    since: UtcTime
    until: UtcTime
    taken: int
    failed: int
