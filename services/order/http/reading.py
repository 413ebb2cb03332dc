"""What the index knows, as clients read it."""

import re
from contextlib import suppress

from eventlib import EventlibError
from eventlib.http import Accepted, RequestPlace, SagaApi, refused_field, try_later
from services.order.events import OrderSubmitted
from services.order.http.models import Line, OrderDetail, OrderPage, OrderSummary, Product, ProductPage, facts_of
from services.order.index import Found, OrderIndex
from services.order.state import Order, Status

_CURSOR = re.compile(r"([0-9]{1,15})-(.{1,200})", re.DOTALL)


class Reading:
    """Answers from the index.

    Cost: each answer costs what it says; none scans the log or the index.
    """

    def __init__(self, index: OrderIndex, api: SagaApi[OrderSubmitted]) -> None:
        self._index = index
        self._api = api

    async def refuse_unless_of(self, customer_id: str | None, order_id: str) -> None:
        """Refuse another customer's order as one that is not there, after the same work; None is any customer.

        Raises: Refusal; ProjectionBehind when it is not known whether there is such an order.
        """
        if customer_id is None:
            return
        submitted = await self._api.events.first(order_id)
        found, request = self._index.order(order_id), None if submitted is None else self._api.requests.read(submitted)
        owner = found.order.customer_id if found is not None else None if request is None else request.customer_id
        if owner != customer_id:
            await self._api.events.refuse_unknown(order_id)

    async def order(self, order_id: str) -> OrderDetail:
        """Return an order with its lines; its position is how far this instance is.

        Raises: Refusal; ProjectionBehind when it is not known whether there is such an order.
        """
        submitted = await self._api.events.first(order_id)
        request = None if submitted is None else self._api.requests.read(submitted)
        detail = self._detail(order_id, request, None)
        if detail is not None:
            return detail
        if submitted is None:
            raise self._api.events.unknown(order_id)
        raise try_later("unreadable", f"the request for order {order_id} cannot be read, and is not decided")

    def accepted(self, accepted: Accepted[OrderSubmitted]) -> OrderDetail:
        """Return an order that is on the log: as the index has it by now, if it does, else as it was submitted."""
        order_id, place, request = accepted
        try:
            detail = self._detail(order_id, request, place.text)
        except EventlibError:
            detail = None if request is None else _submitted(order_id, request, place.text)
        if detail is None:
            raise try_later("unreadable", f"order {order_id} is on the log, and its request cannot be read")
        return detail

    def cancelling(self, before: OrderDetail, place: RequestPlace | None) -> OrderDetail:
        """Return an order that was to be cancelled: as the index has it by now, if it does, else as it was before."""
        now = before
        with suppress(EventlibError):
            if (found := self._index.order(before.order_id)) is not None:
                now = before.model_copy(
                    update=facts_of(found) | {"position": self._api.reads.position(before.order_id)}
                )
        if place is None:
            return now
        is_open = now.ended_at is None and now.cancellation == "none"  # it is on the log, and not decided here yet
        cancellation = "pending" if is_open else now.cancellation
        return now.model_copy(update={"position": place.text, "cancellation": cancellation})

    def _detail(self, order_id: str, request: OrderSubmitted | None, position: str | None) -> OrderDetail | None:
        """Return an order as the index has it; else as it was submitted, if that can be read."""
        found = self._index.order(order_id)
        if found is None:
            return None if request is None else _submitted(order_id, request, position)
        position = position or self._api.reads.position(order_id)
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
