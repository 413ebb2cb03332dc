"""What became of the orders of a file, counted as the log tells it."""

from collections import Counter
from dataclasses import dataclass, field

from eventlib.histogram import Histogram

STEPS = ("OrderSubmitted", "OrderPlaced", "StockReserved", "PaymentTaken", "OrderDispatched", "OrderCompleted")
"""The events of a completed order whose times are measured, in the order in which they follow from each other."""

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
    """How long each step of the completed orders took, the whole way, and the way to a cancellation."""

    def __init__(self) -> None:
        self.steps = [Histogram() for _ in STEPS[1:]]
        self.to_completion = Histogram()
        self.to_cancellation = Histogram()

    def completed(self, times_ms: list[int]) -> None:
        """Count one completed order by the times of its steps."""
        for step, latencies in enumerate(self.steps):
            latencies.add(times_ms[step + 1] - times_ms[step])
        self.to_completion.add(times_ms[-1] - times_ms[0])


@dataclass(slots=True)
class Outcomes:
    """How many orders ended how; `placed` counts those of the file that are on the log, `ended` those that are over.

    `examples` has an order id for each way to end, `ended_since` counts those that ended while this process looked.
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
        """How many orders are placed and not over."""
        return self.placed - self.ended

    def money_in(self, currency: str) -> Money:
        """Return the sums in one currency, to be added to."""
        return self.money.setdefault(currency, Money())
