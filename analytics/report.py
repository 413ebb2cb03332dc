"""The parts of the report, for notebooks too: `report.funnel(tables)` shows itself, and has `.frame`, `.rows`, `.plot()`.

`tables` are the rebuilt ones, from `analytics.rebuilding.tables(spark, DIR)`.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.audit import Rule
from analytics.reporting import pictures, sagas, sales, shortages
from analytics.reporting.drawing import SERIES
from analytics.reporting.part import Column, Part, Row, duration
from analytics.reporting.sales import Tables

_MONEY = (Column("ordered_cents", "ordered", "money"), Column("revenue_cents", "revenue", "money"))
_STATUS = tuple(Column(name, name, "count") for name in ("orders", "completed", "cancelled", "open"))
_PERCENTILES = (Column("p50_ms", "p50", "ms"), Column("p95_ms", "p95", "ms"), Column("p99_ms", "p99", "ms"))
_CURRENCY = Column("currency", "currency")


def totals(tables: Tables) -> Part:
    """Return the totals of orders and their money."""
    says = "All orders that were placed. Revenue is the money of completed orders; currencies are never added up."
    return Part("totals", "Orders and money", says, (_CURRENCY, *_STATUS, *_MONEY), sales.totals(tables))


def sales_over_time(tables: Tables) -> Part:
    """Return orders and revenue over time."""
    return Part(
        "over-time",
        "Orders and revenue over time",
        "By the time at which orders were placed, in UTC.",
        (Column("period", "placed"), _CURRENCY, *_STATUS, *_MONEY),
        sales.sales_over_time(tables),
        pictures.over_time,
        lambda rows: (
            f"Bars from {rows[0]['period']} to {rows[-1]['period']}; the most orders, {_most(rows, 'orders', 'period')}."
        ),
        most=400,
    )


def sales_by_country(tables: Tables) -> Part:
    """Return orders and revenue by country."""
    return Part(
        "countries",
        "Revenue by country",
        "The countries with most revenue, of completed orders.",
        (Column("country", "country"), *_STATUS, *_MONEY),
        sales.sales_by_country(tables),
        pictures.top_money("country", "revenue_cents"),
        _first("country", Column("revenue_cents", "", "money")),
    )


def sales_by_product(tables: Tables) -> Part:
    """Return units and revenue by product."""
    return Part(
        "products",
        "Revenue by product",
        "The products with most revenue, of completed orders.",
        (
            *(Column("sku", "product"), Column("orders", "orders", "count"), Column("units", "units", "count")),
            Column("revenue_cents", "revenue", "money"),
        ),
        sales.sales_by_product(tables),
        pictures.top_money("sku", "revenue_cents"),
        _first("sku", Column("revenue_cents", "", "money")),
    )


def funnel(tables: Tables) -> Part:
    """Return how many orders reached each stage."""
    return Part(
        "funnel",
        "How far orders came",
        "Orders that reached each stage, and their share of those that were placed.",
        (
            *(
                Column("stage", "stage"),
                Column("orders", "orders", "count"),
                Column("share", "of those placed", "share"),
            ),
            Column("lost", "lost before", "count"),
        ),
        sagas.funnel(tables),
        pictures.counted(
            lambda row: str(row["stage"]), "orders", lambda row: f"{row['orders']:,} · {row['share'] or 0:.1%}", most=0
        ),
        lambda rows: "; ".join(f"{row['stage']}: {row['orders']:,}" for row in rows) + ".",
    )


def reasons(tables: Tables) -> Part:
    """Return why orders were not completed."""
    return Part(
        "reasons",
        "Why orders were not completed",
        "By the reason that counted first, with what these orders would have brought.",
        (
            *(Column("reason", "reason"), Column("status", "status"), Column("orders", "orders", "count")),
            Column("amount_cents", "their money", "money"),
        ),
        sagas.reasons(tables),
        pictures.counted(lambda row: str(row["reason"]), "orders", lambda row: f"{row['orders']:,}", SERIES[1]),
        _first("reason", Column("orders", "", "count")),
    )


def step_times(tables: Tables) -> Part:
    """Return how long steps take."""
    return Part(
        "steps",
        "Time per step",
        "From an event to what it led to: half of the steps took no longer than p50, 95 of 100 no longer than p95, "
        "99 of 100 no longer than p99.",
        (Column("cause_type", "after"), Column("type", "came"), Column("events", "events", "count"), *_PERCENTILES),
        sagas.step_times(tables),
        pictures.steps,
        lambda rows: f"The slowest step at p99 is {_slowest(rows)}.",
    )


def waits(tables: Tables) -> Part:
    """Return where sagas wait."""
    return Part(
        "waits",
        "Where sagas wait",
        "The phases of an order, and their share of the total time of all orders.",
        (
            *(Column("part", "part"), Column("orders", "orders", "count"), Column("share", "of all time", "share")),
            *(Column("total_ms", "together", "ms"), *_PERCENTILES),
        ),
        sagas.waits(tables),
        pictures.counted(lambda row: str(row["part"]), "total_ms", lambda row: f"{row['share'] or 0:.1%}", most=0),
        lambda rows: "; ".join(f"{row['part']}: {row['share'] or 0:.1%}" for row in rows) + ".",
    )


def compensations(tables: Tables) -> Part:
    """Return the compensations."""
    return Part(
        "compensations",
        "What was undone",
        "Compensations, and the money that was returned.",
        (
            *(Column("type", "event"), Column("events", "events", "count"), Column("orders", "orders", "count")),
            Column("amount_cents", "money returned", "money"),
        ),
        sagas.compensations(tables),
        pictures.counted(lambda row: str(row["type"]), "events", lambda row: f"{row['events']:,}", SERIES[3]),
        _first("type", Column("events", "", "count")),
    )


def stock_outs(tables: Tables) -> Part:
    """Return the products that ran out."""
    return Part(
        "stock-outs",
        "What ran out",
        "Products of which a line could not be reserved, by the money of those lines.",
        (
            *(
                Column("sku", "product"),
                Column("refused", "lines refused", "count"),
                Column("orders", "orders", "count"),
            ),
            *(Column("units", "units asked for", "count"), Column("amount_cents", "money of the lines", "money")),
        ),
        shortages.stock_outs(tables),
        pictures.top_money("sku", "amount_cents"),
        _first("sku", Column("amount_cents", "", "money")),
    )


def turned_away(tables: Tables) -> Part:
    """Return what stock-outs cost."""
    return Part(
        "turned-away",
        "What stock-outs cost",
        "An order with one unavailable line is rejected as a whole: this is what was rejected.",
        (_CURRENCY, Column("orders", "orders rejected", "count"), Column("amount_cents", "their money", "money")),
        shortages.turned_away(tables),
    )


def rules(findings: DataFrame, declared: Sequence[Rule]) -> Part:
    """Return the number of violations of each rule of the audit; `findings` is the result of `analytics.audit.audit`."""
    spark = findings.sparkSession
    schema = "number int, rule string, severity string, says string"
    known = spark.createDataFrame([(i, r.name, r.severity, r.sentence) for i, r in enumerate(declared)], schema)
    found = findings.groupBy("rule").agg(f.count("*").alias("findings"))
    count = f.coalesce("findings", f.lit(0)).alias("findings")
    frame = known.join(found, "rule", "left").select("number", "rule", "says", "severity", count)
    return Part(
        "rules",
        "What the audit looked for",
        "Every rule, over every event on the log.",
        (
            *(Column("rule", "rule"), Column("says", "what has to hold"), Column("severity", "severity")),
            Column("findings", "findings", "count"),
        ),
        frame.orderBy(f.desc("findings"), "number").drop("number"),
    )


def findings(found: DataFrame) -> Part:
    """Return the audit's findings."""
    columns = ("severity", "rule", "order", "about", "sentence")
    return Part(
        "findings",
        "What the audit found",
        "Each line names the violation, and the order.",
        tuple(Column(name, name) for name in columns),
        found.select(*columns).orderBy(*columns),
        nothing="Nothing: every rule below holds.",
    )


OF_TABLES = (
    *(totals, sales_over_time, sales_by_country, sales_by_product, funnel, reasons, step_times, waits),
    *(compensations, stock_outs, turned_away),
)
"""The parts that follow from the rebuilt tables, in the order of the page."""


def _most(rows: Sequence[Row], value: str, label: str) -> str:
    row = max(rows, key=lambda row: row[value])
    return f"{row[value]:,}, in {row[label]}"


def _first(label: str, column: Column) -> Callable[[Sequence[Row]], str]:
    """Return the text of a bar chart: the first five bars, each with its value."""
    return lambda rows: "Bars. " + "; ".join(f"{row[label]}: {column.text(row)}" for row in rows[:5]) + "."


def _slowest(rows: Sequence[Row]) -> str:
    row = max(rows, key=lambda row: row["p99_ms"])
    return f"{row['cause_type']} to {row['type']}, {duration(row['p99_ms'])}"
