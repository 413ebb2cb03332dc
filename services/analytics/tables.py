"""The shop's tables, beside those that any choreography has."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.tables import Column as About
from analytics.tables import Events, StepFields, accepted_values, holds, is_one, not_null, table
from eventlib import Event
from services.analytics.kept import has
from services.dispatch import events as dispatch
from services.order import events as order
from services.payment import events as payment
from services.stock import events as stock

STEP_FIELDS = StepFields("sku", "line_no", "quantity", "amount_cents", "reason")


def _first(*cases: tuple[Column, str], otherwise: str) -> Column:
    """Return the name of the first condition that holds."""
    found: Column = f.lit(otherwise)
    for condition, name in reversed(cases):
        found = f.when(condition, name).otherwise(found)
    return found


_ORDER = {"order_id": About("The order.", not_null)}


@table(
    key="order_id",
    columns={
        **_ORDER,
        "status": About(
            "What its customer sees.",
            accepted_values("cancelled", "completed", "cancelling", "dispatched", "paid", "reserved", "placed"),
        ),
        "reason": About("Why it was not completed; while it is open, the earliest reason against it."),
        "customer_id": About("NULL for a guest."),
        "country": About("Where to.", not_null),
        "total_cents": About("The total of its lines, in minor units of its currency.", holds("total_cents >= 0")),
        "currency": About("An ISO 4217 code.", not_null),
        "placed_at": About("When it was placed at its origin (UTC).", not_null),
        "ended_at": About("When it was completed or cancelled (UTC)."),
    },
)
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


@table(
    key="order_id",
    columns={
        **_ORDER,
        "status": About(
            "How far its payment came.",
            accepted_values("refunded", "voided", "waived", "failed", "uncertain", "taken", "requested"),
        ),
        "reason": About("Why it was not paid, or was returned."),
        "taken_cents": About("What the gateway took, in minor units.", holds("taken_cents >= 0")),
        "refunded_cents": About("What it returned.", holds("refunded_cents BETWEEN 0 AND taken_cents")),
        "currency": About("An ISO 4217 code."),
        "requested_at": About("When the gateway was first asked (UTC)."),
        "taken_at": About("When it took the amount (UTC)."),
        "refunded_at": About("When it returned it (UTC)."),
    },
)
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


@table(
    key="order_id",
    columns={
        **_ORDER,
        "status": About(
            "How far its delivery came.", accepted_values("dispatched", "failed", "cancelled", "uncertain", "requested")
        ),
        "reason": About("Why it was not brought."),
        "tracking": About("The carrier's own reference."),
        "requested_at": About("When the carrier was first asked (UTC)."),
        "dispatched_at": About("When it had the order (UTC)."),
        "cancel_refused": About("Whether a wish to cancel came too late.", not_null),
    },
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


@table(
    key="order_id",
    columns={
        **_ORDER,
        "outcome": About("How it ended.", accepted_values("cancelled", "completed", "open")),
        "reason": About("Why it was not completed."),
        "started_at": About("The time of its first event (UTC).", not_null),
        "ended_at": About("The time of its end (UTC)."),
        "duration_ms": About("From its first event to its end."),
        "last_at": About("The time of its last event so far (UTC).", not_null),
        "steps": About("How many events it has.", holds("steps > 0")),
        "failures": About("How many of them are failures."),
        "compensations": About("How many of them reverse another."),
    },
)
def saga_outcomes(sagas: DataFrame) -> DataFrame:
    """Return one row per saga: how it ended, how long it took, and how many of its steps were compensations."""
    outcome = f.regexp_replace("outcome", "^order_", "").alias("outcome")
    return sagas.select(
        *(f.col("saga").alias("order_id"), outcome, "reason", "started_at", "ended_at", "duration_ms", "last_at"),
        *("steps", "failures", "compensations"),
    )


@table(
    key=("order_id", "line_no"),
    increment="append",
    events={"placed": Events((order.OrderPlaced,), ("order_id", "lines", "currency", "placed_at"))},
    columns={
        **_ORDER,
        "line_no": About("The number of the line in its order."),
        "sku": About("The product.", not_null),
        "quantity": About("Units.", holds("quantity >= 1")),
        "unit_price_cents": About("The price of one, in minor units.", holds("unit_price_cents >= 0")),
        "amount_cents": About("The price of all.", holds("amount_cents = quantity * unit_price_cents")),
        "currency": About("An ISO 4217 code.", not_null),
        "placed_at": About("When the order was placed at its origin (UTC)."),
    },
)
def order_lines(placed: DataFrame) -> DataFrame:
    """Return one row per line of a placed order."""
    lines = placed.select("order_id", f.explode("lines").alias("line"), "currency", "placed_at")
    amount = (f.col("line.quantity") * f.col("line.unit_price_cents")).alias("amount_cents")
    fields = [f.col(f"line.{name}") for name in ("line_no", "sku", "quantity", "unit_price_cents")]
    return lines.select("order_id", *fields, amount, "currency", "placed_at")


@table(
    key=("topic", "partition", "offset"),
    increment="append",
    events={"received": Events((stock.StockReceived,), ("sku", "quantity"))},
    columns={
        "sku": About("The product.", not_null),
        "kind": About("What moved them.", accepted_values("received", "reserved", "released", "shipped")),
        "quantity": About("Units.", holds("quantity >= 1")),
        "order_id": About("The order; NULL for a delivery."),
        "line_no": About("The number of the line in its order."),
        "recorded_at": About("When it was written to the log (UTC).", not_null),
        "topic": About("The topic of its record."),
        "partition": About("The partition of its record."),
        "offset": About("The offset of its record."),
        "id": About("The event's id.", not_null),
    },
)
def stock_movements(saga_steps: DataFrame, received: DataFrame) -> DataFrame:
    """Return one row per movement of units of a product: received, reserved, released, or shipped."""
    kinds: Mapping[type[Event], str] = {
        stock.StockReceived: "received",
        stock.LineReserved: "reserved",
        stock.LineReleased: "released",
        stock.LineShipped: "shipped",
    }
    kind = _first(*((is_one(event), name) for event, name in kinds.items()), otherwise="")
    facts = saga_steps.filter(is_one(*kinds)).unionByName(received, allowMissingColumns=True)
    return facts.filter(f.col("sku").isNotNull()).select(
        *("sku", kind.alias("kind"), "quantity", "order_id", "line_no", "recorded_at"),
        *("topic", "partition", "offset", "id"),
    )


_UNITS = ("received", "on_hand", "reserved", "shipped")


@table(
    key="sku",
    increment="merge",
    merges=dict.fromkeys(_UNITS, "sum"),
    columns={
        "sku": About("The product."),
        "received": About("Units received in all.", holds("received >= 0")),
        "on_hand": About("Units on the shelf."),
        "reserved": About("Units set aside for orders."),
        "shipped": About("Units that have left the house.", holds("shipped >= 0")),
    },
)
def stock_levels(stock_movements: DataFrame) -> DataFrame:
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
    return stock_movements.select("sku", *(column.alias(name) for name, column in added.items()))
