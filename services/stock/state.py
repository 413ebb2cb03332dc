"""The states of stock: shelves that never grow, and reservations that are small again once they have closed."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Shelf:
    """One product's units; whatever happens, the sum of the three is what was received."""

    on_hand: int = 0
    reserved: int = 0
    shipped: int = 0


@dataclass(frozen=True)
class HeldLine:
    """Units that a shelf has set aside for one order line."""

    line_no: int
    sku: str
    quantity: int


@dataclass(frozen=True)
class Reservation:
    """One order's stock: how many lines were asked for and answered, what is held, what is on its way back.

    `called_off` is why the order cannot be completed, from outside of stock; it may be known before the order itself is.
    """

    asked: int = 0
    answered: int = 0
    refused: bool = False
    held: tuple[HeldLine, ...] = ()
    releasing: int = 0
    called_off: str = ""
    amount_cents: int = 0
    currency: str = ""
    country: str = ""
    closed_at: datetime | None = None

    @property
    def is_back(self) -> bool:
        """Whether it can be closed: every shelf has answered, and nothing is on its way back any more."""
        return 0 < self.asked <= self.answered and not self.releasing and self.closed_at is None


@dataclass(frozen=True)
class Delivery:
    """One delivery: whether its units are on the shelves."""

    received: bool = False
