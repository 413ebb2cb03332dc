"""Bodies of requests and answers over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eventlib.http import POSITION, TimelineEvent
from services.fields import MOST_LINES, AmountCents, Country, Currency, Listed, Plain, PriceCents, Quantity, Sku
from services.order.index import Found
from services.order.state import Cancel, Money, Order, Parcel, Status, Stock

CustomerId = Annotated[str, Field(min_length=1, max_length=200)]
PositionText = Annotated[str, Field(pattern=POSITION, examples=["3-17"])]
CANCELLATION = Literal["none", "pending", "granted", "refused"]


class Asked(BaseModel):
    """A request's body: strict about types and unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WantedLine(Asked):
    """So many units of one product, at the catalogue's price."""

    sku: Annotated[Sku, Plain]
    quantity: Quantity


class WantedOrder(Asked):
    """An order to place; without `customer_id`, a guest's."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "customer_id": "17850",
                    "country": "United Kingdom",
                    "currency": "GBP",
                    "lines": [{"sku": "85123A", "quantity": 6}, {"sku": "71053", "quantity": 2}],
                }
            ]
        }
    )

    customer_id: Annotated[CustomerId, Plain] | None = None
    country: Annotated[Country, Plain]
    currency: Annotated[Currency, Listed]
    lines: Annotated[list[WantedLine], Field(min_length=1, max_length=MOST_LINES)]


class Line(BaseModel):
    """One line of an order; the price is in minor units of the order's currency."""

    line_no: int
    sku: Sku
    quantity: Quantity
    unit_price_cents: PriceCents


class OrderSummary(BaseModel):
    """An order as its owner has it; money is in minor units of its currency, times are UTC.

    `reason` says why it will not be completed. `cancellation` says what became of a wish to cancel it.
    """

    order_id: str
    status: Status | Literal["submitted"] = Field(
        description="`submitted`: durable, and not decided yet. `completed` and `cancelled` are final."
    )
    customer_id: str | None
    country: str
    currency: Currency
    amount_cents: AmountCents
    line_count: int
    placed_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    stock: Stock
    payment: Money
    dispatch: Parcel
    cancellation: CANCELLATION
    taken_cents: AmountCents
    refunded_cents: AmountCents
    tracking: str | None


class OrderDetail(OrderSummary):
    """An order with its lines. A read that is given `position` as `min_position` shows at least this."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "order_id": "4f0c6c6e9b1f4f6f8d3a",
                    "status": "completed",
                    "customer_id": "17850",
                    "country": "United Kingdom",
                    "currency": "GBP",
                    "amount_cents": 1530,
                    "line_count": 1,
                    "placed_at": "2026-01-05T08:26:00.123Z",
                    "ended_at": "2026-01-05T08:26:00.161Z",
                    "reason": None,
                    "stock": "shipped",
                    "payment": "taken",
                    "dispatch": "dispatched",
                    "cancellation": "none",
                    "taken_cents": 1530,
                    "refunded_cents": 0,
                    "tracking": "SIM-1",
                    "position": "3-17",
                    "lines": [{"line_no": 1, "sku": "85123A", "quantity": 6, "unit_price_cents": 255}],
                }
            ]
        }
    )

    position: PositionText | None = None
    lines: list[Line]


class OrderPage(BaseModel):
    """Orders, the newest first; `next_cursor` leads on, and is null on the last page."""

    orders: list[OrderSummary]
    next_cursor: str | None


class Timeline(BaseModel):
    """Every event of an order's saga, causes before effects."""

    order_id: str
    ended: bool
    events: list[TimelineEvent]


class Product(BaseModel):
    """Something for sale; the price is in minor units of its currency."""

    sku: Sku
    description: str
    unit_price_cents: PriceCents
    currency: Currency


class ProductPage(BaseModel):
    """Products by SKU; `next_cursor` leads on, and is null on the last page."""

    products: list[Product]
    next_cursor: str | None


def cancellation_of(order: Order) -> CANCELLATION:
    """Return what became of a wish to cancel: granted also when the order is called off for another reason."""
    if not order.cancel_reason:
        return "none"
    if order.reason:
        return "granted"
    if order.cancel is Cancel.REFUSED or order.ended_at is not None:
        return "refused"
    return "pending"


def facts_of(found: Found) -> dict[str, Any]:
    """Return the fields of an order's summary."""
    order = found.order
    return {
        "order_id": found.order_id,
        "status": order.status,
        "customer_id": order.customer_id,
        "country": order.country,
        "currency": order.currency,
        "amount_cents": order.amount_cents,
        "line_count": order.line_count,
        "placed_at": order.placed_at,
        "ended_at": order.ended_at,
        "reason": order.reason or None,
        "stock": order.stock,
        "payment": order.money,
        "dispatch": order.parcel,
        "cancellation": cancellation_of(order),
        "taken_cents": order.taken_cents,
        "refunded_cents": order.refunded_cents,
        "tracking": order.tracking or None,
    }
