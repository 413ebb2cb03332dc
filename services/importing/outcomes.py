"""The outcomes of a file's orders, counted from the log."""

from collections import Counter
from dataclasses import dataclass, field

from eventlib.operations import Histogram

STEPS = ("OrderSubmitted", "OrderPlaced", "StockReserved", "PaymentTaken", "OrderDispatched", "OrderCompleted")
"""The events of a completed order whose times are measured, in causal order."""

COMPENSATIONS = {
    "StockReleased": "stock released",
    "PaymentRefunded": "payments refunded",
    "PaymentVoided": "charges voided",
}


@dataclass(slots=True)
class Money:
    """Sums in minor units of one currency."""

    completed_cents: int = 0
    refunded_cents: int = 0


class Latency:
    """Durations: of each step of the completed orders, of all steps together, and up to a cancellation."""

    def __init__(self) -> None:
        self.steps = [Histogram() for _ in STEPS[1:]]
        self.to_completion = Histogram()
        self.to_cancellation = Histogram()

    def completed(self, times_ms: list[int]) -> None:
        """Add one completed order by the times of its steps."""
        for step, latencies in enumerate(self.steps):
            latencies.add(times_ms[step + 1] - times_ms[step])
        self.to_completion.add(times_ms[-1] - times_ms[0])


@dataclass(slots=True)
class Outcomes:
    """How many orders ended how; `placed` counts the file's orders on the log, `ended` those that have ended.

    `examples` has an order id for each outcome, `ended_since` counts those that ended during this process.
    """

    placed: int = 0
    ended: int = 0
    ended_since: int = 0
    completed: int = 0
    cancelled: Counter[str] = field(default_factory=Counter)
    compensations: Counter[str] = field(default_factory=Counter)
    units: int = 0
    money: dict[str, Money] = field(default_factory=dict)
    latency: Latency = field(default_factory=Latency)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """How many orders are placed and have not ended."""
        return self.placed - self.ended

    def money_in(self, currency: str) -> Money:
        """Return the sums in one currency, to be added to."""
        return self.money.setdefault(currency, Money())
