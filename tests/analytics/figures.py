"""The report's figures once more, in plain Python: from the tables that `tests.analytics.independent` makes of the raw log."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from eventlib.model.event import contract_of
from services import shop

Row = dict[str, Any]
Tables = dict[str, list[Row]]

STAGES = {
    "placed": "OrderPlaced",
    "stock reserved": "StockReserved",
    "paid": "PaymentTaken",
    "dispatched": "OrderDispatched",
    "completed": "OrderCompleted",
}
WAITS = (
    ("stock: until all lines are answered", {"OrderPlaced"}, {"StockReserved", "StockRejected"}),
    ("payment: until the gateway is asked", {"StockReserved"}, {"ChargeRequested"}),
    ("payment: until the gateway answers", {"ChargeRequested"}, {"PaymentTaken", "PaymentFailed"}),
    ("dispatch: until the carrier is asked", {"PaymentTaken"}, {"DispatchRequested"}),
    ("dispatch: until the carrier answers", {"DispatchRequested"}, {"OrderDispatched", "DispatchFailed"}),
    ("order: from dispatch to the end", {"OrderDispatched"}, {"OrderCompleted"}),
    ("undoing: from the failure to the end", {"StockRejected", "PaymentFailed", "DispatchFailed"}, {"OrderCancelled"}),
)


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found = defaultdict[Any, list[Row]](list)
    for row in rows:
        found[key(row)].append(row)
    return found


def sums(orders: list[Row]) -> Row:
    completed = [row for row in orders if row["status"] == "completed"]
    cancelled = [row for row in orders if row["status"] == "cancelled"]
    return {
        "orders": len(orders),
        "completed": len(completed),
        "cancelled": len(cancelled),
        "open": len(orders) - len(completed) - len(cancelled),
        "ordered_cents": sum(row["total_cents"] for row in orders),
        "revenue_cents": sum(row["total_cents"] for row in completed),
    }


def at_share(values: list[int], share: float) -> float:
    """The value below which a share of all lie, between two of them by proportion."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def percentiles(values: Iterable[int]) -> Row:
    ordered = sorted(values)
    return {f"p{share}_ms": at_share(ordered, share / 100) for share in (50, 95, 99)}


def figures_of(tables: Tables) -> dict[str, list[Row]]:
    orders = {row["order_id"]: row for row in tables["orders"]}
    steps = tables["saga_steps"]
    return {
        "totals": [
            {"currency": c, **sums(rows)} for c, rows in grouped(orders.values(), lambda r: r["currency"]).items()
        ],
        "over-time": over_time([*orders.values()]),
        "countries": [
            {"currency": currency, "country": country, **sums(rows)}
            for (currency, country), rows in grouped(orders.values(), lambda r: (r["currency"], r["country"])).items()
        ],
        "products": products(tables["order_lines"], orders),
        "funnel": funnel(steps),
        "reasons": [
            {
                "status": s,
                "reason": r,
                "currency": c,
                "orders": len(rows),
                "amount_cents": sum(o["total_cents"] for o in rows),
            }
            for (s, r, c), rows in grouped(orders.values(), lambda o: (o["status"], o["reason"], o["currency"])).items()
            if r is not None
        ],
        "steps": [
            {"cause_type": c, "type": t, "events": len(rows), **percentiles(row["since_cause_ms"] for row in rows)}
            for (c, t), rows in grouped(steps, lambda r: (r["cause_type"], r["type"])).items()
            if c is not None
        ],
        "waits": waits(steps),
        "compensations": compensations(steps, orders),
        "stock-outs": stock_outs(steps, tables["order_lines"]),
        "turned-away": turned_away(steps, orders),
    }


def over_time(orders: list[Row]) -> list[Row]:
    times = [row["placed_at"] for row in orders]
    span = max(times) - min(times)
    if span <= timedelta(hours=3):
        form, least = "%Y-%m-%d %H:%M", "minute"
    elif span <= timedelta(hours=72):
        form, least = "%Y-%m-%d %H:%M", "hour"
    elif span <= timedelta(days=400):
        form, least = "%Y-%m-%d", "day"
    else:
        form, least = "%Y-%m", "month"

    def period(at: datetime) -> str:
        return (at.replace(minute=0) if least == "hour" else at).strftime(form)

    found = grouped(orders, lambda row: (row["currency"], period(row["placed_at"])))
    return [{"currency": currency, "period": name, **sums(rows)} for (currency, name), rows in found.items()]


def products(lines: list[Row], orders: dict[str, Row]) -> list[Row]:
    sold = [line for line in lines if orders[line["order_id"]]["status"] == "completed"]
    return [
        {
            "currency": currency,
            "sku": sku,
            "orders": len({row["order_id"] for row in rows}),
            "units": sum(row["quantity"] for row in rows),
            "revenue_cents": sum(row["amount_cents"] for row in rows),
        }
        for (currency, sku), rows in grouped(sold, lambda row: (row["currency"], row["sku"])).items()
    ]


def funnel(steps: list[Row]) -> list[Row]:
    reached = {
        kind: {row["order_id"] for row in rows} for kind, rows in grouped(steps, lambda row: row["type"]).items()
    }
    counts = [len(reached.get(kind, ())) for kind in STAGES.values()]
    before = [counts[0], *counts]
    return [
        {"stage": stage, "orders": count, "share": count / counts[0] if counts[0] else None, "lost": earlier - count}
        for stage, count, earlier in zip(STAGES, counts, before, strict=False)
    ]


def waits(steps: list[Row]) -> list[Row]:
    waited = defaultdict[str, list[int]](list)
    for rows in grouped(steps, lambda row: row["order_id"]).values():
        for name, begun, done in WAITS:
            starts = [row["recorded_at"] for row in rows if row["type"] in begun]
            ends = [row["recorded_at"] for row in rows if row["type"] in done]
            if starts and ends:
                waited[name].append(round((min(ends) - min(starts)) / timedelta(milliseconds=1)))
    whole = sum(map(sum, waited.values()))
    return [
        {
            "part": name,
            "orders": len(waited[name]),
            "total_ms": sum(waited[name]),
            "share": sum(waited[name]) / whole if whole else None,
            **percentiles(waited[name]),
        }
        for name, *_ in WAITS
        if waited[name]
    ]


def compensations(steps: list[Row], orders: dict[str, Row]) -> list[Row]:
    reversing = {contract_of(event).type for event in shop.events if contract_of(event).reverses}
    undone = [row for row in steps if row["type"] in reversing]

    def currency(row: Row) -> str | None:
        return None if row["amount_cents"] is None else orders[row["order_id"]]["currency"]

    return [
        {
            "type": kind,
            "currency": money,
            "events": len(rows),
            "orders": len({row["order_id"] for row in rows}),
            "amount_cents": None if money is None else sum(row["amount_cents"] for row in rows),
        }
        for (kind, money), rows in grouped(undone, lambda row: (row["type"], currency(row))).items()
    ]


def stock_outs(steps: list[Row], lines: list[Row]) -> list[Row]:
    by_place = {(line["order_id"], line["line_no"]): line for line in lines}
    refused = [by_place[row["order_id"], row["line_no"]] for row in steps if row["type"] == "LineRefused"]
    return [
        {
            "currency": currency,
            "sku": sku,
            "refused": len(rows),
            "orders": len({row["order_id"] for row in rows}),
            "units": sum(row["quantity"] for row in rows),
            "amount_cents": sum(row["amount_cents"] for row in rows),
        }
        for (currency, sku), rows in grouped(refused, lambda row: (row["currency"], row["sku"])).items()
    ]


def turned_away(steps: list[Row], orders: dict[str, Row]) -> list[Row]:
    rejected = {row["order_id"] for row in steps if row["type"] == "StockRejected"}
    lost = Counter[str](), Counter[str]()
    for order_id in rejected:
        lost[0][orders[order_id]["currency"]] += 1
        lost[1][orders[order_id]["currency"]] += orders[order_id]["total_cents"]
    return [{"currency": c, "orders": lost[0][c], "amount_cents": lost[1][c]} for c in lost[0]]
