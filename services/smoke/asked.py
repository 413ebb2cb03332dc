"""What is asked of the shop, and what came of it."""

from dataclasses import dataclass, field

from eventlib import TerminalError

PATIENCE_S = 120.0
UNITS_AN_ORDER = 5
"""The most units of a product that an order wants, but for the one that wants too many."""


class SmokeFailed(TerminalError):
    """The shop does not do what it should; the sentence says what was seen."""


@dataclass(frozen=True, slots=True)
class SmokeConfig:
    """How much is asked of the shop: `patience_s` is how long it may take to answer, and to end all orders (seconds).

    With `views`, order's live views at that address are asked as well what they have counted.
    """

    api: str
    log_url: str
    orders: int = 20
    patience_s: float = PATIENCE_S
    views: str | None = None

    @property
    def units(self) -> int:
        """How many of each product are delivered: enough for all orders but the one that wants more."""
        return self.orders * UNITS_AN_ORDER


@dataclass(slots=True)
class Smoked:
    """What became of it: how orders ended, and what was wrong."""

    orders: int
    ends: dict[str, int] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
