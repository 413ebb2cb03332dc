"""The shop's invariants: for each order, each product, and against the external systems."""

from eventlib.invariants import Invariant
from services.invariants import orders, outside, stock

INVARIANTS: tuple[Invariant, ...] = tuple(
    each for module in (orders, stock, outside) for each in vars(module).values() if isinstance(each, Invariant)
)
"""All that these modules declare, in their order."""
