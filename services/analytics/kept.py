"""What is kept of each order, so that tables of orders go on with new records."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.tables import Events, is_one, table
from eventlib import Event
from services.dispatch import events as dispatch
from services.order import events as order
from services.payment import events as payment
from services.stock import events as stock

_TYPES: tuple[type[Event], ...] = (
    *(order.OrderPlaced, order.OrderCompleted, order.OrderCancelled),
    *(stock.StockReserved, stock.StockRejected, stock.StockReleased, stock.StockShipped),
    *(payment.ChargeRequested, payment.PaymentTaken, payment.PaymentFailed, payment.ChargeUncertain),
    *(payment.PaymentVoided, payment.PaymentRefunded, payment.PaymentWaived),
    *(dispatch.DispatchRequested, dispatch.DispatchUncertain, dispatch.OrderDispatched, dispatch.DispatchFailed),
    *(dispatch.DispatchCancelled, dispatch.CancelRefused),
)
_BITS = {cls: 1 << i for i, cls in enumerate(_TYPES)}
_AGAINST = (
    *(stock.StockRejected, stock.StockReleased, dispatch.DispatchFailed, dispatch.DispatchCancelled),
    *(payment.PaymentFailed, payment.ChargeUncertain, payment.PaymentVoided, payment.PaymentRefunded),
    payment.PaymentWaived,
)
_FAILED = (
    *(stock.StockRejected, stock.LineRefused, payment.PaymentFailed, dispatch.DispatchFailed),
    dispatch.DispatchCancelled,
)
_UNDONE = (
    *(stock.StockReleased, stock.LineReleased, payment.PaymentRefunded, payment.PaymentVoided, order.OrderCancelled),
    dispatch.DispatchFailed,
)
_PAID = (
    *(payment.ChargeRequested, payment.PaymentTaken, payment.PaymentFailed, payment.ChargeUncertain),
    *(payment.VoidRequested, payment.PaymentVoided, payment.RefundRequested, payment.PaymentRefunded),
    payment.PaymentWaived,
)

FIELDS = ("order_id", "customer_id", "country", "amount_cents", "currency", "reason", "tracking", "placed_at")
ABOUT_ORDERS = Events(
    (*_TYPES, order.LargeOrderSeen, payment.VoidRequested, payment.RefundRequested),
    FIELDS,
)
"""The events about whole orders; those about single lines, the most frequent ones, say nothing more here."""


def _of(field: str | Column, *events: type[Event]) -> Column:
    return f.when(is_one(*events), f.col(field) if isinstance(field, str) else field)


def _bit() -> Column:
    bit: Column = f.lit(0)
    for cls, value in _BITS.items():
        bit = f.when(is_one(cls), value).otherwise(bit)
    return bit.cast("bigint")


class Kept(NamedTuple):
    """An aggregate per key: a fact's contribution, and the function that merges two values."""

    of_fact: Column
    merged: str


def _numbers() -> dict[str, Kept]:
    """Return the aggregates of all steps, those of lines too: numbers, which Spark merges without sorting."""
    return {
        "first_at": Kept(f.col("recorded_at"), "min"),
        "last_at": Kept(f.col("recorded_at"), "max"),
        "steps": Kept(f.lit(1).cast("bigint"), "sum"),
        "failures": Kept(is_one(*_FAILED).cast("bigint"), "sum"),
        "compensations": Kept(is_one(*_UNDONE).cast("bigint"), "sum"),
    }


def _texts() -> dict[str, Kept]:
    """Return the aggregates of facts about whole orders."""
    placed, ended = order.OrderPlaced, (order.OrderCompleted, order.OrderCancelled)
    place = ("recorded_at", "topic", "partition", "offset", "reason")
    return {
        "seen": Kept(_bit(), "bit_or"),
        "customer_id": Kept(_of("customer_id", placed), "max"),
        "country": Kept(_of("country", placed), "max"),
        "total_cents": Kept(_of("amount_cents", placed), "max"),
        "currency": Kept(f.col("currency"), "max"),
        "placed_at": Kept(_of("placed_at", placed), "max"),
        "ended_at": Kept(_of("recorded_at", *ended), "min"),
        "end_reason": Kept(_of("reason", order.OrderCancelled), "max"),
        "against": Kept(_of(f.struct(*place), *_AGAINST), "min"),
        "taken_cents": Kept(_of("amount_cents", payment.PaymentTaken, payment.PaymentVoided), "sum"),
        "refunded_cents": Kept(_of("amount_cents", payment.PaymentRefunded, payment.PaymentVoided), "sum"),
        "charged_at": Kept(_of("recorded_at", payment.ChargeRequested), "min"),
        "taken_at": Kept(_of("recorded_at", payment.PaymentTaken), "min"),
        "refunded_at": Kept(_of("recorded_at", payment.PaymentRefunded, payment.PaymentVoided), "min"),
        "unpaid_reason": Kept(_of("reason", *_PAID), "max"),
        "booked_at": Kept(_of("recorded_at", dispatch.DispatchRequested), "min"),
        "dispatched_at": Kept(_of("recorded_at", dispatch.OrderDispatched), "min"),
        "tracking": Kept(f.col("tracking"), "max"),
        "undelivered_reason": Kept(_of("reason", dispatch.DispatchFailed, dispatch.DispatchCancelled), "max"),
    }


_MERGES = {name: kept.merged for name, kept in {**_numbers(), **_texts()}.items()}


@table(key="order_id", increment="merge", merges=_MERGES, events={"about": ABOUT_ORDERS}, hidden=True)
def kept(saga_steps: DataFrame, about: DataFrame) -> DataFrame:
    """Return what is kept of each order: of all its steps, and of the facts about it."""
    found = about.filter(f.col("order_id").isNotNull())
    return _kept(saga_steps, _numbers()).unionByName(_kept(found, _texts()), allowMissingColumns=True)


def _kept(facts: DataFrame, values: Mapping[str, Kept]) -> DataFrame:
    return facts.groupBy("order_id").agg(
        *(getattr(f, kept.merged)(kept.of_fact).alias(name) for name, kept in values.items())
    )


def has(*events: type[Event]) -> Column:
    """Return whether an order has had one of these events."""
    bits = sum(_BITS[event] for event in events)
    return f.coalesce(f.col("seen"), f.lit(0)).bitwiseAND(f.lit(bits).cast("bigint")) != 0
