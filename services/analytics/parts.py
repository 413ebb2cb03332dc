"""The shop's own parts of the report, for notebooks too: `funnel(tables)` shows itself, and has `.frame`, `.rows`, `.plot()`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from analytics.report import (
    PERCENTILES,
    SERIES,
    Column,
    Part,
    Report,
    Row,
    Section,
    Tables,
    Tile,
    counted,
    duration,
    first_bars,
    money,
    sagas_page,
    step_times,
    top_money,
)
from services import shop
from services.analytics import orders, sales
from services.analytics.sales_chart import over_time

_MONEY = (Column("ordered_cents", "ordered", "money"), Column("revenue_cents", "revenue", "money"))
_STATUS = tuple(Column(name, name, "count") for name in ("orders", "completed", "cancelled", "open"))
_CURRENCY = Column("currency", "currency")
_ORDERS = Column("orders", "orders", "count")
_REVENUE = Column("revenue_cents", "revenue", "money")


def _orders(*attributes: str) -> Callable[[Row], str]:
    """Return what makes the address of the search for a row's orders, by attributes that it has the values of."""

    def address(row: Row) -> str:
        known = {**row, "outcome": f"order_{row['status']}" if "status" in row else None}
        return sagas_page({name: known[name] for name in attributes})

    return address


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
        over_time,
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
        (Column("country", "country", page=_orders("country", "currency")), *_STATUS, *_MONEY),
        sales.sales_by_country(tables),
        top_money("country", "revenue_cents"),
        first_bars(lambda row: str(row["country"]), Column("revenue_cents", "", "money")),
    )


def sales_by_product(tables: Tables) -> Part:
    """Return units and revenue by product."""
    return Part(
        "products",
        "Revenue by product",
        "The products with most revenue, of completed orders.",
        (Column("sku", "product"), _ORDERS, Column("units", "units", "count"), _REVENUE),
        sales.sales_by_product(tables),
        top_money("sku", "revenue_cents"),
        first_bars(lambda row: str(row["sku"]), Column("revenue_cents", "", "money")),
    )


def funnel(tables: Tables) -> Part:
    """Return how many orders reached each stage."""
    return Part(
        "funnel",
        "How far orders came",
        "Orders that reached each stage, and their share of those that were placed.",
        (
            Column("stage", "stage"),
            _ORDERS,
            Column("share", "of those placed", "share"),
            Column("lost", "lost before", "count"),
        ),
        orders.funnel(tables),
        counted(
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
            Column("reason", "reason", page=_orders("outcome", "reason", "currency")),
            Column("status", "status"),
            _ORDERS,
            Column("amount_cents", "their money", "money"),
        ),
        orders.reasons(tables),
        counted(lambda row: str(row["reason"]), "orders", lambda row: f"{row['orders']:,}", SERIES[1]),
        first_bars(lambda row: str(row["reason"]), Column("orders", "", "count")),
    )


def waits(tables: Tables) -> Part:
    """Return where sagas wait."""
    return Part(
        "waits",
        "Where sagas wait",
        "The phases of an order, and their share of the total time of all orders.",
        (
            *(Column("part", "part"), _ORDERS, Column("share", "of all time", "share")),
            *(Column("total_ms", "together", "ms"), *PERCENTILES),
        ),
        orders.waits(tables),
        counted(lambda row: str(row["part"]), "total_ms", lambda row: f"{row['share'] or 0:.1%}", most=0),
        lambda rows: "; ".join(f"{row['part']}: {row['share'] or 0:.1%}" for row in rows) + ".",
    )


def compensations(tables: Tables) -> Part:
    """Return the compensations."""
    return Part(
        "compensations",
        "What was undone",
        "Compensations, and the money that was returned.",
        (
            *(Column("type", "event"), Column("events", "events", "count"), _ORDERS),
            Column("amount_cents", "money returned", "money"),
        ),
        orders.compensations(tables),
        counted(lambda row: str(row["type"]), "events", lambda row: f"{row['events']:,}", SERIES[3]),
        first_bars(lambda row: str(row["type"]), Column("events", "", "count")),
    )


def stock_outs(tables: Tables) -> Part:
    """Return the products that ran out."""
    return Part(
        "stock-outs",
        "What ran out",
        "Products of which a line could not be reserved, by the money of those lines.",
        (
            *(Column("sku", "product"), Column("refused", "lines refused", "count"), _ORDERS),
            *(Column("units", "units asked for", "count"), Column("amount_cents", "money of the lines", "money")),
        ),
        sales.stock_outs(tables),
        top_money("sku", "amount_cents"),
        first_bars(lambda row: str(row["sku"]), Column("amount_cents", "", "money")),
    )


def turned_away(tables: Tables) -> Part:
    """Return what stock-outs cost."""
    return Part(
        "turned-away",
        "What stock-outs cost",
        "An order with one unavailable line is rejected as a whole: this is what was rejected.",
        (_CURRENCY, Column("orders", "orders rejected", "count"), Column("amount_cents", "their money", "money")),
        sales.turned_away(tables),
    )


def _tiles(parts: Mapping[str, Part]) -> list[Tile]:
    rows = parts["totals"].rows
    placed = sum(row["orders"] for row in rows)
    tiles = [Tile(f"{placed:,}", "orders placed")]
    if placed:
        completed, is_open = (sum(row[name] for row in rows) for name in ("completed", "open"))
        tiles.append(Tile(f"{completed / placed:.1%}", f"completed; {is_open:,} still open"))
        tiles += [Tile(money(row["revenue_cents"], row["currency"]), "revenue") for row in rows[:3]]
        slowest = max(parts["waits"].rows, key=lambda row: row["total_ms"], default=None)
        if slowest is not None:
            tiles.append(Tile(duration(slowest["p50_ms"]), f"median wait, {slowest['part']}"))
    return tiles


report = Report(
    "How the shop is doing",
    [
        Section("sales", "Sales", [sales_over_time, totals]),
        Section("countries", "Countries", [sales_by_country]),
        Section("products", "Products", [sales_by_product]),
        Section("outcomes", "Outcomes", [funnel, reasons]),
        Section("time", "Time", [waits, partial(step_times, choreography=shop)]),
        Section("undone", "Undone", [compensations]),
        Section("shortages", "Shortages", [stock_outs, turned_away]),
    ],
    _tiles,
    ("orders", "order_lines"),
)


def _most(rows: Sequence[Row], value: str, label: str) -> str:
    row = max(rows, key=lambda row: row[value])
    return f"{row[value]:,}, in {row[label]}"
