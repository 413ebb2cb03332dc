"""The report of an import: what `--json` prints, and the summary is made of."""

from collections import Counter
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field, computed_field

from eventlib.operations import Histogram
from eventlib.spi import TopicPartition
from services.importing.orders import Reason

STEPS = ("OrderSubmitted", "OrderPlaced", "StockReserved", "PaymentTaken", "OrderDispatched", "OrderCompleted")
"""The events of a completed order whose times are measured, in causal order."""

COMPENSATIONS = {
    "StockReleased": "stock released",
    "PaymentRefunded": "payments refunded",
    "PaymentVoided": "charges voided",
}


class Products(BaseModel):
    """How many different products the file has, and how many of them were listed now."""

    in_file: int = 0
    listed: int = 0


class Money(BaseModel):
    """Sums in minor units of one currency."""

    completed_cents: int = 0
    refunded_cents: int = 0


class WaitingOrder(BaseModel):
    """An order that cannot continue, and the key that it waits for."""

    order_id: str
    service: str
    decider: str
    key: str
    reason: str


class Report(BaseModel):
    """Counts of a file's orders; money is in minor units, times in ms.

    `placed` counts those published now, `placed_before` those that were on the log, `repeated` those that came again with the
    same content. `seconds` runs from the first order placed to the end, and `events` counts all records added to the event
    topics in that time.

    Not printed: `placeable` orders of the file, of which `on_log` are on the log and `ended` have ended, `ended_since` during
    this process; `lost` has the places of which events were gone before they were read: from where, and where it went on;
    `examples` has an order id for each outcome; `steps` are the durations between the `STEPS` of completed orders.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    file: str = ""
    log: str = ""
    read: int = 0
    products: Products = Field(default_factory=Products)
    deliveries: int = 0
    placed: int = 0
    placed_before: int = 0
    repeated: int = 0
    refused: Counter[Reason] = Field(default_factory=Counter)
    completed: int = 0
    cancelled: Counter[str] = Field(default_factory=Counter)
    waiting: list[WaitingOrder] = Field(default_factory=list)
    compensations: Counter[str] = Field(default_factory=lambda: Counter(dict.fromkeys(COMPENSATIONS, 0)))
    units_shipped: int = 0
    money: dict[str, Money] = Field(default_factory=dict)
    seconds: float = 0.0
    events: int = 0
    notes: list[str] = Field(default_factory=list)

    place_only: bool = Field(default=False, exclude=True)
    placeable: int = Field(default=0, exclude=True)
    on_log: int = Field(default=0, exclude=True)
    ended: int = Field(default=0, exclude=True)
    ended_since: int = Field(default=0, exclude=True)
    lost: dict[TopicPartition, tuple[int, int]] = Field(default_factory=dict, exclude=True)
    examples: dict[str, str] = Field(default_factory=dict, exclude=True)
    steps: list[Histogram] = Field(default_factory=lambda: [Histogram() for _ in STEPS[1:]], exclude=True)
    to_completion: Histogram = Field(default_factory=Histogram, exclude=True)
    to_cancellation: Histogram = Field(default_factory=Histogram, exclude=True)

    @property
    def open(self) -> int:
        """How many orders are placed and have not ended."""
        return self.on_log - self.ended

    def money_in(self, currency: str) -> Money:
        """Return the sums in one currency, to be added to."""
        return self.money.setdefault(currency, Money())

    @computed_field  # type: ignore[prop-decorator]  # as Pydantic's documentation has it
    @property
    def orders_per_s(self) -> float:
        """How many orders ended each second of this run."""
        return round(self.ended_since / self.seconds, 1) if self.seconds else 0.0

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def events_per_s(self) -> float:
        """How many events were recorded each second of this run."""
        return round(self.events / self.seconds, 1) if self.seconds else 0.0

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def latency_ms(self) -> dict[str, dict[str, int | None]]:
        """p50, p95 and p99 of the measured durations, by their names."""
        named = dict(zip((f"{before} → {after}" for before, after in pairwise(STEPS)), self.steps, strict=True))
        named |= {"submitted → completed": self.to_completion, "submitted → cancelled": self.to_cancellation}
        return {
            name: {f"p{share}": latencies.percentile(share / 100) for share in (50, 95, 99)}
            for name, latencies in named.items()
            if latencies.count
        }
