"""Thing's decider: pure functions, so the same events always give the same output."""

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
    """Return the balance after one handled or emitted event."""
    match event:
        case ThingGranted(units=units):
            return replace(balance, units=balance.units + units)
        case _:
            return balance


@balances.on
def grant(
    balance: Balance,
    request: ThingRequested,
) -> list[ThingGranted | ThingRefused]:
    """Grant the requested units up to the limit; a refusal is an event too, never an exception."""
    if not 0 < request.units <= MOST_UNITS - balance.units:
        return [ThingRefused(customer_id=request.customer_id, units=request.units, reason="limit")]
    return [ThingGranted(customer_id=request.customer_id, units=request.units)]
