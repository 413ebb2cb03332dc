"""The events of the stock service: deliveries, the requests to each shelf, its answers, and the state of each order's stock."""

from typing import Annotated

from pydantic import Field

from eventlib import Event
from services.fields import (
    AmountCents,
    Country,
    Currency,
    Delivered,
    DeliveryId,
    LineNo,
    OrderId,
    Part,
    Quantity,
    Reason,
    Sku,
)


class DeliveryLine(Part):
    """So many units of one product."""

    sku: Sku
    quantity: Delivered


class DeliverySubmitted(Event, topic="stock.deliveries", key="delivery_id", request=True):
    """A delivery has arrived at the warehouse."""

    delivery_id: DeliveryId
    lines: Annotated[tuple[DeliveryLine, ...], Field(min_length=1)]


class StockReceived(Event, topic="stock.requests", key="sku"):
    """Units of one product were put on their shelf."""

    sku: Sku
    quantity: Delivered


class LineRequested(Event, topic="stock.requests", key="sku"):
    """An order line asks its shelf for units."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity


class LineReleaseRequested(Event, topic="stock.requests", key="sku"):
    """Units that were set aside for an order line shall go back on their shelf."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity


class LineShipped(Event, topic="stock.requests", key="sku"):
    """Units that were set aside for an order line have left the house."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity


class LineReserved(Event, topic="stock.lines", key="order_id"):
    """Units of one product are set aside for one order line."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity


class LineRefused(Event, topic="stock.lines", key="order_id", failure=True):
    """The shelf has fewer units than an order line wants: only `available`."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity
    available: int = Field(ge=0)
    reason: Reason


class LineReleased(Event, topic="stock.lines", key="order_id", reverses=LineReserved):
    """Units that were set aside for an order line are on their shelf again."""

    order_id: OrderId
    line_no: LineNo
    sku: Sku
    quantity: Quantity


class StockReserved(Event, topic="stock", key="order_id"):
    """Every line of an order is set aside: the order can be paid."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency
    country: Country


class StockRejected(Event, topic="stock", key="order_id", failure=True):
    """Some line was refused, and nothing is set aside for the order any more; it will never be charged."""

    order_id: OrderId
    reason: Reason


class StockReleased(Event, topic="stock", key="order_id", reverses=StockReserved):
    """The order was called off, and nothing is set aside for it any more."""

    order_id: OrderId
    reason: Reason


class StockShipped(Event, topic="stock", key="order_id"):
    """Every line of an order has left the house."""

    order_id: OrderId


class ShelfRunningLow(Event, topic="stock.alerts", key="sku"):
    """A live view has seen a shelf become nearly empty: so many units were free then, as far as it knew."""

    sku: Sku
    description: str | None
    free: int
