"""The delivery decider: puts each delivery on its shelves, once."""

from eventlib import Decider, Event, replace
from services.stock.events import DeliverySubmitted, StockReceived
from services.stock.state import Delivery

deliveries = Decider("delivery", state=Delivery, key="delivery_id")


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
