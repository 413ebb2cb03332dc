"""Dispatch's live view: how long orders take from the customer's click to the carrier.

`faust -A services.dispatch.views worker`, or `eventlib live --service dispatch`.
"""

from datetime import timedelta
from functools import partial

from eventlib.live import Keeping, LiveApp, RecordedStream, Row, with_known
from services import shop
from services.dispatch.events import OrderDispatched
from services.order.events import OrderPlaced

day = timedelta(days=1)


def time_to_dispatch(row: Row) -> tuple[str, Row] | None:
    """Return an order's country and time to dispatch, or None until both times are known."""
    if not {"placed_ms", "dispatched_ms"} <= row.keys():
        return None
    took_ms = row["dispatched_ms"] - row["placed_ms"]
    within = {f"within_{seconds}_s": int(took_ms <= seconds * 1000) for seconds in (1, 10, 60, 3600)}
    return row["country"], {"orders": 1, "took_ms": took_ms, "slowest_ms": took_ms, **within}


app = LiveApp(shop, "dispatch")
shipping = app.joined(
    "shipping",
    Keeping(30 * day, 7 * day, sources=2),
    ends=lambda row: row.get("dispatched_ms"),
    complete=time_to_dispatch,
    sums="times-to-dispatch",
)


@app.watch(OrderPlaced, OrderDispatched)
async def ship(stream: RecordedStream) -> None:
    """Join placed with dispatched orders (stream to stream)."""
    async for recorded in stream:
        at = recorded.origin.at_ms
        match recorded.event:
            case OrderPlaced(order_id=order_id, country=country):
                shipping.add(order_id, recorded.origin, partial(with_known, country=country, placed_ms=at))
            case OrderDispatched(order_id=order_id):
                shipping.add(order_id, recorded.origin, partial(with_known, dispatched_ms=at))
