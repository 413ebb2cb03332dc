"""Invariants that compare each order with the external systems' own records."""

from dataclasses import dataclass

from eventlib.invariants import ExternalState, invariant
from services.invariants.story import Story, story


@dataclass(frozen=True)
class Account:
    """One order in the gateway's own ledger, in minor units; `charges` counts those that took money."""

    charges: int = 0
    taken_cents: int = 0
    returned_cents: int = 0


@dataclass(frozen=True)
class Parcels:
    """How many parcels of one order the carrier has."""

    booked: int = 0


accounts = ExternalState("gateway", state=Account, key="order_id")
parcels = ExternalState("carrier", state=Parcels, key="order_id")


@invariant(story, accounts, at_rest=True)
def the_gateway_agrees(totals: Story, account: Account) -> bool:
    """The gateway charged an order at most once, and took and returned what the log says."""
    agrees = (account.taken_cents, account.returned_cents) == (totals.taken_cents, totals.returned_cents)
    return account.charges <= 1 and agrees


@invariant(story, parcels, at_rest=True)
def the_carrier_agrees(totals: Story, known: Parcels) -> bool:
    """The carrier has the parcel of a completed order, and of no other."""
    return known.booked == totals.completed
