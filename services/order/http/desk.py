"""Orders over HTTP: puts them and wishes to cancel on the log, waits for what becomes of them, and reads them."""

import re
from contextlib import suppress
from functools import partial

from eventlib import EventlibError
from eventlib.http import Accepted, Refusal, RequestPlace, SagaApi, refused_field, try_later
from eventlib.identity import Principal
from services.order.events import CancelSubmitted, OrderLine, OrderSubmitted, ProductListed
from services.order.http.models import (
    Line,
    OrderDetail,
    OrderPage,
    OrderSummary,
    Product,
    ProductPage,
    WantedOrder,
    cancellation_of,
    facts_of,
)
from services.order.index import Found, OrderIndex
from services.order.state import Order, Status

_CURSOR = re.compile(r"([0-9]{1,15})-(.{1,200})", re.DOTALL)


class Desk:
    """Takes requests in, each once, at the catalogue's prices of its first time; answers from the index.

    Cost: each answer costs what it says; none scans the log or the index.
    """

    def __init__(self, index: OrderIndex, api: SagaApi[OrderSubmitted]) -> None:
        self._index = index
        self._api = api
        api.metrics.declare("cancels_accepted", "Wishes to cancel put on the log.")

    async def place(
        self, wanted: WantedOrder, idempotency_key: str | None, caller: Principal
    ) -> Accepted[OrderSubmitted]:
        """Place an order once, wait for its decision, and return what was accepted, whether or not it is decided.

        An idempotency key is the caller's own. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        make = partial(self._order_of, wanted)
        return await self._api.submit(wanted, idempotency_key, caller, make, work=len(wanted.lines))

    async def cancel(self, order_id: str, caller: Principal) -> RequestPlace | None:
        """Ask to cancel an order that there is, wait for its outcome, and return the request's place on the log.

        None when that was settled before. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        found = await self._placed(order_id)
        if found is not None and (found.order.ended_at is not None or found.order.reason):
            return None
        place = await self._api.requests.publish(
            CancelSubmitted(order_id=order_id), f"http/cancel/{order_id}", caller=caller
        )
        self._api.metrics.count("cancels_accepted")
        with suppress(EventlibError):  # what is on the log is accepted, whatever becomes of the index
            if await self._api.requests.decided(place):
                wait_s = self._api.config.decision_s
                await self._index.until(order_id, lambda: self._is_settled(order_id), wait_s)
        return place

    async def _placed(self, order_id: str) -> Found | None:
        """Return an order that was submitted, perhaps just now; None when it is not decided yet."""
        found, submitted = self._index.order(order_id), self._index.first(order_id, OrderSubmitted)
        if found is None and submitted is not None:
            await self._api.requests.decided(RequestPlace.of(submitted))
            found = self._index.order(order_id)
        return found

    def _is_settled(self, order_id: str) -> bool:
        found = self._index.order(order_id)
        return found is not None and cancellation_of(found.order) != "pending"

    async def _order_of(self, wanted: WantedOrder, order_id: str) -> OrderSubmitted | Accepted[OrderSubmitted]:
        """Return the request for an order; what was accepted before, if only now that shows.

        Raises: Refusal, by the log as it is now, not as an index that is behind had it; ProjectionBehind.
        """
        try:
            return self._priced(wanted, order_id)
        except Refusal:
            await self._api.events.first(order_id)
            await self._index.knows_products([line.sku for line in wanted.lines], self._api.config.decision_s)
        return await self._api.requests.repeated(order_id, wanted) or self._priced(wanted, order_id)

    def _priced(self, wanted: WantedOrder, order_id: str) -> OrderSubmitted:
        lines = list[OrderLine]()
        for number, line in enumerate(wanted.lines):
            product = self._index.product(line.sku)
            if product is None:
                raise refused_field("body", f"lines[{number}].sku", f"{line.sku!r} is not for sale", "unknown-product")
            _refuse_other_currency(product, wanted, number)
            price = product.unit_price_cents
            lines.append(OrderLine(line_no=number + 1, sku=line.sku, quantity=line.quantity, unit_price_cents=price))
        if not any(line.unit_price_cents for line in lines):
            raise refused_field("body", "lines", "there is nothing to pay: every product is free", "nothing-to-pay")
        return OrderSubmitted(
            order_id=order_id,
            customer_id=wanted.customer_id,
            country=wanted.country,
            currency=wanted.currency,
            lines=tuple(lines),
            placed_at=None,
        )

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


def _refuse_other_currency(product: ProductListed, wanted: WantedOrder, number: int) -> None:
    if product.currency != wanted.currency:
        sentence = f"lines[{number}] is sold in {product.currency}, not in {wanted.currency}"
        raise refused_field("body", "currency", sentence, "currency")


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
