"""Finds the records of a file that are on the log already."""

from collections.abc import AsyncIterator, Iterable

from eventlib import EventLog
from eventlib.errors import UndecodableRecord
from eventlib.spi import Record, TopicPartition
from services.importing.known import Known, KnownOrders
from services.importing.requests import CONTENT_HEADER, DELIVERIES, ORDER_REQUESTS, content_of
from services.order.events import PRODUCTS, OrderSubmitted

_CHUNK = 1_000


async def positions(log: EventLog, topics: Iterable[str], since_ms: int | None) -> dict[TopicPartition, int]:
    """Return the offsets at which to start reading topics from a time on; their ends without a time."""
    declared = await log.port.topics()
    found: dict[TopicPartition, int] = {}
    for topic in topics:
        for partition in range(declared[topic].partitions):
            if since_ms is None:
                found[topic, partition] = await log.port.end(topic, partition)
            else:
                found[topic, partition] = await log.port.offset_at(topic, partition, since_ms)
    return found


async def records(log: EventLog, topic: str) -> AsyncIterator[Record]:
    """Yield a topic's records, partition by partition."""
    for partition in range((await log.port.topics())[topic].partitions):
        offset = await log.port.start(topic, partition)
        while chunk := await log.port.read(topic, partition, offset, _CHUNK):
            for record in chunk:
                yield record
            offset = chunk[-1].offset + 1


async def find_orders(log: EventLog, known: KnownOrders) -> tuple[int, int | None]:
    """Mark the orders of the file that are on the log; return how many, and when the first was submitted (ms).

    The first request under an order id counts, as it does for the order service. Only ids and digests are read; a request
    from another publisher is decoded to compare its content.
    """
    count, first_ms = 0, None
    async for record in records(log, ORDER_REQUESTS):
        order_id = text_key(record)
        content = None if order_id is None or record.type != OrderSubmitted.__name__ else known.content(order_id)
        if order_id is None or content is None or known.known(order_id) & (Known.PLACED | Known.CONFLICT):
            continue
        if not await _asks_for(log, record, content):
            known.learn(order_id, Known.CONFLICT)
            continue
        known.learn(order_id, Known.PLACED)
        count += 1
        first_ms = record.timestamp_ms if first_ms is None else min(first_ms, record.timestamp_ms)
    return count, first_ms


async def find_products(log: EventLog) -> set[str]:
    """Return the SKUs that are for sale."""
    listed = set[str]()
    async for record in records(log, PRODUCTS.latest_topic.name):
        sku = text_key(record)
        if sku is None:
            continue
        if record.value is None:
            listed.discard(sku)
        else:
            listed.add(sku)
    return listed


async def find_deliveries(log: EventLog, wanted: Iterable[str]) -> tuple[dict[str, Record], int | None]:
    """Return the requests of these deliveries that are on the log, by id, and when the first was made (ms)."""
    ids = frozenset(wanted)
    found = dict[str, Record]()
    async for record in records(log, DELIVERIES):
        delivery_id = text_key(record)
        if delivery_id in ids:
            found.setdefault(delivery_id, record)
    return found, min((record.timestamp_ms for record in found.values()), default=None)


def text_key(record: Record) -> str | None:
    """Return a record's key as text; None for one that is not text, and so cannot be from these services."""
    try:
        return None if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        return None


async def _asks_for(log: EventLog, record: Record, content: int) -> bool:
    if (CONTENT_HEADER, f"{content:016x}".encode()) in record.headers:
        return True
    try:
        event = await log.decode_now(record)
    except UndecodableRecord:
        return False
    return isinstance(event, OrderSubmitted) and content_of(event) == content
