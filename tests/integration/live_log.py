"""Events by hand on a log, at times that a test chooses, and whether live views have read all there is."""

import random
from collections.abc import Iterator

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from eventlib import EventLog, Publication, open_log
from eventlib.errors import LogUnavailable
from eventlib.log.kafka.options import parse_url
from eventlib.log.kafka.security import connection_arguments
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.values import from_ms, now_ms
from services import shop
from services.dispatch.events import OrderDispatched
from services.order.events import OrderCancelled, OrderCompleted, OrderLine, OrderPlaced, ProductListed
from services.payment.events import ChargeRequested, PaymentFailed, PaymentTaken
from services.stock.events import LineReleased, LineReserved, StockReceived, StockReserved

COUNTRIES = ("France", "Norway", "Österreich")
HOUR_MS = 3_600_000


class Story:
    """Orders of some days, told by hand: some events come hours too late, and many payments of one country fail."""

    def __init__(self, orders: int, seed: int, first: int = 0) -> None:
        self._random = random.Random(seed)
        self._orders = range(first, first + orders)
        self._begin = now_ms() - 3 * 24 * HOUR_MS
        self._span_ms = 3 * 24 * HOUR_MS

    def records(self, log: EventLog) -> Iterator[Record]:
        """Yield the story in the order in which it reaches the log."""
        for sku in ("A", "B"):
            yield from self._at(
                log, self._begin, ProductListed(sku=sku, description=f"the {sku}", unit_price_cents=300, currency="EUR")
            )
            yield from self._at(log, self._begin, StockReceived(sku=sku, quantity=len(self._orders)))
        for number in self._orders:
            share = (number - self._orders.start) / len(self._orders)
            late_ms = self._random.choice((0,) * 9 + (2 * HOUR_MS,))
            begin = self._begin + int(share * self._span_ms) - late_ms + self._random.randrange(400_000)
            for after_ms, event in self._order(number):
                yield from self._at(log, begin + after_ms, event)

    def _order(self, number: int) -> Iterator[tuple[int, Event]]:
        wait = self._random.randrange
        key, country = f"by-hand-{number}", self._random.choice(COUNTRIES)
        quantity, sku = wait(1, 3), self._random.choice("AB")
        price = self._random.choice((250, 60_000))
        cents, money = quantity * price, {"currency": "EUR", "country": country}
        person = self._random.choice((None, "ada", "bob", "cleo"))
        line = OrderLine(line_no=1, sku=sku, quantity=quantity, unit_price_cents=price)
        yield (
            0,
            OrderPlaced(
                order_id=key, customer_id=person, amount_cents=cents, lines=(line,), placed_at=from_ms(0), **money
            ),
        )
        yield 5, LineReserved(order_id=key, line_no=1, sku=sku, quantity=quantity)
        yield 9, StockReserved(order_id=key, amount_cents=cents, **money)
        yield 11, ChargeRequested(order_id=key, amount_cents=cents, **money)
        paid = self._random.choice((wait(20, 900), wait(300_000, 900_000)))
        if self._random.random() < (0.5 if country == "Norway" else 0.02):
            yield paid, PaymentFailed(order_id=key, reason="declined")
            yield paid + 2, LineReleased(order_id=key, line_no=1, sku=sku, quantity=quantity)
            yield paid + 7, OrderCancelled(order_id=key, reason="declined", refunded_cents=0, currency="EUR")
            return
        yield paid, PaymentTaken(order_id=key, amount_cents=cents, charge_key=key, **money)
        yield paid + 40, OrderDispatched(order_id=key, tracking=f"T-{key}")
        yield paid + 50, OrderCompleted(order_id=key, amount_cents=cents, currency="EUR")

    def _at(self, log: EventLog, at_ms: int, event: Event) -> list[Record]:
        return log.records_of(Publication(event), at_ms)


async def told(url: str, story: Story) -> None:
    """Put a story on a log, a piece at a time: each is a transaction, as services write them."""
    async with open_log(url, shop) as log:
        records = list(story.records(log))
        for begin in range(0, len(records), 50):
            await log.port.append(records[begin : begin + 50])


async def is_read(url: str, service: str) -> bool:
    """Tell whether the views of a service have read all that is on the log, and on their own topics.

    On a machine that is too busy to answer in time it is not known yet: whoever waits asks again.
    """
    try:
        return await _is_read(url, service)
    except LogUnavailable:
        return False


async def _is_read(url: str, service: str) -> bool:
    reached = await _reached(url, service)
    async with open_log(url, shop, read_only=True) as log:
        carried = [name for name in await log.port.topics() if name.startswith(f"live.{service}.by-")]
        for topic in (*WATCHED[service], *carried):
            for partition in range(8):
                if await log.port.read(topic, partition, reached.get((topic, partition), 0), 1):
                    return False
    return True


async def share_read(url: str) -> float:
    """Return how much of what the services said the views of all of them have read: 1.0 is all."""
    read = whole = 0
    async with open_log(url, shop, read_only=True) as log:
        for service, topics in WATCHED.items():
            reached = await _reached(url, service)
            read += sum(offset for (topic, _), offset in reached.items() if topic in topics)
            whole += sum([await log.port.end(topic, partition) for topic in topics for partition in range(8)])
    return read / whole


async def _reached(url: str, service: str) -> dict[tuple[str, int], int]:
    hosts, options = parse_url(url)
    admin = AIOKafkaAdminClient(bootstrap_servers=hosts, **connection_arguments(options))
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(f"{options.prefix}{options.application}.{service}.live")
    except KafkaError:  # no answer just now, or no group yet: whoever waits asks again
        return {}
    finally:
        await admin.close()
    return {(tp.topic.removeprefix(options.prefix), tp.partition): found.offset for tp, found in offsets.items()}


WATCHED = {
    "order": ("orders",),
    "stock": ("products", "stock.requests", "stock.lines"),
    "payment": ("stock", "payments"),
    "dispatch": ("orders", "dispatches"),
}
"""What the views of each service read."""
