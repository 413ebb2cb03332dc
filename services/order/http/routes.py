"""The operations on orders."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import BaseModel
from sse_starlette import EventSourceResponse

from eventlib.http import (
    HOW_CURRENT,
    PREFERENCE_APPLIED,
    IdempotencyKey,
    MinPosition,
    Prefer,
    Refusal,
    SagaApi,
    Shown,
    charge,
    documented,
    refused_field,
)
from eventlib.identity import Caller, Principal, Role, allow
from services.order.events import OrderSubmitted
from services.order.http.desk import Desk
from services.order.http.models import CustomerId, OrderDetail, OrderPage, ProductPage, Timeline, WantedOrder
from services.order.state import Status

_LIMIT = Query(ge=1, le=200, description="The most entries of a page.")
_ORDER_ID = Path(min_length=1, max_length=200, description="An order's id.", examples=["4f0c6c6e9b1f4f6f8d3a"])
_CURSOR = Query(min_length=1, max_length=300, description="`next_cursor` of the page before.")

OrderId = Annotated[str, _ORDER_ID]
_READERS = (Role.SHOP, Role.OPERATOR, Role.AUDITOR)
"""The roles that see every customer's orders."""
_NOT_FOR_CUSTOMERS = frozenset({"booking_key", "charge_key"})
"""Fields of events under which the gateway and the carrier are called: no customer's business."""
_LOCATION = {"Location": {"description": "Where the order is read.", "schema": {"type": "string"}}}


def order_routes(api: SagaApi[OrderSubmitted], desk: Desk) -> APIRouter:
    """Return the operations on orders and products."""
    routes = api.routes("orders")
    _add_writes(routes, api, desk)
    _add_reads(routes, api, desk)
    return routes


def _add_writes(routes: APIRouter, api: SagaApi[OrderSubmitted], desk: Desk) -> None:
    async def ended(request: Request, order_id: str) -> dict[str, str]:
        """Wait for an order's end if that is preferred, and return the header that says so."""
        return await api.reads.preferred(request, order_id, lambda: api.events.has_ended(order_id))

    @routes.post(
        "/orders",
        status_code=202,
        responses={
            202: {"model": OrderDetail, "headers": _LOCATION | PREFERENCE_APPLIED, "description": "It was placed."},
            **documented(400, 401, 403, 413, 415, 422, 429, 503),
        },
        summary="Place an order",
    )
    @allow(Role.CUSTOMER, Role.SHOP)
    async def place(
        request: Request,
        wanted: WantedOrder,
        caller: Caller,
        idempotency_key: IdempotencyKey = None,
        prefer: Prefer = None,
    ) -> Response:
        """Place an order at the catalogue's prices; the answer comes after the order service has decided.

        A customer places its own: `customer_id` may be left out.
        """
        del prefer  # read as it came, since it may stand in several headers
        charge(request, len(wanted.lines))
        accepted = await desk.place(_own(wanted, caller), idempotency_key, caller)
        applied = await ended(request, accepted.key)
        location = {"Location": f"/orders/{accepted.key}"}
        return _answer(202, desk.accepted(accepted), location | applied)

    @routes.post(
        "/orders/{order_id}/cancel",
        responses={
            200: {"model": OrderDetail, "headers": PREFERENCE_APPLIED, "description": "It is, or will be, cancelled."},
            202: {"model": OrderDetail, "headers": PREFERENCE_APPLIED, "description": "It is not decided yet."},
            **documented(401, 403, 404, 409, 422, 429, 503),
        },
        summary="Cancel an order",
    )
    @allow(Role.CUSTOMER, Role.SHOP)
    async def cancel(request: Request, order_id: OrderId, caller: Caller, prefer: Prefer = None) -> Response:
        """Ask to cancel an order; the answer comes when it is decided. Repeating is safe.

        Once the carrier has the order, it is refused with 409. As long as the carrier does not answer, that is unknown:
        then the answer is 202, and `cancellation` is `pending`.
        """
        del prefer  # as above
        await desk.refuse_unless_of(caller.only_customer(Role.SHOP), order_id)
        before = await desk.order(order_id)
        at = await desk.cancel(order_id, caller)
        applied = await ended(request, order_id)
        order = desk.cancelling(before, at)
        if order.reason is None and (order.cancellation == "refused" or order.ended_at is not None):
            detail = f"order {order_id} can no longer be cancelled: it is {order.status}"
            raise Refusal(409, "too-late", detail, headers=applied, extra={"order": order.model_dump(mode="json")})
        return _answer(200 if order.reason is not None else 202, order, applied)


def _add_reads(routes: APIRouter, api: SagaApi[OrderSubmitted], desk: Desk) -> None:
    reads = api.reads

    @routes.get("/orders/{order_id}", responses=_found(OrderDetail, 404, 422, 503), summary="Read an order")
    @allow(Role.CUSTOMER, *_READERS)
    async def order(order_id: OrderId, caller: Caller, min_position: MinPosition = None) -> Response:
        """Return an order as its owner has it."""
        await reads.wait_for(min_position)
        await desk.refuse_unless_of(caller.only_customer(*_READERS), order_id)
        current = await reads.how_current()
        return _answer(200, await desk.order(order_id), current)

    @routes.get("/orders", responses=_found(OrderPage, 422, 503), summary="List orders")
    @allow(Role.CUSTOMER, *_READERS)
    async def orders(
        caller: Caller,
        customer_id: Annotated[CustomerId | None, Query()] = None,
        status: Status | None = None,
        cursor: Annotated[str | None, _CURSOR] = None,
        limit: Annotated[int, _LIMIT] = 50,
        min_position: MinPosition = None,
    ) -> Response:
        """Return orders, the newest first; a customer's own. Orders that are placed meanwhile do not shift the pages."""
        only = caller.only_customer(*_READERS)
        if only is not None and customer_id not in {None, only}:
            raise refused_field("query", "customer_id", "is another customer: leave it out", "another-customer")
        await reads.wait_for(min_position)
        await reads.refuse_if_old()
        current = await reads.how_current()
        return _answer(200, desk.orders(customer_id if only is None else only, status, cursor, limit), current)

    @routes.get("/orders/{order_id}/timeline", responses=_found(Timeline, 404, 422, 503), summary="An order's history")
    @allow(Role.CUSTOMER, *_READERS)
    async def timeline(order_id: OrderId, caller: Caller, min_position: MinPosition = None) -> Response:
        """Return every event of an order's saga, with its cause and time."""
        await reads.wait_for(min_position)
        await desk.refuse_unless_of(caller.only_customer(*_READERS), order_id)
        current = await reads.how_current()
        has_ended, found = await api.events.timeline(order_id, _shown_to(caller))
        return _answer(200, Timeline.model_construct(order_id=order_id, ended=has_ended, events=found), current)

    @routes.get(
        "/orders/{order_id}/events",
        response_class=EventSourceResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream."},
            **documented(401, 403, 404, 422, 429, 503),
        },
        summary="Watch an order",
    )
    @allow(Role.CUSTOMER, *_READERS)
    async def events(
        request: Request,
        order_id: OrderId,
        caller: Caller,
        last_event_id: Annotated[str | None, Header(max_length=10_000, description="Go on after this one.")] = None,
        min_position: MinPosition = None,
    ) -> Response:
        """Stream an order's events, from the first one, as they happen; ends when the order has ended.

        `event` is the type, `data` the event as in the timeline. A client that comes back with the last id that it
        has seen, to whichever instance, gets what it has not seen.
        """
        await reads.wait_for(min_position)
        await desk.refuse_unless_of(caller.only_customer(*_READERS), order_id)
        return await api.events.stream(order_id, last_event_id, request.scope, _shown_to(caller))

    @routes.get("/products", responses=_found(ProductPage, 422, 503), summary="List products")
    @allow(Role.CUSTOMER, *_READERS)
    async def products(cursor: Annotated[str | None, _CURSOR] = None, limit: Annotated[int, _LIMIT] = 50) -> Response:
        """Return what is for sale, by SKU."""
        await reads.refuse_if_old()
        current = await reads.how_current()
        return _answer(200, desk.products(cursor, limit), current)


def _own(wanted: WantedOrder, caller: Principal) -> WantedOrder:
    """Return an order with the customer that the caller may order for. Raises: Refusal."""
    only = caller.only_customer(Role.SHOP)
    if only is None:
        return wanted
    if not only:
        raise Refusal(
            403, "no-customer", "the token names no customer to order for: see EVENTLIB_IDENTITY_CUSTOMER_CLAIM"
        )
    if wanted.customer_id not in {None, only}:
        raise refused_field("body", "customer_id", "is another customer: leave it out", "another-customer")
    return wanted.model_copy(update={"customer_id": only})


def _shown_to(caller: Principal) -> Shown:
    without = frozenset[str]() if caller.has(*_READERS) else _NOT_FOR_CUSTOMERS
    return Shown(without, personal=caller.sees_personal)


def _answer(status: int, model: BaseModel, headers: dict[str, str] | None = None) -> Response:
    return Response(model.model_dump_json(), status, headers, media_type="application/json")


def _found(model: type[BaseModel], *problems: int) -> dict[int | str, dict[str, Any]]:
    return {
        200: {"model": model, "headers": HOW_CURRENT, "description": "What was found."},
        **documented(401, 403, 429, *problems),
    }
