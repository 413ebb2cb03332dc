"""The aggregates kept of each order, so that tables of orders continue with new records."""

from collections.abc import Callable, Mapping
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
    """An aggregate per key: a fact's contribution, and the function that merges two values.

    The contribution is made when it is used: without a Spark session there are no columns.
    """

    of_fact: Callable[[], Column]
    merged: str


_ENDED = order.OrderCompleted, order.OrderCancelled
_PLACE = ("recorded_at", "topic", "partition", "offset", "reason")

_KEPT: Mapping[str, Kept] = {
    "seen": Kept(_bit, "bit_or"),
    "customer_id": Kept(lambda: _of("customer_id", order.OrderPlaced), "max"),
    "country": Kept(lambda: _of("country", order.OrderPlaced), "max"),
    "total_cents": Kept(lambda: _of("amount_cents", order.OrderPlaced), "max"),
    "currency": Kept(lambda: f.col("currency"), "max"),
    "placed_at": Kept(lambda: _of("placed_at", order.OrderPlaced), "max"),
    "ended_at": Kept(lambda: _of("recorded_at", *_ENDED), "min"),
    "end_reason": Kept(lambda: _of("reason", order.OrderCancelled), "max"),
    "against": Kept(lambda: _of(f.struct(*_PLACE), *_AGAINST), "min"),
    "taken_cents": Kept(lambda: _of("amount_cents", payment.PaymentTaken, payment.PaymentVoided), "sum"),
    "refunded_cents": Kept(lambda: _of("amount_cents", payment.PaymentRefunded, payment.PaymentVoided), "sum"),
    "charged_at": Kept(lambda: _of("recorded_at", payment.ChargeRequested), "min"),
    "taken_at": Kept(lambda: _of("recorded_at", payment.PaymentTaken), "min"),
    "refunded_at": Kept(lambda: _of("recorded_at", payment.PaymentRefunded, payment.PaymentVoided), "min"),
    "unpaid_reason": Kept(lambda: _of("reason", *_PAID), "max"),
    "booked_at": Kept(lambda: _of("recorded_at", dispatch.DispatchRequested), "min"),
    "dispatched_at": Kept(lambda: _of("recorded_at", dispatch.OrderDispatched), "min"),
    "tracking": Kept(lambda: f.col("tracking"), "max"),
    "undelivered_reason": Kept(lambda: _of("reason", dispatch.DispatchFailed, dispatch.DispatchCancelled), "max"),
}
_MERGES = {name: kept.merged for name, kept in _KEPT.items()}


@table(key="order_id", increment="merge", merges=_MERGES, events={"about": ABOUT_ORDERS}, hidden=True)
def kept(about: DataFrame) -> DataFrame:
    """Return what is kept of each order, of each fact about it."""
    columns = [each.of_fact().alias(name) for name, each in _KEPT.items()]
    return about.filter(f.col("order_id").isNotNull()).select("order_id", *columns)


def has(*events: type[Event]) -> Column:
    """Return whether an order has had one of these events."""
    bits = sum(_BITS[event] for event in events)
    return f.coalesce(f.col("seen"), f.lit(0)).bitwiseAND(f.lit(bits).cast("bigint")) != 0
