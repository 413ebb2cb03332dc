"""What operators do to a subscriber's deliveries: send parked ones again, give them up, replay, enable."""

from dataclasses import replace

from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.queries.stream import first_offset, start_of
from eventlib.sinks.consuming import ParkedEvent, Status, not_parked, status_of, topic_partitions
from eventlib.webhooks.ledger import Ledger, change_ledger, read_ledger
from eventlib.webhooks.subscribers import Subscriber


async def status(log: EventLog, subscriber: Subscriber, shown: int) -> Status:
    """Return how far a subscriber is, with its first deliveries that have an error."""
    ledger = await read_ledger(log, subscriber.name)
    parked = [*ledger.parked.values()]
    erring = sorted((each for each in parked if each.error is not None), key=lambda each: not each.has_failed)
    failed = sum(each.has_failed for each in parked)
    return replace(
        await status_of(log.port, subscriber.name, subscriber.topics(log.choreography), ledger.positions),
        retried=len(erring) - failed,
        waiting=len(parked) - len(erring),
        failed=failed,
        disabled=ledger.disabled,
        first=erring[:shown],
    )


async def retry(log: EventLog, name: str, delivery_id: str | None) -> int:
    """Let parked deliveries be tried at once, with all their attempts before them; return how many. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[ParkedEvent]:
        found = _parked(ledger, name, delivery_id)
        for each in found:
            each.due_ms, each.attempts = 0, 0
        return found

    return await change_ledger(log, name, change)


async def discard(log: EventLog, name: str, delivery_id: str) -> int:
    """Give a parked delivery up, so that those behind it go on. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[ParkedEvent]:
        found = _parked(ledger, name, delivery_id)
        for each in found:
            del ledger.parked[each.location]
        return found

    return await change_ledger(log, name, change)


async def enable(log: EventLog, name: str) -> None:
    """Let a subscriber that is disabled get events again, from where it was. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[ParkedEvent]:
        if ledger.disabled is None:
            raise WiringError(f"subscriber {name} is not disabled")
        ledger.disabled = None
        return []

    await change_ledger(log, name, change)


async def replay(log: EventLog, subscriber: Subscriber, since: str) -> int:
    """Deliver events again from a place on: earliest, latest or a time; return how many records that are.

    What is parked from there on comes again in its order; what is parked before it stays parked. Raises: WiringError,
    ContractError.
    """
    start = start_of(since)
    if isinstance(start, int):
        raise WiringError(
            f"--from {since}: offsets differ from partition to partition: write earliest, latest, or a time"
        )
    port, places, records = log.port, topic_partitions(subscriber.topics(log.choreography)), 0

    async def change(ledger: Ledger) -> list[ParkedEvent]:
        nonlocal records
        records = 0
        for each in places:
            at = await first_offset(port, each, start)
            ledger.positions[each] = at
            records += await port.end(*each) - at
        again = [each for each in ledger.parked.values() if each.offset >= ledger.positions.get(each.location[:2], 0)]
        for delivery in again:
            del ledger.parked[delivery.location]
        return again

    await change_ledger(log, subscriber.name, change)
    return records


def _parked(ledger: Ledger, name: str, delivery_id: str | None) -> list[ParkedEvent]:
    found = [each for each in ledger.parked.values() if each.error is not None and delivery_id in {None, each.id}]
    if delivery_id is not None and not found:
        raise not_parked(delivery_id, "webhook", name)
    return found
