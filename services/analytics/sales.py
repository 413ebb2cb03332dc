"""Sales, from the rebuilt tables: over time, by country and by product; what ran out, and its cost; by currency."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.report import Tables
from eventlib.values import EARLIEST, LATEST
from services.stock.events import LineRefused, StockRejected

_UNITS = ((3, "minute", "yyyy-MM-dd HH:mm"), (72, "hour", "yyyy-MM-dd HH:mm"), (24 * 400, "day", "yyyy-MM-dd"))
"""Up to so many hours from the first order to the last, the period of one bar, and its format."""


def _sums() -> list[Column]:
    is_completed = f.col("status") == "completed"
    is_cancelled = f.col("status") == "cancelled"
    return [
        f.count("*").alias("orders"),
        f.count_if(is_completed).alias("completed"),
        f.count_if(is_cancelled).alias("cancelled"),
        f.count_if(~is_completed & ~is_cancelled).alias("open"),
        f.sum("total_cents").alias("ordered_cents"),
        f.coalesce(f.sum(f.when(is_completed, f.col("total_cents"))), f.lit(0)).alias("revenue_cents"),
    ]


def totals(tables: Tables) -> DataFrame:
    """Return one row per currency: its orders by status, and their money; revenue is that of completed ones."""
    return tables["orders"].groupBy("currency").agg(*_sums()).orderBy(f.desc("orders"), "currency")


def sales_over_time(tables: Tables) -> DataFrame:
    """Return orders and revenue by the time at which orders were placed: by minute, hour, day or month, depending on the span.

    Impossible times are one period each: `before 1970` and `from 2200`.
    """
    orders = tables["orders"]
    early, late = (f.col("placed_at") < f.lit(EARLIEST), f.col("placed_at") >= f.lit(LATEST))
    sane = orders.filter(~early & ~late)
    ends = sane.agg((f.max("placed_at").cast("long") - f.min("placed_at").cast("long")) / 3600).collect()
    hours = ends[0][0] or 0.0
    unit, form = next(((unit, form) for most, unit, form in _UNITS if hours <= most), ("month", "yyyy-MM"))
    beyond = f.when(early, f"before {EARLIEST:%Y}").when(late, f"from {LATEST:%Y}")
    period = beyond.otherwise(f.date_format(f.date_trunc(unit, "placed_at"), form))
    return orders.groupBy("currency", period.alias("period")).agg(*_sums()).orderBy("currency", "period")


def sales_by_country(tables: Tables) -> DataFrame:
    """Return orders and revenue by country, the most revenue first."""
    found = tables["orders"].groupBy("currency", "country").agg(*_sums())
    return found.orderBy(f.desc("revenue_cents"), f.desc("orders"), "country", "currency")


def sales_by_product(tables: Tables) -> DataFrame:
    """Return units and revenue of completed orders by product, the most revenue first."""
    completed = tables["orders"].filter(f.col("status") == "completed").select("order_id")
    lines = tables["order_lines"].join(completed, "order_id")
    sums = [
        f.countDistinct("order_id").alias("orders"),
        f.sum("quantity").alias("units"),
        f.sum("amount_cents").alias("revenue_cents"),
    ]
    return lines.groupBy("currency", "sku").agg(*sums).orderBy(f.desc("revenue_cents"), "sku", "currency")


def stock_outs(tables: Tables) -> DataFrame:
    """Return the products that ran out: lines refused, the units and money of these lines; the most money first."""
    refused = tables["saga_steps"].filter(f.col("type") == LineRefused.__name__).select("order_id", "line_no")
    lines = refused.join(tables["order_lines"], ["order_id", "line_no"])
    sums = [
        f.count("*").alias("refused"),
        f.countDistinct("order_id").alias("orders"),
        f.sum("quantity").alias("units"),
        f.sum("amount_cents").alias("amount_cents"),
    ]
    return lines.groupBy("currency", "sku").agg(*sums).orderBy(f.desc("amount_cents"), "sku", "currency")


def turned_away(tables: Tables) -> DataFrame:
    """Return the cost of stock-outs: rejected orders, by currency."""
    rejected = tables["saga_steps"].filter(f.col("type") == StockRejected.__name__)
    orders = tables["orders"].join(rejected.select("order_id").distinct(), "order_id")
    sums = [f.count("*").alias("orders"), f.sum("total_cents").alias("amount_cents")]
    return orders.groupBy("currency").agg(*sums).orderBy(f.desc("orders"), "currency")
