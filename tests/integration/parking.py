"""What is parked on the small shop's log, and what became of it."""

from eventlib import EventLog
from eventlib.queries.parked import Parking, parkings
from eventlib.queries.sagas import find_saga
from eventlib.replay.amendments import amendments_of
from eventlib.runtime.records import JournalEntry
from tests.apps.small_shop import Ordered, settle
from tests.integration.reopening import events, everything


async def ordered(log: EventLog, order_id: str, *cents: int) -> None:
    for each in cents:
        await log.publish(Ordered(order_id=order_id, cents=each), idempotency_key=f"{order_id} {each}")
    await settle(log)


async def only_parking(log: EventLog) -> Parking:
    (parking,) = await parkings(log)
    return parking


async def charges(log: EventLog) -> list[int]:
    return [event.cents for event in await events(log, "charges") if hasattr(event, "cents")]


async def amended(log: EventLog, key: str) -> list[tuple[str, str, str, str, str]]:
    found = await amendments_of(log, await find_saga(log, key))
    return [(each.kind, each.event_type, each.by, each.reason, each.outcome) for each in found]


async def acts(log: EventLog, service: str = "orders") -> list[tuple[str, str]]:
    journal = [log.codec.decode(JournalEntry, r.value or b"") for r in await everything(log, f"{service}.journal")]
    done = [step for entry in journal for step in entry.steps]
    return [(step.kind, step.detail) for step in done if step.kind in {"edit", "discard", "release", "refuse"}]
