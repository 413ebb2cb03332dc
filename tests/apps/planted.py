"""An order that is placed, its stock set aside and its money taken: events, and what services say about them.

For tests that plant one fault into it.
"""

from dataclasses import replace

from eventlib import Choreography, Event
from eventlib.analysis.checks import check
from eventlib.model.effect import Retry
from eventlib.model.finding import Finding
from tests.apps.wired import Asks, Emits, Wired


class Order(Event, abstract=True):
    order_id: str


class Submitted(Order, topic="requests", key="order_id", request=True): ...


class CancelSubmitted(Order, topic="requests", key="order_id", request=True): ...


class Placed(Order, topic="orders", key="order_id"): ...


class Done(Order, topic="orders", key="order_id", final=True): ...


class Cancelled(Order, topic="orders", key="order_id", failure=True): ...


class Reserved(Order, topic="stock", key="order_id"): ...


class Rejected(Order, topic="stock", key="order_id", failure=True): ...


class Released(Order, topic="stock", key="order_id", final=True, reverses=Reserved): ...


class ChargeRequested(Order, topic="payments", key="order_id"): ...


class Paid(Order, topic="payments", key="order_id"): ...


class Declined(Order, topic="payments", key="order_id", failure=True): ...


class Unknown(Order, topic="payments", key="order_id"): ...


class RefundRequested(Order, topic="payments", key="order_id"): ...


class Refunded(Order, topic="payments", key="order_id", final=True, reverses=Paid): ...


class RefundRefused(Order, topic="payments", key="order_id", failure=True, final=True): ...


class SendRequested(Order, topic="parcels", key="order_id"): ...


class Sent(Order, topic="parcels", key="order_id"): ...


class Lost(Order, topic="parcels", key="order_id", failure=True): ...


TWICE = Retry(attempts=2)

ORDER = Wired({Submitted: [Placed], Paid: [], Declined: []}, overdue=[Done])
STOCK = Wired({Placed: [Reserved, Rejected], Rejected: [Done], Declined: [Released]}, overdue=[Done])
PAYMENT = Wired({Reserved: [ChargeRequested]}, {ChargeRequested: Asks([Paid, Declined])}, overdue=[Done])
"""An order is placed, its stock set aside, its money taken; when the payment is declined the stock goes back."""


def found(planted: Choreography) -> set[tuple[str, str]]:
    return {(finding.rule, finding.subject) for finding in check(planted) if finding.accepted is None}


def the(planted: Choreography, rule: str) -> Finding:
    (finding,) = [each for each in check(planted) if each.rule == rule]
    return finding


def saying(wired: Wired, emits: Emits) -> Wired:
    return replace(wired, emits={**wired.emits, **emits})


def without(wired: Wired, event: type[Event]) -> Wired:
    return replace(wired, emits={each: emits for each, emits in wired.emits.items() if each is not event})


CANCELLABLE = saying(ORDER, {CancelSubmitted: [Cancelled], Paid: [Done]})
RELEASING = saying(STOCK, {Cancelled: [Released]})
REFUNDING = Wired(
    {Reserved: [ChargeRequested], Cancelled: [RefundRequested], Paid: [RefundRequested]},
    {ChargeRequested: Asks([Paid, Declined]), RefundRequested: Asks([Refunded])},
    overdue=[Done],
)
