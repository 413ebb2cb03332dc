"""The tables, computed from the facts and from each order's aggregates."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.rebuilding.facts import EVENTS
from analytics.rebuilding.kept import ABOUT_LINES, FIELDS, has, is_one
from eventlib.model.event import Event, contract_of
from services.dispatch import events as dispatch
from services.order import events as order
from services.payment import events as payment
from services.stock import events as stock

Wanted = tuple[Sequence[type[Event]], Sequence[str]]
"""Events, and their fields."""

DEFINITION = 1
"""The version of these table definitions: tables of another one are rebuilt from the beginning."""


def _first(*cases: tuple[Column, str], otherwise: str) -> Column:
    """Return the name of the first condition that holds."""
    found: Column = f.lit(otherwise)
    for condition, name in reversed(cases):
        found = f.when(condition, name).otherwise(found)
    return found


def orders(kept: DataFrame) -> DataFrame:
    """Return one row per placed order, with the status that its customer sees."""
    status = _first(
        (has(order.OrderCancelled), "cancelled"),
        (has(order.OrderCompleted), "completed"),
        (f.col("against").isNotNull(), "cancelling"),
        (has(dispatch.OrderDispatched, stock.StockShipped), "dispatched"),
        (has(payment.PaymentTaken), "paid"),
        (has(stock.StockReserved), "reserved"),
        otherwise="placed",
    )
    return kept.filter(has(order.OrderPlaced)).select(
        *("order_id", status.alias("status"), _reason().alias("reason"), "customer_id", "country"),
        *("total_cents", "currency", "placed_at", "ended_at"),
    )


def _reason() -> Column:
    """Return why an order was not completed; while it is open, the earliest reason against it."""
    open_reason = f.when(~has(order.OrderCompleted), f.col("against.reason"))
    return f.coalesce(f.col("end_reason"), open_reason)


def payments(kept: DataFrame) -> DataFrame:
    """Return one row per order with an event of payment's."""
    cases: Mapping[str, type[Event]] = {
        "refunded": payment.PaymentRefunded,
        "voided": payment.PaymentVoided,
        "waived": payment.PaymentWaived,
        "failed": payment.PaymentFailed,
        "uncertain": payment.ChargeUncertain,
        "taken": payment.PaymentTaken,
        "requested": payment.ChargeRequested,
    }
    status = _first(*((has(event), name) for name, event in cases.items()), otherwise="")
    return kept.filter(has(*cases.values())).select(
        *("order_id", status.alias("status"), f.col("unpaid_reason").alias("reason")),
        *(f.coalesce(name, f.lit(0)).cast("bigint").alias(name) for name in ("taken_cents", "refunded_cents")),
        *("currency", f.col("charged_at").alias("requested_at"), "taken_at", "refunded_at"),
    )


def dispatches(kept: DataFrame) -> DataFrame:
    """Return one row per order with an event of dispatch's other than a refused cancellation."""
    cases: Mapping[str, type[Event]] = {
        "dispatched": dispatch.OrderDispatched,
        "failed": dispatch.DispatchFailed,
        "cancelled": dispatch.DispatchCancelled,
        "uncertain": dispatch.DispatchUncertain,
        "requested": dispatch.DispatchRequested,
    }
    status = _first(*((has(event), name) for name, event in cases.items()), otherwise="")
    return kept.filter(has(*cases.values())).select(
        *("order_id", status.alias("status"), f.col("undelivered_reason").alias("reason"), "tracking"),
        *(f.col("booked_at").alias("requested_at"), "dispatched_at"),
        has(dispatch.CancelRefused).alias("cancel_refused"),
    )


def saga_outcomes(kept: DataFrame) -> DataFrame:
    """Return one row per saga: how it ended, how long it took, and how many of its steps were compensations."""
    outcome = _first(
        (has(order.OrderCancelled), "cancelled"), (has(order.OrderCompleted), "completed"), otherwise="open"
    )
    took = (f.unix_millis("ended_at") - f.unix_millis("first_at")).alias("duration_ms")
    return kept.select(
        *("order_id", outcome.alias("outcome"), _reason().alias("reason")),
        *(f.col("first_at").alias("started_at"), "ended_at", took, "last_at"),
        *("steps", "failures", "compensations"),
    )


OF_ORDERS = {"orders": orders, "payments": payments, "dispatches": dispatches, "saga_outcomes": saga_outcomes}
"""The tables computed from each order's aggregates."""


OF_LINES = ("order_id", "lines", "currency", "placed_at")
"""The fields of `order_lines`."""


def order_lines(facts: DataFrame) -> DataFrame:
    """Return one row per line of a placed order."""
    lines = facts.filter(is_one(order.OrderPlaced)).select(
        "order_id", f.explode("lines").alias("line"), "currency", "placed_at"
    )
    amount = (f.col("line.quantity") * f.col("line.unit_price_cents")).alias("amount_cents")
    fields = [f.col(f"line.{name}") for name in ("line_no", "sku", "quantity", "unit_price_cents")]
    return lines.select("order_id", *fields, amount, "currency", "placed_at")


OF_RECEIPTS: Wanted = (stock.StockReceived,), ("sku", "quantity", "order_id", "line_no")
"""The source of `stock_movements`, beside the steps of sagas."""


def stock_movements(facts: DataFrame) -> DataFrame:
    """Return one row per movement of units of a product: received, reserved, released, or shipped."""
    kinds: Mapping[type[Event], str] = {
        stock.StockReceived: "received",
        stock.LineReserved: "reserved",
        stock.LineReleased: "released",
        stock.LineShipped: "shipped",
    }
    kind = _first(*((is_one(event), name) for event, name in kinds.items()), otherwise="")
    return facts.filter(is_one(*kinds) & f.col("sku").isNotNull()).select(
        *("sku", kind.alias("kind"), "quantity", "order_id", "line_no", "recorded_at"),
        *("topic", "partition", "offset", "id"),
    )


def stock_levels(movements: DataFrame, before: DataFrame | None) -> DataFrame:
    """Return one row per product: its units, received in all, and where they are."""

    def moved(**signs: int) -> Column:
        found: Column = f.lit(0)
        for kind, sign in signs.items():
            found = f.when(f.col("kind") == kind, f.col("quantity") * sign).otherwise(found)
        return found.cast("bigint")

    added = {
        "received": moved(received=1),
        "on_hand": moved(received=1, reserved=-1, released=1),
        "reserved": moved(reserved=1, released=-1, shipped=-1),
        "shipped": moved(shipped=1),
    }
    rows = movements.select("sku", *(column.alias(name) for name, column in added.items()))
    both = rows if before is None else before.unionByName(rows)
    return both.groupBy("sku").agg(*(f.sum(name).alias(name) for name in added))


OF_STEPS = ("order_id", "sku", "line_no", "quantity", "amount_cents", "reason")
"""The fields of all events in `saga_steps`."""

NOT_OF_LINES: Wanted = (
    tuple(event for event in EVENTS if event not in ABOUT_LINES),
    tuple(dict.fromkeys((*OF_STEPS, *OF_LINES, *FIELDS))),
)
"""The source of four tables, beside the many events about single lines: worth decoding once and storing."""


def saga_steps(facts: DataFrame, causes: DataFrame) -> DataFrame:
    """Return one row per event of each saga, with its cause and the time since it.

    `causes` are the ids, types and times of `EVENTS`; for an id that is on a log twice, the first time counts.
    """
    names = sorted(contract_of(event).type for event in EVENTS)
    number = f.array_position(f.array(*map(f.lit, names)), f.col("type"))  # Spark keeps the minimum without sorting
    first = causes.groupBy("id").agg(f.min("recorded_at").alias("cause_at"), f.min(number).alias("cause_number"))
    first = first.select(
        f.col("id").alias("causation_id"),
        "cause_at",
        f.element_at(f.array(*map(f.lit, names)), f.col("cause_number").cast("int")).alias("cause_type"),
    )
    found = facts.filter(f.col("order_id").isNotNull()).join(first.hint("shuffle_hash"), "causation_id", "left")
    since = (f.unix_millis("recorded_at") - f.unix_millis("cause_at")).alias("since_cause_ms")
    return found.select(
        *("order_id", "recorded_at", "type", "id", "source", "correlation_id", "causation_id"),
        *("cause_type", "cause_at", since, "sku", "line_no", "quantity", "amount_cents", "reason"),
        *("topic", "partition", "offset"),
    )
