"""Orders and their money according to the log: as of its end, or at the order service's cursors for each order."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.rebuilding import facts_of
from analytics.reconciling import Cut, Row
from analytics.tables import Events, is_one
from services.analytics.kept import ABOUT_ORDERS, kept
from services.analytics.tables import dispatches, orders, payments
from services.order.events import OrderPlaced

ORDERS = "orders"
CONSUMED = ("stock", "payments", "dispatches")
"""The topics that the order service consumes."""

_NEEDED = Events(ABOUT_ORDERS.types, (*ABOUT_ORDERS.fields, "lines"))


def expected_orders(spark: SparkSession, url: str, cuts: Mapping[str, Cut | None] | None = None) -> dict[str, Row]:
    """Return each order from the tables `orders`, `payments`, `dispatches` and `order_lines`.

    As of the log's end; with `cuts`, only these orders, and where there is a cut as of what the order service had handled.
    """
    found = facts_of(spark, url, _NEEDED)
    if cuts is not None:
        found = _as_of(spark, found, cuts)
    merged = kept.merged(kept(found))
    lines = found.filter(is_one(OrderPlaced)).groupBy("order_id").agg(f.max(f.size("lines")).alias("line_count"))
    money = payments(merged).select("order_id", "taken_cents", "refunded_cents")
    parcels = dispatches(merged).select("order_id", "tracking")
    whole = orders(merged).join(money, "order_id", "left").join(parcels, "order_id", "left")
    fields = {
        "amount_cents": f.col("total_cents"),
        "taken_cents": f.coalesce("taken_cents", f.lit(0)),
        "refunded_cents": f.coalesce("refunded_cents", f.lit(0)),
        "placed_at": f.unix_micros("placed_at"),  # collected times would be local times
        "ended_at": f.unix_micros("ended_at"),
    }
    plain = ("status", "reason", "customer_id", "country", "currency", "tracking", "line_count")
    rows = whole.join(lines, "order_id", "left").select(
        "order_id", *plain, *(column.alias(name) for name, column in fields.items())
    )
    return {row["order_id"]: _row(row.asDict()) for row in rows.toLocalIterator()}


def _row(columns: dict[str, object]) -> Row:
    del columns["order_id"]
    times = {name: columns[name] for name in ("placed_at", "ended_at")}
    return columns | {name: None if at is None else _EPOCH + timedelta(microseconds=at) for name, at in times.items()}  # type: ignore[arg-type]  # microseconds


_NO_END = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _as_of(spark: SparkSession, found: DataFrame, cuts: Mapping[str, Cut | None]) -> DataFrame:
    rows = [
        (
            name,
            *(
                (_NO_END,) * (1 + len(CONSUMED))
                if cut is None
                else (cut.at_ms, *(cut.next.get(t, 0) for t in CONSUMED))
            ),
        )
        for name, cut in cuts.items()
    ]
    schema = f"order_id string, at_ms bigint, {', '.join(f'`{topic}` bigint' for topic in CONSUMED)}"
    within = (f.col("topic") == ORDERS) & (f.unix_millis("recorded_at") <= f.col("at_ms"))
    for topic in CONSUMED:
        within |= (f.col("topic") == topic) & (f.col("offset") < f.col(topic))
    bounds = f.broadcast(spark.createDataFrame(rows, schema))
    return found.join(bounds, "order_id").filter(within).drop("at_ms", *CONSUMED)
