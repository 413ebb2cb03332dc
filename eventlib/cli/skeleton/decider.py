"""What thing does: pure functions, so that the same events always lead to the same answers."""

from dataclasses import replace

from eventlib import Decider, Event

from .events import (
    ThingGranted,
    ThingRefused,
    ThingRequested,
)
from .state import Balance

MOST_UNITS = 100

balances = Decider("thing", state=Balance, key="customer_id")


@balances.evolve
def evolve(balance: Balance, event: Event) -> Balance:
    """Return the balance after one event that was handled or said."""
    match event:
        case ThingGranted(units=units):
            return replace(balance, units=balance.units + units)
        case _:
            return balance


@balances.on
def grant(
    balance: Balance,
    asked: ThingRequested,
) -> list[ThingGranted | ThingRefused]:
    """Grant what is asked for, up to the most; a refusal is an event as well, never an exception."""
    if not 0 < asked.units <= MOST_UNITS - balance.units:
        return [ThingRefused(customer_id=asked.customer_id, units=asked.units, reason="limit")]
    return [ThingGranted(customer_id=asked.customer_id, units=asked.units)]
