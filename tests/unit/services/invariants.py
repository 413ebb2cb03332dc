"""The invariants of the shop, on what a world's log, shelves and outside say."""

from collections import Counter

from eventlib.model.event import Event
from services.dispatch.events import CancelRefused, DispatchCancelled, DispatchRequested
from services.order.events import CancelSubmitted, OrderCancelled, OrderCompleted, OrderPlaced, OrderSubmitted
from services.payment.events import PaymentRefunded, PaymentTaken, PaymentVoided, PaymentWaived
from services.stock.events import StockReceived
from tests.unit.services.world import World

OFTEN = (OrderSubmitted, CancelSubmitted, CancelRefused)
"""What may stand on an order's story more than once; all else happens once, for each line where it has one."""


def hold_now(now: World) -> None:
    """Check what must hold at every moment: no unit appears or gets lost, and no more is refunded than was taken."""
    for place, events in now.log.items():
        match place:
            case ("stock.requests", sku):
                _units(now, sku, [event for event, _ in events])
            case ("payments", _):
                _money([event for event, _ in events])


def hold_at_rest(now: World) -> None:
    """Check what must hold when nothing is left to do."""
    completed = Counter[str]()
    for order_id in [key for topic, key in now.log if topic == "orders"]:
        story = [event for event, _ in now.said if getattr(event, "order_id", None) == order_id]
        _happened_once(story)
        placed = next(event for event in story if isinstance(event, OrderPlaced))
        end = next((event for event in story if isinstance(event, OrderCompleted | OrderCancelled)), None)
        assert end is not None, f"{order_id} has not ended: {now.state('order', order_id)}"
        _told_truly(now, order_id, end, story)
        if isinstance(end, OrderCompleted):
            for line in placed.lines:
                completed[line.sku] += line.quantity
        assert _taken(story) in {0, placed.amount_cents}
        kept = placed.amount_cents if isinstance(end, OrderCompleted) else 0
        assert now.gateway.kept(order_id) == _taken(story) - _refunded(story) == kept
        assert (order_id in now.carrier.parcels.values()) == isinstance(end, OrderCompleted)
    for name, sku in now.actors:
        if name == "shelf":
            shelf = now.state("shelf", sku)
            assert (shelf.reserved, shelf.shipped) == (0, completed[sku]), shelf


def _units(now: World, sku: str, events: list[Event]) -> None:
    handled = events[: now.actors["shelf", sku].read["stock.requests"]]
    received = sum(event.quantity for event in handled if isinstance(event, StockReceived))
    shelf = now.state("shelf", sku)
    assert min(shelf.on_hand, shelf.reserved, shelf.shipped) >= 0, shelf
    assert shelf.on_hand + shelf.reserved + shelf.shipped == received, shelf


def _money(events: list[Event]) -> None:
    assert 0 <= _refunded(events) <= _taken(events)


def _taken(events: list[Event]) -> int:
    return sum(event.amount_cents for event in events if isinstance(event, PaymentTaken | PaymentVoided))


def _refunded(events: list[Event]) -> int:
    return sum(event.amount_cents for event in events if isinstance(event, PaymentRefunded | PaymentVoided))


def _happened_once(story: list[Event]) -> None:
    steps = Counter((type(event).__name__, getattr(event, "line_no", 0)) for event in story if type(event) not in OFTEN)
    twice = {step for step, count in steps.items() if count > 1}
    assert not twice, f"happened twice: {twice}"
    happened: set[type[Event]] = {type(event) for event in story}
    assert not happened.issuperset({DispatchCancelled, DispatchRequested}), "asked the carrier for a cancelled order"
    assert not happened.issuperset({PaymentWaived, PaymentTaken}), "took money that was waived"


def _told_truly(now: World, order_id: str, end: OrderCompleted | OrderCancelled, story: list[Event]) -> None:
    order = now.state("order", order_id)
    assert order.status == ("completed" if isinstance(end, OrderCompleted) else "cancelled")
    assert (order.taken_cents, order.refunded_cents) == (_taken(story), _refunded(story))
    wishes = sum(isinstance(event, CancelSubmitted) for event in story)
    refusals = sum(isinstance(event, CancelRefused) for event in story)
    assert refusals <= wishes + 1, "refused more often than asked, the deadline included"
    assert refusals or not wishes or isinstance(end, OrderCancelled), "a wish to cancel was not answered"
    if isinstance(end, OrderCancelled):
        assert any(getattr(event, "reason", None) == end.reason for event in story if event is not end)
        assert end.refunded_cents == _refunded(story)
