"""The operations on orders."""

import re
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel
from sse_starlette import EventSourceResponse

from eventlib import EventlibError
from eventlib.http import StrictRoute
from services.order.http.config import ApiConfig
from services.order.http.desk import Desk
from services.order.http.health import Health
from services.order.http.models import CustomerId, OrderDetail, OrderPage, ProductPage, Timeline, WantedOrder
from services.order.http.problems import Refusal, documented
from services.order.http.reading import Reading
from services.order.http.streaming import Streaming
from services.order.state import Status

_WAIT = re.compile(r"""(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?=[;,]|$)""", re.IGNORECASE)
_LIMIT = Query(ge=1, le=200, description="The most entries of a page.")
_ORDER_ID = Path(min_length=1, max_length=200, description="An order's id.", examples=["4f0c6c6e9b1f4f6f8d3a"])
_CURSOR = Query(min_length=1, max_length=300, description="`next_cursor` of the page before.")

OrderId = Annotated[str, _ORDER_ID]
MinPosition = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{1,6}-[0-9]{1,15}(-[0-9]{1,15})?$",
        description="The `position` of an answer: the read waits until it shows at least what was said there.",
        examples=["3-17"],
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="Makes repeating safe: one key leads to one order, and its `order_id` follows from it.",
        examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ),
]
Prefer = Annotated[
    list[str] | None,
    Header(description="RFC 7240: with `wait=5` the answer comes when the order has ended, or after 5 seconds."),
]
_PREFERENCE_APPLIED = {
    "Preference-Applied": {"description": "`wait=…`, when it was asked for.", "schema": {"type": "string"}}
}
_HOW_CURRENT = {
    "Staleness-Ms": {
        "description": "All that was on the log so many milliseconds ago is in this answer.",
        "schema": {"type": "integer"},
    },
    "Damaged-Records": {
        "description": "So many records are damaged on the log, and what they said may be missing from this answer.",
        "schema": {"type": "integer"},
    },
}
_LOCATION = {"Location": {"description": "Where the order is read.", "schema": {"type": "string"}}}


class Api(NamedTuple):
    """What the operations are made of."""

    desk: Desk
    reading: Reading
    streaming: Streaming
    config: ApiConfig


def order_routes(api: Api, health: Health) -> APIRouter:
    """Return the operations on orders and products."""
    routes = APIRouter(tags=["orders"], route_class=StrictRoute, dependencies=[Depends(health.current)])
    _add_writes(routes, api)
    _add_reads(routes, api)
    return routes


def _add_writes(routes: APIRouter, api: Api) -> None:
    desk, reading = api.desk, api.reading

    async def ended(request: Request, order_id: str) -> dict[str, str]:
        """Wait for an order's end if that is preferred, and return the header that says so."""
        wait = _WAIT.search(", ".join(request.headers.getlist("prefer")))
        if wait is None:
            return {}
        with suppress(EventlibError):  # what was accepted is answered, whatever becomes of the index
            await reading.ended(order_id, min(float(wait[1]), api.config.longest_wait_s))
        return {"Preference-Applied": f"wait={int(wait[1])}"}

    @routes.post(
        "/orders",
        status_code=202,
        responses={
            202: {"model": OrderDetail, "headers": _LOCATION | _PREFERENCE_APPLIED, "description": "It was placed."},
            **documented(400, 413, 415, 422, 503),
        },
        dependencies=[Depends(_json_only)],
        summary="Place an order",
    )
    async def place(
        request: Request, wanted: WantedOrder, idempotency_key: IdempotencyKey = None, prefer: Prefer = None
    ) -> Response:
        """Place an order at the catalogue's prices; the answer comes after the order service has decided."""
        del prefer  # read as it came, since it may stand in several headers
        accepted = await desk.place(wanted, idempotency_key)
        applied = await ended(request, accepted.order_id)
        location = {"Location": f"/orders/{accepted.order_id}"}
        return _answer(202, reading.accepted(accepted), location | applied)

    @routes.post(
        "/orders/{order_id}/cancel",
        responses={
            200: {"model": OrderDetail, "headers": _PREFERENCE_APPLIED, "description": "It is, or will be, cancelled."},
            202: {"model": OrderDetail, "headers": _PREFERENCE_APPLIED, "description": "It is not decided yet."},
            **documented(404, 409, 422, 503),
        },
        summary="Cancel an order",
    )
    async def cancel(request: Request, order_id: OrderId, prefer: Prefer = None) -> Response:
        """Ask to cancel an order; the answer comes when it is decided. Repeating is safe.

        Once the carrier has the order, it is refused with 409. As long as the carrier does not answer, nobody knows:
        then the answer is 202, and `cancellation` is `pending`.
        """
        del prefer  # as above
        before = await reading.order(order_id)
        at = await desk.cancel(order_id)
        applied = await ended(request, order_id)
        order = reading.cancelling(before, at)
        if order.reason is None and (order.cancellation == "refused" or order.ended_at is not None):
            detail = f"order {order_id} can no longer be cancelled: it is {order.status}"
            raise Refusal(409, "too-late", detail, headers=applied, extra={"order": order.model_dump(mode="json")})
        return _answer(200 if order.reason is not None else 202, order, applied)


def _add_reads(routes: APIRouter, api: Api) -> None:
    reading = api.reading

    async def how_current() -> dict[str, str]:
        """Return the headers that say how old an answer is at most, and what it may lack; to be asked for before it is made."""
        damaged = {"Damaged-Records": str(reading.damaged)} if reading.damaged else {}
        return {"Staleness-Ms": str(await reading.age_ms()), **damaged}

    @routes.get("/orders/{order_id}", responses=_found(OrderDetail, 404, 422, 503), summary="Read an order")
    async def order(order_id: OrderId, min_position: MinPosition = None) -> Response:
        """Return an order as its owner has it."""
        await reading.wait_for(min_position)
        current = await how_current()
        return _answer(200, await reading.order(order_id), current)

    @routes.get("/orders", responses=_found(OrderPage, 422, 503), summary="List orders")
    async def orders(
        customer_id: Annotated[CustomerId | None, Query()] = None,
        status: Status | None = None,
        cursor: Annotated[str | None, _CURSOR] = None,
        limit: Annotated[int, _LIMIT] = 50,
        min_position: MinPosition = None,
    ) -> Response:
        """Return orders, the newest first. Orders that are placed meanwhile do not shift the pages."""
        await reading.wait_for(min_position)
        await reading.refuse_if_old()
        current = await how_current()
        return _answer(200, reading.orders(customer_id, status, cursor, limit), current)

    @routes.get("/orders/{order_id}/timeline", responses=_found(Timeline, 404, 422, 503), summary="An order's history")
    async def timeline(order_id: OrderId, min_position: MinPosition = None) -> Response:
        """Return every event of an order's saga, with its cause and time."""
        await reading.wait_for(min_position)
        current = await how_current()
        return _answer(200, await reading.timeline(order_id), current)

    @routes.get(
        "/orders/{order_id}/events",
        response_class=EventSourceResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream."},
            **documented(404, 422, 503),
        },
        summary="Watch an order",
    )
    async def events(
        order_id: OrderId,
        last_event_id: Annotated[str | None, Header(max_length=10_000, description="Go on after this one.")] = None,
        min_position: MinPosition = None,
    ) -> Response:
        """Stream an order's events, from the first one, as they happen; ends when the order has ended.

        `event` is the type, `data` the event as in the timeline. A client that comes back with the last id that it
        has seen, to whichever instance, gets what it has not seen.
        """
        await reading.wait_for(min_position)
        return await api.streaming.stream(order_id, last_event_id)

    @routes.get("/products", responses=_found(ProductPage, 422, 503), summary="List products")
    async def products(cursor: Annotated[str | None, _CURSOR] = None, limit: Annotated[int, _LIMIT] = 50) -> Response:
        """Return what is for sale, by SKU."""
        await reading.refuse_if_old()
        current = await how_current()
        return _answer(200, reading.products(cursor, limit), current)


async def _json_only(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "no-json", "send the order as application/json", headers={"Accept-Post": "application/json"})


def _answer(status: int, model: BaseModel, headers: dict[str, str] | None = None) -> Response:
    return Response(model.model_dump_json(), status, headers, media_type="application/json")


def _found(model: type[BaseModel], *problems: int) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "headers": _HOW_CURRENT, "description": "What was found."}, **documented(*problems)}
