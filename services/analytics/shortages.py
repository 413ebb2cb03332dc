"""Stock-outs and their cost, from the rebuilt tables."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.report import Tables
from services.stock.events import LineRefused, StockRejected


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
