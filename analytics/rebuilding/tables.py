"""The tables, as what they are of the facts, and of what is kept of each order."""

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
"""Which version of these tables it is: those of another one are rebuilt from the beginning."""


def _first(*cases: tuple[Column, str], otherwise: str) -> Column:
    """Return the name of the first condition that holds."""
    found: Column = f.lit(otherwise)
    for condition, name in reversed(cases):
        found = f.when(condition, name).otherwise(found)
    return found


def orders(kept: DataFrame) -> DataFrame:
    """Return one row for each order that was placed, with the status that its customer is told."""
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
    """Return one row for each order with an event of payment's."""
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
    """Return one row for each order with an event of dispatch's that is not only the refusal of a wish to cancel."""
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
    """Return one row for each saga: how it ended, how long it took, and how many of its steps undid something."""
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
"""The tables that follow from what is kept of each order."""


OF_LINES = ("order_id", "lines", "currency", "placed_at")
"""The fields that `order_lines` is made of."""


def order_lines(facts: DataFrame) -> DataFrame:
    """Return one row for each line of an order that was placed."""
    lines = facts.filter(is_one(order.OrderPlaced)).select(
        "order_id", f.explode("lines").alias("line"), "currency", "placed_at"
    )
    amount = (f.col("line.quantity") * f.col("line.unit_price_cents")).alias("amount_cents")
    fields = [f.col(f"line.{name}") for name in ("line_no", "sku", "quantity", "unit_price_cents")]
    return lines.select("order_id", *fields, amount, "currency", "placed_at")


OF_RECEIPTS: Wanted = (stock.StockReceived,), ("sku", "quantity", "order_id", "line_no")
"""What `stock_movements` is made of, beside the steps of sagas."""


def stock_movements(facts: DataFrame) -> DataFrame:
    """Return one row for each time that units of a product moved: onto a shelf, aside, back, or out of the house."""
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
    """Return one row for each product: its units, received in all, and where they are."""

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
"""The fields of all events that `saga_steps` is made of."""

NOT_OF_LINES: Wanted = (
    tuple(event for event in EVENTS if event not in ABOUT_LINES),
    tuple(dict.fromkeys((*OF_STEPS, *OF_LINES, *FIELDS))),
)
"""What four tables are made of, beside the many events about single lines: worth being decoded once and put down."""


def saga_steps(facts: DataFrame, causes: DataFrame) -> DataFrame:
    """Return one row for each event of each saga, with its cause and the time since it.

    `causes` are the ids, types and times of `EVENTS`; an id that stands on a log twice counts from the first time on.
    """
    names = sorted(contract_of(event).type for event in EVENTS)
    number = f.array_position(
        f.array(*map(f.lit, names)), f.col("type")
    )  # Spark keeps the least number without sorting
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
