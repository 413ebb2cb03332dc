"""The shelf decider reserves one product's units while they last; the delivery decider puts each delivery on its shelves."""

from eventlib import Decider, Event, replace
from services.stock.events import (
    DeliverySubmitted,
    LineRefused,
    LineReleased,
    LineReleaseRequested,
    LineRequested,
    LineReserved,
    LineShipped,
    StockReceived,
)
from services.stock.state import Delivery, Shelf

OUT_OF_STOCK = "out_of_stock"

shelves = Decider("shelf", state=Shelf, key="sku")
deliveries = Decider("delivery", state=Delivery, key="delivery_id")


@shelves.evolve
def count(shelf: Shelf, event: Event) -> Shelf:
    """Move units between on hand, reserved and shipped."""
    match event:
        case LineReserved(quantity=units):
            return replace(shelf, on_hand=shelf.on_hand - units, reserved=shelf.reserved + units)
        case LineShipped(quantity=units):
            return replace(shelf, reserved=shelf.reserved - units, shipped=shelf.shipped + units)
        case LineReleased(quantity=units):
            return replace(shelf, on_hand=shelf.on_hand + units, reserved=shelf.reserved - units)
        case StockReceived(quantity=units):
            return replace(shelf, on_hand=shelf.on_hand + units)
        case _:
            return shelf


@shelves.on
def reserve(shelf: Shelf, line: LineRequested) -> list[LineReserved | LineRefused]:
    """Reserve a line's units, all or none."""
    if line.quantity <= shelf.on_hand:
        return [LineReserved(order_id=line.order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)]
    return [
        LineRefused(
            order_id=line.order_id,
            line_no=line.line_no,
            sku=line.sku,
            quantity=line.quantity,
            available=shelf.on_hand,
            reason=OUT_OF_STOCK,
        )
    ]


@shelves.on
def release(_: Shelf, line: LineReleaseRequested) -> list[LineReleased]:
    """Put a line's units back."""
    return [LineReleased(order_id=line.order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)]


shelves.follows(StockReceived, LineShipped)


@deliveries.evolve
def remember(delivery: Delivery, event: Event) -> Delivery:
    """Remember that the units are on their shelves."""
    return replace(delivery, received=True) if isinstance(event, StockReceived) else delivery


@deliveries.on
def receive(delivery: Delivery, arrived: DeliverySubmitted) -> list[StockReceived]:
    """Emit one event for each line's shelf."""
    if delivery.received:
        return []
    return [StockReceived(sku=line.sku, quantity=line.quantity) for line in arrived.lines]
