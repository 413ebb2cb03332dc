"""Which sagas are under way: from their first event on, until one that ends them, whatever else comes meanwhile."""

from eventlib import Event, EventLog, open_log
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.replay.in_flight import InFlightSagas
from services import shop
from services.order.events import OrderCancelled, OrderCompleted, OrderPlaced


async def happens(log: EventLog, event: type[Event], order: str, saga: str | None, source: str = "order/order") -> None:
    contract = contract_of(event)
    attributes = f"{contract.type} of {order}", contract.type, source, order, 1, saga
    await log.port.append([Record(contract.topic.name, 0, -1, 1, order.encode(), b"", *attributes)])


async def test_a_saga_is_in_flight_until_an_event_ends_it() -> None:
    async with open_log("memory://", shop) as log:
        for order in ("a", "b", "c"):
            await happens(log, OrderPlaced, order, f"saga {order}")
        await happens(log, OrderCompleted, "c", "saga c")
        await happens(log, OrderPlaced, "d", None)
        await happens(log, OrderPlaced, "e", "saga e", source="elsewhere/order")
        found = InFlightSagas(log)
        assert await found.find() == {"saga a": "a", "saga b": "b"}
        await happens(log, OrderCancelled, "a", "saga a")
        await happens(log, OrderPlaced, "b", "saga b")
        await found.land()
        assert found.keys == {"saga b": "b"}, "only what ends a saga has ended it"
