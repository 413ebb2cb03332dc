"""Options and result of a smoke test."""

from dataclasses import dataclass, field

from eventlib import TerminalError

PATIENCE_S = 120.0
UNITS_AN_ORDER = 5
"""The most units of a product in one order, except for the one that requests too many."""


class SmokeFailed(TerminalError):
    """The shop failed the smoke test; the message names what was observed."""


@dataclass(frozen=True, slots=True)
class SmokeConfig:
    """The load of a smoke test; `patience_s` limits each step (seconds).

    With `views`, the counts of order's live views at that address are checked too.
    """

    api: str
    log_url: str
    orders: int = 20
    patience_s: float = PATIENCE_S
    views: str | None = None

    @property
    def units(self) -> int:
        """Units of each product to deliver: enough for all orders except the oversized one."""
        return self.orders * UNITS_AN_ORDER


@dataclass(slots=True)
class Smoked:
    """The result: how orders ended, and what failed."""

    orders: int
    ends: dict[str, int] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
