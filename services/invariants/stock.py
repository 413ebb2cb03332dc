"""Invariants of every product's units."""

from dataclasses import dataclass

from eventlib import Event, replace
from eventlib.invariants import Fold, invariant
from services.stock.events import LineReleased, LineReserved, LineShipped, StockReceived
from services.stock.shelf import shelves
from services.stock.state import Shelf


@dataclass(frozen=True)
class Units:
    """One product's units as the log tells of them."""

    received: int = 0
    reserved: int = 0
    shipped: int = 0

    @property
    def on_hand(self) -> int:
        """Units that are neither set aside nor shipped."""
        return self.received - self.reserved - self.shipped


units = Fold("units", state=Units, key="sku")


@units.evolve
def move(known: Units, event: Event) -> Units:
    """Follow one product's units."""
    match event:
        case StockReceived(quantity=quantity):
            return replace(known, received=known.received + quantity)
        case LineReserved(quantity=quantity):
            return replace(known, reserved=known.reserved + quantity)
        case LineReleased(quantity=quantity):
            return replace(known, reserved=known.reserved - quantity)
        case LineShipped(quantity=quantity):
            return replace(known, reserved=known.reserved - quantity, shipped=known.shipped + quantity)
        case _:
            return known


@invariant(units)
def units_are_conserved(known: Units) -> bool:
    """No unit of a product is set aside, released or shipped that was not received, or not set aside before."""
    return min(known.on_hand, known.reserved, known.shipped) >= 0


@invariant(units, at_rest=True)
def nothing_stays_set_aside(known: Units) -> bool:
    """When nothing is in flight, no unit is set aside for anybody."""
    return known.reserved == 0


@invariant(shelves)
def shelves_are_never_negative(shelf: Shelf) -> bool:
    """A shelf has no fewer than zero units in any of its places."""
    return min(shelf.on_hand, shelf.reserved, shelf.shipped) >= 0


@invariant(units, shelves, at_rest=True)
def shelves_hold_what_the_log_says(known: Units, shelf: Shelf) -> bool:
    """On hand, set aside and shipped add up to what was received, place by place."""
    return (shelf.on_hand, shelf.reserved, shelf.shipped) == (known.on_hand, known.reserved, known.shipped)
