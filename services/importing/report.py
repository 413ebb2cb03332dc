"""The report of an import, as numbers."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from eventlib.operations import Histogram
from eventlib.spi import TopicPartition
from services.importing.catalogue import Catalogue
from services.importing.intake import Counts

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


@dataclass(frozen=True, slots=True)
class WaitingOrder:
    """An order that cannot continue, and the key that it waits for."""

    order_id: str
    service: str
    decider: str
    key: str
    reason: str


@dataclass(slots=True)
class Outcomes:
    """How many orders ended how; `placed` counts the file's orders on the log, `ended` those that have ended.

    `lost` has the places of which events were gone before they were read: from where, and where it went on.
    `examples` has an order id for each outcome, `ended_since` counts those that ended during this process. `steps` are the
    durations between the `STEPS` of the completed orders.
    """

    placed: int = 0
    ended: int = 0
    ended_since: int = 0
    completed: int = 0
    cancelled: Counter[str] = field(default_factory=Counter)
    compensations: Counter[str] = field(default_factory=Counter)
    units: int = 0
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    money: dict[str, Money] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    steps: list[Histogram] = field(default_factory=lambda: [Histogram() for _ in STEPS[1:]])
    to_completion: Histogram = field(default_factory=Histogram)
    to_cancellation: Histogram = field(default_factory=Histogram)

    @property
    def open(self) -> int:
        """How many orders are placed and have not ended."""
        return self.placed - self.ended

    def money_in(self, currency: str) -> Money:
        """Return the sums in one currency, to be added to."""
        return self.money.setdefault(currency, Money())


@dataclass(slots=True)
class Report:
    """Counts, outcomes and rates; `seconds` runs from the first order placed to the end.

    `events` counts all records added to the event topics in that time.
    """

    file: str
    log_url: str
    place_only: bool
    counts: Counts
    products: int
    catalogue: Catalogue = field(default_factory=Catalogue)
    outcomes: Outcomes = field(default_factory=Outcomes)
    waiting: list[WaitingOrder] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    events: int = 0

    @property
    def orders_per_s(self) -> float:
        """How many orders ended each second of this run."""
        return self.outcomes.ended_since / self.seconds if self.seconds else 0.0

    @property
    def events_per_s(self) -> float:
        """How many events were recorded each second of this run."""
        return self.events / self.seconds if self.seconds else 0.0

    def latencies(self) -> dict[str, dict[str, int | None]]:
        """Return p50, p95 and p99 of the measured durations (ms), by their names."""
        outcomes = self.outcomes
        names = [f"{before} → {after}" for before, after in pairwise(STEPS)]
        named = dict(zip(names, outcomes.steps, strict=True))
        named |= {"submitted → completed": outcomes.to_completion, "submitted → cancelled": outcomes.to_cancellation}
        return {
            name: {f"p{share}": latencies.percentile(share / 100) for share in (50, 95, 99)}
            for name, latencies in named.items()
            if latencies.count
        }

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as plain values; money in minor units, times in ms."""
        counts, outcomes = self.counts, self.outcomes
        return {
            "file": self.file,
            "log": self.log_url,
            "read": counts.read,
            "products": {"in_file": self.products, "listed": self.catalogue.listed},
            "deliveries": self.catalogue.delivered,
            "placed": counts.placed,
            "placed_before": counts.before,
            "repeated": counts.repeated,
            "refused": {reason.value: count for reason, count in counts.refused.items()},
            "completed": outcomes.completed,
            "cancelled": dict(outcomes.cancelled),
            "waiting": [asdict(order) for order in self.waiting],
            "compensations": {name: outcomes.compensations[name] for name in COMPENSATIONS},
            "units_shipped": outcomes.units,
            "money": {currency: asdict(money) for currency, money in sorted(outcomes.money.items())},
            "latency_ms": self.latencies(),
            "seconds": round(self.seconds, 3),
            "orders_per_s": round(self.orders_per_s, 1),
            "events": self.events,
            "events_per_s": round(self.events_per_s, 1),
            "notes": self.notes,
        }
