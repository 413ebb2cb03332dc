"""The shop's orders, from the rebuilt tables: the stages that they reached, why they ended, waits, and what was undone."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from analytics.report import PERCENTILES, Tables, percentiles, reversing
from eventlib import Event
from services import shop
from services.dispatch.events import DispatchFailed, DispatchRequested, OrderDispatched
from services.order.events import OrderCancelled, OrderCompleted, OrderPlaced
from services.payment.events import ChargeRequested, PaymentFailed, PaymentTaken
from services.stock.events import StockRejected, StockReserved

_STAGES: Mapping[str, type[Event]] = {
    "placed": OrderPlaced,
    "stock reserved": StockReserved,
    "paid": PaymentTaken,
    "dispatched": OrderDispatched,
    "completed": OrderCompleted,
}
_REVERSING = reversing(shop)

_WAITS: Mapping[str, tuple[list[type[Event]], list[type[Event]]]] = {
    "stock: until all lines are answered": ([OrderPlaced], [StockReserved, StockRejected]),
    "payment: until the gateway is asked": ([StockReserved], [ChargeRequested]),
    "payment: until the gateway answers": ([ChargeRequested], [PaymentTaken, PaymentFailed]),
    "dispatch: until the carrier is asked": ([PaymentTaken], [DispatchRequested]),
    "dispatch: until the carrier answers": ([DispatchRequested], [OrderDispatched, DispatchFailed]),
    "order: from dispatch to the end": ([OrderDispatched], [OrderCompleted]),
    "undoing: from the failure to the end": ([StockRejected, PaymentFailed, DispatchFailed], [OrderCancelled]),
}
"""The phases of a saga: from the first of some events to the first of others."""


def _types(events: list[type[Event]]) -> list[str]:
    return [event.__name__ for event in events]


def funnel(tables: Tables) -> DataFrame:
    """Return how many orders reached each stage, their share of those placed, and how many were lost before it."""
    by_type = tables["saga_steps"].groupBy("type").agg(f.countDistinct("order_id").alias("orders"))
    spark = tables["orders"].sparkSession
    stages = [(i, name, event.__name__) for i, (name, event) in enumerate(_STAGES.items())]
    counted = spark.createDataFrame(stages, "number int, stage string, type string").join(
        f.broadcast(by_type), "type", "left"
    )
    orders = f.coalesce("orders", f.lit(0)).alias("orders")
    in_order = Window.orderBy("number")
    whole = counted.select("number", "stage", orders).withColumns({
        "share": f.col("orders") / f.nullif(f.first("orders").over(in_order), f.lit(0)),
        "lost": f.coalesce(f.lag("orders").over(in_order) - f.col("orders"), f.lit(0)),
    })  # fmt: skip
    return whole.select("stage", "orders", "share", "lost").orderBy("number")


def outcomes(tables: Tables) -> DataFrame:
    """Return the orders by status and reason, with their money, by currency; the most frequent first."""
    sums = [f.count("*").alias("orders"), f.sum("total_cents").alias("amount_cents")]
    found = tables["orders"].groupBy("status", "reason", "currency").agg(*sums)
    return found.orderBy(f.desc("orders"), "status", "reason", "currency")


def reasons(tables: Tables) -> DataFrame:
    """Return why orders were not completed, with their money, by currency; the most frequent first."""
    return outcomes(tables).filter(f.col("reason").isNotNull())


def waits(tables: Tables) -> DataFrame:
    """Return where sagas wait: the time of each phase in ms, and its share of the total."""
    types = {kind for parts in _WAITS.values() for events in parts for kind in _types(events)}
    steps = tables["saga_steps"].filter(f.col("type").isin(*sorted(types)))
    at = [f.min(f.when(f.col("type") == kind, f.unix_millis("recorded_at"))).alias(kind) for kind in sorted(types)]
    moments = steps.groupBy("order_id").agg(*at)
    parts = []
    for number, (name, (begun, done)) in enumerate(_WAITS.items()):
        first = [f.least(*_types(each)) if len(each) > 1 else f.col(*_types(each)) for each in (begun, done)]
        parts.append(
            f.struct(f.lit(number).alias("number"), f.lit(name).alias("part"), (first[1] - first[0]).alias("ms"))
        )
    long = moments.select(f.inline(f.array(*parts))).filter(f.col("ms").isNotNull())
    found = long.groupBy("number", "part").agg(
        f.count("*").alias("orders"), f.sum("ms").alias("total_ms"), *percentiles("ms")
    )
    share = f.col("total_ms") / f.nullif(f.sum("total_ms").over(Window.partitionBy()), f.lit(0))
    return found.orderBy("number").select(
        "part", "orders", "total_ms", share.alias("share"), *(each.name for each in PERCENTILES)
    )


def compensations(tables: Tables) -> DataFrame:
    """Return the compensations: events and orders by type, with the returned money, by currency."""
    steps = tables["saga_steps"].filter(f.col("type").isin(*_REVERSING))
    whose = tables["orders"].select("order_id", "currency")
    currency = f.when(f.col("amount_cents").isNotNull(), f.col("currency"))
    found = steps.join(whose, "order_id", "left").groupBy("type", currency.alias("currency"))
    sums = [
        f.count("*").alias("events"),
        f.countDistinct("order_id").alias("orders"),
        f.sum("amount_cents").alias("amount_cents"),
    ]
    return found.agg(*sums).orderBy(f.desc("events"), "type", "currency")
