"""What the index knows, as clients read it."""

import asyncio
import re
from contextlib import suppress

from eventlib import EventlibError, EventLog
from eventlib.queries import SagaEvent, saga_of
from eventlib.spi import Record
from eventlib.values import from_ms
from services.order.events import OrderSubmitted
from services.order.http.config import ApiConfig
from services.order.http.desk import Accepted, Place
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
from services.order.http.problems import Refusal, index_behind, refused_field, try_later
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
        changes = seen[0] if seen else 0
        async with asyncio.timeout(self._config.decision_s):
            topic = (await self._log.port.topics())[REQUESTS]
            if partition >= topic.partitions or offset >= await self._log.port.decided_end(REQUESTS, partition):
                raise refused_field("query", "min_position", "is no position that this API has given")
            if changes > await self._log.port.decided_end(self._index.changelog, partition):
                raise refused_field("query", "min_position", "is no position that this API has given")
        is_there = await self._index.decided(REQUESTS, partition, offset, self._config.decision_s)
        if changes and is_there:
            last = self._index.changelog, partition, changes - 1
            is_there = await self._index.reached(*last, self._config.decision_s)
        if not is_there:
            raise try_later("not-decided-yet", f"what stands at {position} is not decided yet, or not read here")

    async def ended(self, order_id: str, timeout_s: float) -> None:
        """Wait until an order has ended, or the time is over."""
        await self._index.until(order_id, lambda: self._index.has_ended(order_id), timeout_s)

    async def refuse_if_old(self) -> None:
        """Keep a client from taking what is not listed for what is not there. Raises: Refusal when the index is too old for that."""
        if not await self._index.is_younger(self._config.index_age_s, self._config.decision_s):
            raise index_behind(self._config.index_age_s)

    async def age_ms(self) -> int:
        """Return how old answers are at most: all that was on the log then is in them."""
        return int(await self._index.age_s() * 1000)

    @property
    def damaged(self) -> int:
        """How many records are damaged on the log, so that what they said is in no answer."""
        return len(self._index.damaged)

    async def order(self, order_id: str) -> OrderDetail:
        """Return an order with its lines; its position is how far this instance is.

        Raises: Refusal; ProjectionBehind when it is not known whether there is such an order.
        """
        submitted = await self._index.first_current(order_id, OrderSubmitted, self._config.decision_s)
        request = None if submitted is None else self._index.request_in(submitted)
        detail = self._detail(order_id, request, None)
        if detail is not None:
            return detail
        if submitted is None:
            raise Refusal(404, "unknown-order", f"there is no order {order_id}")
        raise try_later("unreadable", f"the request for order {order_id} cannot be read, and is not decided")

    def accepted(self, accepted: Accepted) -> OrderDetail:
        """Return an order that is on the log: as the index has it by now, if it does, else as it was submitted."""
        order_id, place, request = accepted
        try:
            detail = self._detail(order_id, request, place.text)
        except EventlibError:
            detail = None if request is None else _submitted(order_id, request, place.text)
        if detail is None:
            raise try_later("unreadable", f"order {order_id} is on the log, and its request cannot be read")
        return detail

    def cancelling(self, before: OrderDetail, place: Place | None) -> OrderDetail:
        """Return an order that was to be cancelled: as the index has it by now, if it does, else as it was before."""
        now = before
        with suppress(EventlibError):
            if (found := self._index.order(before.order_id)) is not None:
                now = before.model_copy(update=facts_of(found) | {"position": self._position(before.order_id)})
        if place is None:
            return now
        is_open = now.ended_at is None and now.cancellation == "none"  # it is on the log, and not decided here yet
        cancellation = "pending" if is_open else now.cancellation
        return now.model_copy(update={"position": place.text, "cancellation": cancellation})

    def _position(self, order_id: str) -> str:
        """Return how far this index is with an order: its partition, its owner's last request, and its changelog."""
        partition = self._index.partition_of(order_id)
        changes = self._index.positions.get((self._index.changelog, partition), 0)
        return f"{partition}-{self._index.handled(REQUESTS, partition) - 1}-{changes}"

    def _detail(self, order_id: str, request: OrderSubmitted | None, position: str | None) -> OrderDetail | None:
        """Return an order as the index has it; else as it was submitted, if that can be read."""
        found = self._index.order(order_id)
        if found is None:
            return None if request is None else _submitted(order_id, request, position)
        position = position or self._position(order_id)
        return OrderDetail.model_construct(**facts_of(found), position=position, lines=_lines(request))

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
        await self._index.first_current(order_id, OrderSubmitted, self._config.decision_s)
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


def _submitted(order_id: str, request: OrderSubmitted, position: str | None) -> OrderDetail:
    undecided = Order(
        customer_id=request.customer_id,
        country=request.country,
        currency=request.currency,
        amount_cents=sum(line.quantity * line.unit_price_cents for line in request.lines),
        line_count=len(request.lines),
    )
    facts = facts_of(Found(order_id, undecided)) | {"status": "submitted"}
    return OrderDetail.model_construct(**facts, position=position, lines=_lines(request))


def _lines(request: OrderSubmitted | None) -> list[Line]:
    return [] if request is None else [Line.model_construct(**dict(line)) for line in request.lines]


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
