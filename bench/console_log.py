"""A log of the shop with many sagas, for measurements of what reads it: made by the shop's own runtime, and kept for the next run.

Nine of ten orders are refused, since the shelf of their product is empty: nine events. Of the others one in twenty is declined,
and the rest completes: twelve events. Of every 2,000 the charge of one parks, and the gateway does not answer those of the last 200.
Beyond 100,000 sagas, the rest are copies of what the order service has of orders that were refused: their four events under a
key of their own and the newest state, in its partition; then the services' positions are set behind them. So a million takes minutes.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.sagas import InstantCarrier
from eventlib import EventLog, Publication, Runtime, open_log
from eventlib.errors import OutcomeUnknown, TerminalError
from eventlib.log.reading import chunks
from eventlib.model.record import Record, key_text
from eventlib.runtime.records import POSITION_KEY, Positions, state_key
from eventlib.runtime.runtime import collect_garbage_seldom, prepare_own
from eventlib.values import now_ms
from services import shop
from services.order.events import OrderLine, OrderSubmitted
from services.payment.ports import Charged, Declined
from services.stock.events import DeliveryLine, DeliverySubmitted

_AT_ONCE = 2_000
_MOST_REAL, _REAL_BELOW_COPIES = 100_000, 10_000
_COPIED = ("order.requests", "orders", "stock", "order.changelog")
_ID_DIGITS = len("order-1234") - 1
_OPEN = 200
_LIMIT_S = 3.0
_COUNTRIES = ("United Kingdom", "United Kingdom", "United Kingdom", "Germany", "France", "EIRE")


class Gateway:
    """Takes money at once, or declines; of some orders it knows nothing, and of some it says nothing."""

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        """Answer by the order's number."""
        del key, amount_cents, currency
        kind, _, number = order_id.partition("-")
        if kind == "late":
            raise OutcomeUnknown("the gateway does not answer")
        if int(number) % 2_000 == 0:
            raise TerminalError(f"the gateway does not know account {number}")
        return Declined("declined") if int(number) % 200 == 10 else Charged()


def order(name: str, number: int) -> Publication:
    """Return an order; nine of ten are for what the shop never has."""
    sku = "full" if number % 10 == 0 or name == "late" else "empty"
    line = OrderLine(line_no=1, sku=sku, quantity=1, unit_price_cents=50 + number % 9_950)
    submitted = OrderSubmitted(
        order_id=f"{name}-{number}",
        customer_id=f"customer-{number % 9_973}",
        country=_COUNTRIES[number % len(_COUNTRIES)],
        currency="GBP",
        lines=(line,),
        placed_at=None,
    )
    return Publication(submitted, idempotency_key=submitted.order_id)


async def fill(path: Path, count: int) -> None:
    """Make a log at a path with so many sagas."""
    collect_garbage_seldom()
    await _run(path, count if count <= _MOST_REAL else _REAL_BELOW_COPIES)
    if count > _MOST_REAL:
        async with open_log(f"sqlite:///{path}", shop) as log:
            await _copy(log, count - _REAL_BELOW_COPIES)
            await _go_behind(log)
            async with Runtime(log, ports={"gateway": Gateway(), "carrier": InstantCarrier()}) as runtime:
                await _restored(runtime)


async def _run(path: Path, count: int) -> None:
    """Let the shop handle so many orders."""
    async with (
        open_log(f"sqlite:///{path}", shop) as log,
        Runtime(log, ports={"gateway": Gateway(), "carrier": InstantCarrier()}) as runtime,
    ):
        units = DeliveryLine(sku="full", quantity=count)
        await log.publish(DeliverySubmitted(delivery_id="D", lines=(units,)), idempotency_key="D")
        await runtime.idle()
        for start in range(0, count - _OPEN, _AT_ONCE):
            end = min(start + _AT_ONCE, count - _OPEN)
            await log.publish_many([order("order", number) for number in range(start, end)])
            await runtime.idle()
        await log.publish_many([order("late", number) for number in range(_OPEN)])
        await _until_asked(log)


async def _copy(log: EventLog, count: int) -> None:
    originals = [*(await _refused(log)).values()]
    records, since_ms = list[Record](), now_ms()
    for number in range(count):
        records += _copied(originals[number % len(originals)], number, since_ms)
        if len(records) >= 2 * _AT_ONCE or number == count - 1:
            await log.port.append(records)
            records.clear()


async def _refused(log: EventLog) -> dict[str, list[Record]]:
    """Return the records of orders whose ids have four digits and that were refused, by the order."""
    newest: dict[tuple[str, str, str | None], Record] = {}
    for topic in _COPIED:
        for partition in range((await log.port.topics())[topic].partitions):
            async for records in chunks(log.port, (topic, partition), 0):
                newest |= {(topic, each.subject or "", each.type): each for each in records}
    refused = {order for _, order, kind in newest if kind == "StockRejected" and len(order) == _ID_DIGITS + 1}
    found: dict[str, list[Record]] = {order: [] for order in refused}
    for (_, order, _), record in newest.items():
        if order in refused and key_text(record) in {order, state_key("order", order)}:
            found[order].append(record)
    return {order: sorted(each, key=lambda record: record.timestamp_ms) for order, each in found.items()}


def _copied(records: Sequence[Record], number: int, since_ms: int) -> Iterator[Record]:
    """Yield the records of a saga under another key of the same length, with ids of their own."""
    order, name = records[0].subject or "", f"c{number:0{_ID_DIGITS}}"
    partition = next(each for each in shop.topics if each.name == "orders").partition_of(name.encode())
    ids = {each.id: f"{number:030x}{at:02x}" for at, each in enumerate(records)}
    first = ids[records[0].id]
    for at, each in enumerate(records):
        yield Record(
            each.topic, partition, -1, since_ms + number // 10 + at,
            (each.key or b"").replace(order.encode(), name.encode()), (each.value or b"").replace(order.encode(), name.encode()),
            each.id and ids[each.id], each.type, each.source, name, each.sequence, first, ids.get(each.causation_id or each.id),
        )  # fmt: skip


async def _go_behind(log: EventLog) -> None:
    """Have each task go on behind all that is on the log."""
    await prepare_own(log, shop.services)
    for service in shop.services:
        for partition in range(service.partitions):
            place, newest = (service.changelog.name, partition), None
            async for records in chunks(log.port, place, 0):
                newest = next((each for each in reversed(records) if key_text(each) == POSITION_KEY), newest)
            if newest is not None:
                was = await log.codec.known(lambda: log.codec.decode(Positions, newest.value or b""))  # noqa: B023  awaited before it changes
                now = replace(was, next={topic: await log.port.end(topic, partition) for topic in was.next})
                await log.port.append([newest.replace(offset=-1, value=log.codec.encode(now))])


async def _restored(runtime: Runtime) -> None:
    """Wait until the local stores have it all, as those of services that run."""
    await asyncio.sleep(_LIMIT_S)
    while runtime.restoring:
        await asyncio.sleep(_LIMIT_S)


async def _until_asked(log: EventLog) -> None:
    """Wait until what the gateway does not answer is asked: the log does not grow any more."""
    before = -1
    while (now := await _size(log)) != before:
        before = now
        await asyncio.sleep(_LIMIT_S)


async def _size(log: EventLog) -> int:
    topics = await log.port.topics()
    return sum([await log.port.end(topic.name, p) for topic in topics.values() for p in range(topic.partitions)])


async def records_of(path: Path) -> int:
    """Count the records of a log."""
    async with open_log(f"sqlite:///{path}", shop) as log:
        return await _size(log)
