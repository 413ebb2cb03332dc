"""The requests of an import: their keys derive from the file, so that a second import adds nothing."""

from hashlib import blake2b

from eventlib import Publication
from eventlib.queries import request_id
from services.importing.orders import Order, content_digest
from services.order.events import OrderLine, OrderSubmitted
from services.stock.events import DeliveryLine, DeliverySubmitted

ORDER_REQUESTS = "order.requests"
DELIVERIES = "stock.deliveries"
CONTENT_HEADER = "content"
"""The header that holds the digest of an order's content (16 hex digits), so that it is compared without decoding."""


def order_request(order: Order, content: int) -> Publication:
    """Return the request to place an order; `content` is the digest of its content."""
    event = OrderSubmitted(
        order_id=order.order_id,
        customer_id=order.customer_id,
        country=order.country,
        currency=order.currency,
        lines=tuple(
            OrderLine(line_no=number, sku=line.sku, quantity=line.quantity, unit_price_cents=line.price.cents or 0)
            for number, line in enumerate(order.lines, start=1)
        ),
        placed_at=order.placed_at,
    )
    return Publication(event, f"import/{order.order_id}", headers={CONTENT_HEADER: f"{content:016x}"})


def content_of(event: OrderSubmitted) -> int:
    """Return the digest of a request's content, from any publisher; see `Order.content`."""
    lines = [(line.sku, line.quantity, line.unit_price_cents) for line in event.lines]
    placed_at = "" if event.placed_at is None else event.placed_at.isoformat()
    return content_digest(event.order_id, placed_at, event.customer_id, event.country, event.currency, lines)


def delivery_request(file_digest: str, sku: str, units: int) -> Publication:
    """Return the request to deliver a file's units of one product."""
    delivery_id = delivery_id_of(file_digest, sku)
    event = DeliverySubmitted(delivery_id=delivery_id, lines=(DeliveryLine(sku=sku, quantity=units),))
    return Publication(event, delivery_id)


def delivery_id_of(file_digest: str, sku: str) -> str:
    """Return the delivery's id: the same for the same file content and product."""
    return f"import-{blake2b(f'{file_digest}/{sku}'.encode(), digest_size=16).hexdigest()}"


def delivery_request_id(delivery_id: str) -> str:
    """Return the event id that a delivery's request has on the log."""
    return request_id(DELIVERIES, delivery_id)
