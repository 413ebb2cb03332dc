"""What the index knows, as clients read it."""

import re

from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.log.port import Record
from eventlib.saga import SagaEvent, saga_of
from eventlib.times import from_ms
from services.order.events import OrderSubmitted
from services.order.http.config import ApiConfig
from services.order.http.models import (
    Line,
    OrderDetail,
    OrderPage,
    OrderSummary,
    Product,
    ProductPage,
    Timeline,
    TimelineEvent,
    facts_of,
)
from services.order.http.problems import Refusal, refused_field, try_later
from services.order.index import REQUESTS, Found, OrderIndex
from services.order.state import Order, Status

_CURSOR = re.compile(r"([0-9]{1,15})-(.{1,200})", re.DOTALL)


class Reading:
    """Answers from the index.

    Cost: each answer costs what it says; none scans the log or the index.
    """

    def __init__(self, log: EventLog, index: OrderIndex, config: ApiConfig) -> None:
        self._log = log
        self._index = index
        self._config = config

    async def wait_for(self, position: str | None) -> None:
        """Wait until this instance is as far as a position, which an answer of any instance has said.

        `3-17` is that of a request, and is reached when that is decided; `3-17-2042` is that of a read, and of what
        the owner had written by then. Raises: Refusal.
        """
        if position is None:
            return
        partition, offset, *seen = map(int, position.split("-"))
        topic = (await self._log.port.topics())[REQUESTS]
        if partition >= topic.partitions or offset >= await self._log.port.end(REQUESTS, partition):
            raise refused_field("query", "min_position", "is no position that this API has given")
        changes = seen[0] if seen else 0
        if changes > await self._index.changelog_end(partition):
            raise refused_field("query", "min_position", "is no position that this API has given")
        is_decided = await self._index.decided(partition, offset, self._config.decision_s)
        if not is_decided or not await self._index.has_seen(partition, changes, self._config.decision_s):
            raise try_later("not-decided-yet", f"what stands at {position} is not decided yet, or not read here")

    async def ended(self, order_id: str, timeout_s: float) -> None:
        """Wait until an order has ended, or the time is over."""
        await self._index.waiters.until(order_id, lambda: self._index.has_ended(order_id), timeout_s)

    async def age_ms(self) -> int:
        """Return how old answers are at most: all that was on the log then is in them."""
        return int(await self._index.projection.age_s() * 1000)

    def order(self, order_id: str, position: str | None = None) -> OrderDetail:
        """Return an order with its lines; its position is how far this instance is, if no other is given.

        Raises: Refusal.
        """
        found, submitted = self._index.order(order_id), self._submitted(order_id)
        lines = [] if submitted is None else [Line.model_construct(**dict(line)) for line in submitted.lines]
        if found is not None:
            position = position or "-".join(map(str, self._index.seen_of(order_id)))
            return OrderDetail.model_construct(**facts_of(found), position=position, lines=lines)
        if submitted is None:
            raise Refusal(404, "unknown-order", f"there is no order {order_id}")
        undecided = Order(
            customer_id=submitted.customer_id,
            country=submitted.country,
            currency=submitted.currency,
            amount_cents=sum(line.quantity * line.unit_price_cents for line in submitted.lines),
            line_count=len(lines),
        )
        facts = facts_of(Found(order_id, undecided)) | {"status": "submitted"}
        return OrderDetail.model_construct(**facts, position=position, lines=lines)

    def orders(self, customer_id: str | None, status: Status | None, cursor: str | None, limit: int) -> OrderPage:
        """Return a page of orders, the newest first. Raises: Refusal."""
        before = None
        if cursor is not None:
            parts = _CURSOR.fullmatch(cursor)
            if parts is None:
                raise refused_field("query", "cursor", "is no cursor that this API has given")
            before = int(parts[1]), parts[2]
        found = self._index.orders(customer_id, status, before, limit + 1)
        page = [OrderSummary.model_construct(**facts_of(each)) for each in found[:limit]]
        more = found[limit - 1] if len(found) > limit else None
        return OrderPage.model_construct(orders=page, next_cursor=None if more is None else _cursor(more))

    def products(self, cursor: str | None, limit: int) -> ProductPage:
        """Return a page of products by SKU."""
        found = self._index.products(cursor or "", limit + 1)
        page = [Product.model_construct(**dict(each)) for each in found[:limit]]
        return ProductPage(products=page, next_cursor=page[-1].sku if len(found) > limit else None)

    async def timeline(self, order_id: str) -> Timeline:
        """Return every event of an order's saga, causes before effects. Raises: Refusal."""
        once = {record.event_id: record for _, record in reversed(self._index.events(order_id))}
        if not once:
            raise Refusal(404, "unknown-order", f"there is no order {order_id}")
        saga = saga_of(order_id, await self._log.decode_many(once.values()), self._log.choreography)
        events = [_timeline_event(event) for event in saga.events]
        return Timeline.model_construct(order_id=order_id, ended=bool(saga.ended), events=events)

    async def event(self, record: Record, since_ms: int) -> TimelineEvent:
        """Return one event, without what only the whole saga tells: whether it makes up for a failure."""
        (read,) = await self._log.decode_many([record])
        saga = saga_of((record.key or b"").decode(), [read], self._log.choreography)
        event = _timeline_event(saga.events[0])
        return event.model_copy(update={"cause": record.causation_id, "after_ms": record.timestamp_ms - since_ms})

    def _submitted(self, order_id: str) -> OrderSubmitted | None:
        first = self._index.submitted(order_id)
        if first is None:
            return None
        try:
            event = self._log.decode(first.record)
        except EventlibError:
            return None  # the timeline says why
        return event if isinstance(event, OrderSubmitted) else None


def _cursor(found: Found) -> str:
    opened_at = found.order.opened_at
    assert opened_at is not None  # noqa: S101  the index holds placed orders only
    return f"{int(opened_at.timestamp() * 1000)}-{found.order_id}"


def _timeline_event(event: SagaEvent) -> TimelineEvent:
    record = event.record
    return TimelineEvent.model_construct(
        id=record.event_id,
        type=event.type,
        at=from_ms(record.timestamp_ms),
        after_ms=event.after_ms,
        source=record.source or "outside",
        cause=None if event.cause is None else event.cause.event_id,
        role=event.role,
        ends=event.ends,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        data=None if event.event is None else event.facts,
        error=event.error,
    )
