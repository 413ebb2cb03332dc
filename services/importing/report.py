"""The report of an import, as numbers."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from eventlib.operations import Histogram
from services.importing.catalogue import Catalogue
from services.importing.outcomes import COMPENSATIONS, STEPS, Outcomes
from services.importing.placing import Placing
from services.importing.waiting import WaitingOrder

_SHARES = (0.5, 0.95, 0.99)


@dataclass(slots=True)
class Report:
    """What was read, the outcomes, and the rates; `seconds` runs from the first order placed to the end.

    `events` counts all records added to the event topics in that time.
    """

    file: str
    log_url: str
    place_only: bool = False
    read: int = 0
    products: int = 0
    catalogue: Catalogue = field(default_factory=Catalogue)
    placing: Placing = field(default_factory=Placing)
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

    def latencies(self) -> list[tuple[str, Histogram]]:
        """Return the measured durations, with their names."""
        latency = self.outcomes.latency
        names = [f"{before} → {after}" for before, after in pairwise(STEPS)]
        named = [*zip(names, latency.steps, strict=True)]
        named += [("submitted → completed", latency.to_completion), ("submitted → cancelled", latency.to_cancellation)]
        return [(name, latencies) for name, latencies in named if latencies.count]

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as plain values; money in minor units, times in ms."""
        outcomes = self.outcomes
        return {
            "file": self.file,
            "log": self.log_url,
            "read": self.read,
            "products": {"in_file": self.products, "listed": self.catalogue.listed},
            "deliveries": self.catalogue.delivered,
            "placed": self.placing.placed,
            "placed_before": self.placing.before,
            "repeated": self.placing.repeated,
            "refused": {reason.value: count for reason, count in self.placing.refused.items()},
            "completed": outcomes.completed,
            "cancelled": dict(outcomes.cancelled),
            "waiting": [_waiting_json(order) for order in self.waiting],
            "compensations": {name: outcomes.compensations[name] for name in COMPENSATIONS},
            "units_shipped": outcomes.units,
            "money": {
                currency: {"completed_cents": money.completed_cents, "refunded_cents": money.refunded_cents}
                for currency, money in sorted(outcomes.money.items())
            },
            "latency_ms": {name: percentiles(latencies) for name, latencies in self.latencies()},
            "seconds": round(self.seconds, 3),
            "orders_per_s": round(self.orders_per_s, 1),
            "events": self.events,
            "events_per_s": round(self.events_per_s, 1),
            "notes": self.notes,
        }


def percentiles(latencies: Histogram) -> dict[str, int | None]:
    """Return p50, p95 and p99 in ms."""
    return {f"p{share * 100:.0f}": latencies.percentile(share) for share in _SHARES}


def _waiting_json(order: WaitingOrder) -> dict[str, str]:
    return {
        "order_id": order.order_id,
        "service": order.service,
        "decider": order.decider,
        "key": order.key,
        "reason": order.reason,
    }
