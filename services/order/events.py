"""The events of the order service: the catalogue of prices, the customers' requests, and how each order ends."""

from typing import Annotated

from pydantic import AfterValidator, Field

from eventlib import Event, Topic
from eventlib.search import Searchable
from services.fields import (
    MOST_LINES,
    AmountCents,
    Country,
    Currency,
    LineNo,
    OrderId,
    Part,
    PriceCents,
    Quantity,
    Reason,
    Sku,
    UtcTime,
    UtcTimeOrNone,
)

PRODUCTS = Topic("products", latest=True)


class ProductListed(Event, topic=PRODUCTS, key="sku"):
    """A product is for sale at this price."""

    sku: Sku
    description: str
    unit_price_cents: PriceCents
    currency: Currency


class ProductDelisted(Event, topic=PRODUCTS, key="sku", tombstone=True):
    """A product is no longer for sale."""

    sku: Sku


class OrderLine(Part):
    """So many units of one product, at a price."""

    line_no: LineNo
    sku: Sku
    quantity: Quantity
    unit_price_cents: PriceCents


def _numbered_once(lines: tuple[OrderLine, ...]) -> tuple[OrderLine, ...]:
    if len({line.line_no for line in lines}) < len(lines):
        raise ValueError("two lines have the same line_no")
    return lines


OrderLines = Annotated[tuple[OrderLine, ...], Field(min_length=1, max_length=MOST_LINES)]


class OrderSubmitted(Event, topic="order.requests", key="order_id", request=True):
    """Somebody asks for an order; `customer_id` is None for a guest, `placed_at` the time at an imported order's origin."""

    order_id: OrderId
    customer_id: str | None = Field(min_length=1, max_length=200)
    country: Country
    currency: Currency
    lines: Annotated[OrderLines, AfterValidator(_numbered_once)]
    placed_at: UtcTimeOrNone


class CancelSubmitted(Event, topic="order.requests", key="order_id", request=True):
    """Somebody asks to cancel an order, perhaps before it was submitted."""

    order_id: OrderId
    reason: Reason = "customer"


class OrderPlaced(Event, topic="orders", key="order_id"):
    """An order was accepted; `amount_cents` is the total of its lines."""

    order_id: OrderId
    customer_id: Annotated[str | None, Field(min_length=1, max_length=200), Searchable]
    country: Annotated[Country, Searchable]
    currency: Annotated[Currency, Searchable]
    amount_cents: Annotated[AmountCents, Searchable(money="currency")]
    lines: OrderLines
    placed_at: UtcTime


class OrderCancelRequested(Event, topic="orders", key="order_id"):
    """An order shall be cancelled, if the carrier was not asked yet: `customer`, or `overdue`."""

    order_id: OrderId
    reason: Reason


class OrderCompleted(Event, topic="orders", key="order_id", final=True):
    """An order has ended well: paid and on its way."""

    order_id: OrderId
    amount_cents: AmountCents
    currency: Currency


class OrderCancelled(Event, topic="orders", key="order_id", final=True, reverses=OrderPlaced):
    """An order has ended: its stock is back, and so is all money that was taken; `reason` is what went wrong first."""

    order_id: OrderId
    reason: Reason
    refunded_cents: AmountCents
    currency: Currency


class LargeOrderSeen(Event, topic="orders.large", key="order_id"):
    """A live view has seen a large order; who it is from is not said, only a hash that is the same for a customer."""

    order_id: OrderId
    customer_hash: str | None
    country: Country
    currency: Currency
    amount_cents: AmountCents
    line_count: int
    placed_at: UtcTime
