"""Stock's live views: the units on each shelf, and the shelves that run low.

`faust -A services.stock.views worker`, or `eventlib live --service stock`.
"""

from functools import partial
from typing import Any

from eventlib.live import CarriedStream, LiveApp, Origin, RecordedStream, Row, added
from eventlib.values import from_ms
from services import shop
from services.order.events import ProductDelisted, ProductListed
from services.stock.events import LineReleased, LineReserved, ShelfRunningLow, StockReceived

LOW = 20
"""A shelf with this many free units or fewer runs low."""

app = LiveApp(shop, "stock")
by_sku = app.carry("by-sku")
alerts = app.publisher("running-low", ShelfRunningLow)
shelves = app.rows("shelves")


@app.watch(ProductListed, ProductDelisted, StockReceived)
async def fill(stream: RecordedStream) -> None:
    """Keep each product's description and delivered units."""
    async for recorded in stream:
        origin = recorded.origin
        match recorded.event:
            case ProductListed(sku=sku, description=description):
                await _shelve(sku, origin, partial(_named, description=description))
            case ProductDelisted(sku=sku):
                await _shelve(sku, origin, partial(_named, description=None))
            case StockReceived(sku=sku, quantity=units):
                await _shelve(sku, origin, partial(added, amounts={"received": units}))


@app.watch(LineReserved, LineReleased)
async def pass_on(stream: RecordedStream) -> None:
    """Repartition the answers to orders by product."""
    async for recorded in stream:
        match recorded.event:
            case LineReserved(sku=sku, quantity=units):
                await by_sku.send(sku, {"reserved": units}, recorded.origin)
            case LineReleased(sku=sku, quantity=units):
                await by_sku.send(sku, {"released": units}, recorded.origin)


@by_sku.watch
async def take(stream: CarriedStream) -> None:
    """Join the lines with their products and deliveries (stream to table), and sum them."""
    async for carried in stream:
        await _shelve(carried.key, carried.origin, partial(added, amounts=dict(carried.value)))


async def _shelve(sku: str, origin: Origin, change: Any) -> None:
    """Fold an event into its shelf's row, and alert when it made the shelf run low (table to stream)."""
    row = shelves.fold(sku, origin, lambda row: _judged(change(row), origin)).row
    if row.get("low_by") == [origin.partition, origin.offset]:
        running_low = ShelfRunningLow(sku=sku, description=row.get("description"), free=row["low_at"])
        about = f"{sku}/{origin.partition}/{origin.offset}"
        await alerts.tell(running_low, about=about, at=from_ms(origin.at_ms))


def _named(row: Row, description: str | None) -> Row:
    return {**row, "description": description}


def _judged(row: Row, origin: Origin) -> Row:
    """Compute the free units; record which event made the shelf run low, so that its alert is sent again."""
    received = row.get("received", 0)
    free = received - row.get("reserved", 0) + row.get("released", 0)
    low = received > 0 and free <= LOW
    alert = {"low_by": [origin.partition, origin.offset], "low_at": free} if low and not row.get("low") else {}
    return {**row, "free": free, "low": low, **alert}
