"""Given past events, when a request arrives, then these events are emitted: no log, no broker, no waiting."""

from eventlib.testing import given

from .decider import MOST_UNITS, balances
from .events import (
    ThingGranted,
    ThingRefused,
    ThingRequested,
)


def test_units_are_granted() -> None:
    """The requested units are granted and added to the balance."""
    request = ThingRequested(customer_id="1", units=5)
    granted = ThingGranted(customer_id="1", units=5)
    given(balances, granted).when(request).then(granted).then_state(units=10)


def test_more_than_the_most_is_refused() -> None:
    """One unit over the limit is refused, and the balance is unchanged."""
    request = ThingRequested(customer_id="1", units=1)
    full = ThingGranted(customer_id="1", units=MOST_UNITS)
    refused = ThingRefused(customer_id="1", units=1, reason="limit")
    given(balances, full).when(request).then(refused).then_state(units=MOST_UNITS)
