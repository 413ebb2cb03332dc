"""What `eventlib check` sees of the shop: a service that forgets an event is named, wherever its types can show it."""

from copy import copy
from typing import Any

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis import compensation
from eventlib.analysis.checks import check
from eventlib.analysis.event_graph import EventGraph
from services import shop
from services.dispatch.events import DispatchCancelled, DispatchFailed
from services.order.events import OrderCancelRequested
from services.payment.events import ChargeUncertain, PaymentFailed, PaymentTaken
from services.stock.events import LineRefused, LineReleased, LineReserved, StockReserved


def forgetting(decider: str, event: type[Event]) -> Choreography:
    """Return the shop with a decider that does not handle an event."""

    def with_fault(sound: Decider[Any]) -> Decider[Any]:
        if sound.name != decider:
            return sound
        faulty = copy(sound)
        faulty.handlers = {each: handler for each, handler in sound.handlers.items() if each is not event}
        assert len(faulty.handlers) == len(sound.handlers) - 1
        return faulty

    services = [Service(each.name, deciders=[with_fault(d) for d in each.deciders]) for each in shop.services]
    return Choreography("forgetful", services, facts=shop.facts)


@pytest.mark.parametrize(
    ("decider", "event", "rule", "subject"),
    [
        ("reservation", PaymentFailed, "compensation-out-of-reach", "StockReserved, PaymentFailed"),
        ("reservation", DispatchFailed, "compensation-out-of-reach", "LineReserved, DispatchFailed"),
        ("reservation", DispatchFailed, "compensation-out-of-reach", "LineReserved, DispatchUncertain"),
        ("reservation", LineRefused, "compensation-out-of-reach", "LineReserved, LineRefused"),
        ("reservation", LineReleased, "compensation-out-of-reach", "StockReserved, DispatchFailed"),
        ("reservation", LineReserved, "event-without-handler", "LineReserved"),
        ("payment", StockReserved, "effect-never-requested", "ChargeRequested"),
        ("payment", ChargeUncertain, "compensation-out-of-reach", "PaymentTaken, ChargeUncertain"),
        ("payment", DispatchFailed, "compensation-out-of-reach", "PaymentTaken, DispatchFailed"),
        ("payment", DispatchCancelled, "compensation-out-of-reach", "PaymentTaken, DispatchCancelled"),
        ("payment", PaymentTaken, "late-step", "PaymentTaken"),
        ("shipment", PaymentTaken, "effect-never-requested", "DispatchRequested"),
        ("shipment", OrderCancelRequested, "wait-without-deadline", "reservation"),
    ],
)
def test_a_forgotten_event_is_found(decider: str, event: type[Event], rule: str, subject: str) -> None:
    assert (rule, subject) in {(finding.rule, finding.subject) for finding in check(forgetting(decider, event))}


def test_the_risks_of_the_shop_are_the_known_ones() -> None:
    steps, failures = compensation.proved(EventGraph(shop))
    # StockReserved, ChargeAccepted, ChargeConfirmed, PaymentTaken, OrderPlaced, LineReserved,
    # BookingAccepted, ParcelCollected, OrderDispatched
    assert (steps, failures) == (9, 41)
