"""Ask what would have been, and say in plain Python how the orders of a log ended."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.whatif import Figure, Hypothesis, Outcome, what_if
from eventlib import Event, open_log
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from services import shop
from services.order.events import OrderCancelled, OrderCompleted
from services.stock.events import LineShipped

FIGURES = (
    Figure.parsed("money=OrderCompleted.amount_cents:currency"),
    Figure.parsed("units=LineShipped.quantity"),
)
COMPLETED, CANCELLED = "order_completed", "order_cancelled"


class Ended(NamedTuple):
    """How a saga ends: outcome, reason, money taken for good (minor units), units shipped."""

    outcome: str
    reason: str | None
    money: int
    units: int


class Recorded(NamedTuple):
    """The events of a log, by topic and partition in the order of offsets."""

    events: Sequence[tuple[Record, Event]]

    def of(self, *types: type[Event]) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, types)]


def recorded(url: str) -> Recorded:
    return asyncio.run(_recorded(url))


async def _recorded(url: str) -> Recorded:
    found = list[tuple[Record, Event]]()
    async with open_log(url, shop, read_only=True) as log:
        for topic in {contract_of(event).topic.name: contract_of(event).topic for event in shop.events}.values():
            for partition in range(topic.partitions):
                end = await log.port.end(topic.name, partition)
                for record in await log.port.read(topic.name, partition, 0, end):
                    event = log.decode(record)
                    if event is not None:
                        found.append((record, event))
    return Recorded(found)


def supposed(
    spark: SparkSession, url: str, place: Path, most_parts: int | None = None, tomorrow: str | None = None, **rules: Any
) -> Outcome:
    hypothesis = Hypothesis(Application(), Application(tomorrow), figures=FIGURES, **rules)
    return what_if(spark, url, hypothesis, place, most_parts=most_parts)


def by_saga(outcome: Outcome) -> dict[str, Ended]:
    return {
        row["saga"]: Ended(row["outcome_now"], row["reason_now"], row["money_now"], row["units_now"])
        for row in outcome.sagas.collect()
    }


def then_by_order(log: Recorded) -> dict[str, Ended]:
    """How each order ended on the log, counted in plain Python."""
    units = Counter[str]()
    for line in log.of(LineShipped):
        units[line.order_id] += line.quantity
    found = dict[str, Ended]()
    for event in log.of(OrderCompleted, OrderCancelled):
        if isinstance(event, OrderCompleted):
            found[event.order_id] = Ended(COMPLETED, None, event.amount_cents, units[event.order_id])
        else:
            found[event.order_id] = Ended(CANCELLED, event.reason, 0, 0)
    return found
