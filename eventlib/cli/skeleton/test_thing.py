"""Given what happened, when this is asked, then this is said: no log, no broker, no waiting."""

from eventlib.testing import given

from .decider import MOST_UNITS, balances
from .events import (
    ThingGranted,
    ThingRefused,
    ThingRequested,
)


def test_units_are_granted() -> None:
    """What is asked for is granted, and counts."""
    asked = ThingRequested(customer_id="1", units=5)
    granted = ThingGranted(customer_id="1", units=5)
    given(balances, granted).when(asked).then(granted).then_state(units=10)


def test_more_than_the_most_is_refused() -> None:
    """One unit over the most is refused, and changes nothing."""
    asked = ThingRequested(customer_id="1", units=1)
    full = ThingGranted(customer_id="1", units=MOST_UNITS)
    refused = ThingRefused(customer_id="1", units=1, reason="limit")
    given(balances, full).when(asked).then(refused).then_state(units=MOST_UNITS)
