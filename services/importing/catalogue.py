"""Before the first order: lists the file's products, and delivers their stock."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from eventlib import EventLog, Publication
from eventlib.spi import Reader, Record
from eventlib.values import now_ms
from services.importing.onlog import find_deliveries, find_products, positions
from services.importing.requests import delivery_id_of, delivery_request, delivery_request_id
from services.importing.survey import Survey
from services.order.events import ProductListed
from services.stock.events import StockReceived

_BATCH = 500
STOCK_REQUESTS = "stock.requests"


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


async def prepare(log: EventLog, found: Survey, units: int) -> Catalogue:
    """List the products that are not for sale yet, and deliver `units` of each product, once for this file.

    A listed product keeps its price: an import adds to the catalogue, and changes nothing in it.
    """
    done = Catalogue()
    listed = await find_products(log)
    new = [
        Publication(
            ProductListed(
                sku=sku,
                description=product.description,
                unit_price_cents=product.unit_price_cents,
                currency=product.currency,
            )
        )
        for sku, product in found.products.items()
        if sku not in listed
    ]
    await _publish(log, new)
    done.listed = len(new)
    await _deliver(log, found, units, done)
    return done


async def arrival(log: EventLog, done: Catalogue, patience_s: float) -> bool:
    """Wait until every delivery is on its shelf; False when none has arrived for `patience_s` seconds.

    Orders and deliveries are on different topics, without an order between them: an order that is handled before the
    delivery of its products would be refused.
    """
    reader = log.port.reader(await positions(log, [STOCK_REQUESTS], done.since_ms))
    missing = set(done.awaited)
    try:
        while missing:
            async with asyncio.timeout(patience_s):
                await _some_arrived(reader, missing)
    except TimeoutError:
        return False
    finally:
        await reader.close()
    return True


async def _some_arrived(reader: Reader, missing: set[str]) -> None:
    before = len(missing)
    while len(missing) == before:
        for record in await reader.poll(_BATCH):
            if record.type == StockReceived.__name__:
                missing.discard(record.correlation_id or "")


async def _deliver(log: EventLog, found: Survey, units: int, done: Catalogue) -> None:
    wanted = {delivery_id_of(found.digest, sku): sku for sku in found.products}
    made, first_ms = await find_deliveries(log, wanted)
    done.since_ms = now_ms() if first_ms is None else first_ms
    done.awaited = {delivery_request_id(delivery_id) for delivery_id in wanted}
    new = list[Publication]()
    for delivery_id, sku in wanted.items():
        request = delivery_request(found.digest, sku, units)
        if delivery_id not in made:
            new.append(request)
        elif await _differs(log, made[delivery_id], request):
            done.other_units += 1
    await _publish(log, new)
    done.delivered = len(new)


async def _differs(log: EventLog, record: Record, request: Publication) -> bool:
    return await log.decode_now(record) != request.event


async def _publish(log: EventLog, publications: Sequence[Publication]) -> None:
    for first in range(0, len(publications), _BATCH):
        await log.publish_many(publications[first : first + _BATCH])
