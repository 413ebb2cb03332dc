"""Thing over HTTP: place an order, confirm it, read where it is, watch its events."""

from eventlib import EventLog
from eventlib.http import SagaApi, documented
from eventlib.identity import Caller, Role, allow
from eventlib.queries import SagaIndex
from fastapi import FastAPI
from pydantic import BaseModel, Field

from .decider import orders
from .events import OrderConfirmed, OrderRequested
from .state import Order, Stage


class WantedOrder(BaseModel, extra="forbid"):
    """What a customer asks for; money is in cents."""

    amount_cents: int = Field(ge=1)


class ShownOrder(BaseModel):
    """Where it is."""

    stage: Stage
    is_confirmed: bool


def requested(order_id: str, wanted: WantedOrder) -> OrderRequested:
    """Return the request that begins an order's saga."""
    return OrderRequested(order_id=order_id, amount_cents=wanted.amount_cents)


def shown(state: Order) -> ShownOrder:
    """Return what a client sees of a state."""
    return ShownOrder(stage=state.stage, is_confirmed=state.is_confirmed)


def create_app(log: EventLog) -> FastAPI:
    """Return the API on a log; `eventlib run --http 8000` serves it."""
    api = SagaApi(SagaIndex(log, orders), OrderRequested, name="orders", title="Orders")
    routes = api.resource("/orders", requested, shown)

    @routes.post("/orders/{order_id}/confirmation", status_code=202, responses=documented(404, 422, 503))
    @allow(Role.SHOP)
    async def confirm(order_id: str, caller: Caller) -> dict[str, str]:
        """Confirm an order; repeating is safe."""
        if await api.events.first(order_id) is None:
            raise api.events.unknown(order_id)
        event = OrderConfirmed(order_id=order_id)
        place = await api.requests.publish(event, f"confirm/{order_id}", caller=caller)
        return {"order_id": order_id, "position": place.text}

    return api.include(routes)
