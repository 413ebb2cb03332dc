"""Before the first order: finds what the log has of a file, lists the file's products, and delivers their stock."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import blake2b

from eventlib import EventLog, GlobalTable, Publication
from eventlib.errors import UndecodableRecord
from eventlib.queries import request_id, tail
from eventlib.spi import Record
from eventlib.values import from_ms, now_ms
from services.importing.intake import CONTENT_HEADER, Intake, Known, content_of
from services.order.events import OrderSubmitted, ProductListed
from services.stock.events import DeliveryLine, DeliverySubmitted, StockReceived

_BATCH = 500
DELIVERIES = "stock.deliveries"


@dataclass(slots=True)
class Catalogue:
    """How many of the file's products were listed and delivered now.

    `other_units` counts deliveries of this file that the log has with another number of units; those stay.
    `awaited` holds the ids of the delivery requests, `since_ms` when the first of them was made.
    """

    listed: int = 0
    delivered: int = 0
    other_units: int = 0
    awaited: set[str] = field(default_factory=set)
    since_ms: int = 0


async def prepare(log: EventLog, intake: Intake, units: int) -> Catalogue:
    """List the products that are not for sale yet, and deliver `units` of each product, once for this file.

    A listed product keeps its price: an import adds to the catalogue, and changes nothing in it.
    """
    since_ms = now_ms()
    async with GlobalTable(log, ProductListed) as listed:
        products = [
            ProductListed(
                sku=sku,
                description=product.description,
                unit_price_cents=product.unit_price_cents,
                currency=product.currency,
            )
            for sku, product in intake.products.items()
            if sku not in listed
        ]
    await _publish(log, [Publication(product) for product in products])
    requests = dict[str, Publication]()
    for sku in intake.products:
        request = delivery_request(intake.source.digest, sku, units)
        requests[str(request.idempotency_key)] = request
    made = dict[str, Record]()
    async for records in tail(log.port, [DELIVERIES]):
        for record in records:
            if (delivery_id := text_key(record)) in requests:
                made.setdefault(str(delivery_id), record)
    new = [request for delivery_id, request in requests.items() if delivery_id not in made]
    await _publish(log, new)
    return Catalogue(
        listed=len(products),
        delivered=len(new),
        other_units=sum([await log.decode_now(record) != requests[each].event for each, record in made.items()]),
        awaited={request_id(DELIVERIES, delivery_id) for delivery_id in requests},
        since_ms=min((record.timestamp_ms for record in made.values()), default=since_ms),
    )


def delivery_request(file_digest: str, sku: str, units: int) -> Publication:
    """Return the request to deliver a file's units of one product; its key is the same for the same content and product."""
    delivery_id = f"import-{blake2b(f'{file_digest}/{sku}'.encode(), digest_size=16).hexdigest()}"
    event = DeliverySubmitted(delivery_id=delivery_id, lines=(DeliveryLine(sku=sku, quantity=units),))
    return Publication(event, delivery_id)


async def _publish(log: EventLog, publications: Sequence[Publication]) -> None:
    for first in range(0, len(publications), _BATCH):
        await log.publish_many(publications[first : first + _BATCH])


async def arrival(log: EventLog, done: Catalogue, patience_s: float) -> bool:
    """Wait until every delivery is on its shelf; False when none has arrived for `patience_s` seconds.

    Orders and deliveries are on different topics, without an order between them: an order that is handled before the
    delivery of its products would be refused.
    """
    missing = set(done.awaited)
    arrivals = tail(log.port, ["stock.requests"], from_ms(done.since_ms), follow=True)
    try:
        async with aclosing(arrivals), asyncio.timeout(patience_s) as limit:
            while missing:
                here = {
                    record.correlation_id for record in await anext(arrivals) if record.type == StockReceived.__name__
                }
                if not missing.isdisjoint(here):
                    missing -= here
                    limit.reschedule(asyncio.get_running_loop().time() + patience_s)
    except TimeoutError:
        return False
    return True


async def find_orders(log: EventLog, intake: Intake) -> tuple[int, int | None]:
    """Mark the orders of the file that are on the log; return how many, and when the first was submitted (ms).

    The first request under an order id counts, as it does for the order service. Only ids and digests are read; a request
    from another publisher is decoded to compare its content.
    """
    count, first_ms = 0, None
    async for records in tail(log.port, ["order.requests"]):
        for record in records:
            order_id = text_key(record)
            kept = None if order_id is None or record.type != OrderSubmitted.__name__ else intake.kept(order_id)
            if order_id is None or kept is None or kept.known is not Known.NOTHING:
                continue
            if not await _asks_for(log, record, kept.content):
                intake.learn(order_id, Known.CONFLICT)
                continue
            intake.learn(order_id, Known.PLACED)
            count += 1
            first_ms = record.timestamp_ms if first_ms is None else min(first_ms, record.timestamp_ms)
    return count, first_ms


async def _asks_for(log: EventLog, record: Record, content: str) -> bool:
    if (CONTENT_HEADER, content.encode()) in record.headers:
        return True
    try:
        event = await log.decode_now(record)
    except UndecodableRecord:
        return False
    return isinstance(event, OrderSubmitted) and content_of(event) == content


def text_key(record: Record) -> str | None:
    """Return a record's key as text; None for one that is not text, and so cannot be from these services."""
    try:
        return None if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        return None
