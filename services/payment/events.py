"""What payment tells: what the gateway is asked, what it answers, and how each order's money stands."""

from eventlib import Event
from services.fields import AmountCents, Country, Currency, GatewayKey, OrderId, Reason, UtcTime


class ChargeRequested(Event, topic="payments", key="order_id"):
    """The gateway is asked for the order's amount; this event's id is the charge's key."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country


class PaymentTaken(Event, topic="payments", key="order_id"):
    """The gateway took the order's amount."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country
    charge_key: GatewayKey


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


class PaymentVoided(Event, topic="payments", key="order_id", reverses=PaymentTaken):
    """An uncertain charge is undone for good; `amount_cents` had been taken and was returned (0: it never landed)."""

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


class PaymentRefunded(Event, topic="payments", key="order_id", reverses=PaymentTaken):
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
