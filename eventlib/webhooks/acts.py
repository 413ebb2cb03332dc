"""What operators do to a subscriber's deliveries: send parked ones again, give them up, replay, enable."""

from collections.abc import Sequence
from dataclasses import dataclass

from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.queries.stream import start_of
from eventlib.sinks.consuming import dropped_before, names_of_dropped, topic_partitions
from eventlib.values import to_ms
from eventlib.webhooks.ledger import Delivery, Ledger, change_ledger, read_ledger
from eventlib.webhooks.subscribers import Subscriber


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """How far a subscriber is: offsets that it lacks, None before its first start; deliveries that are retried, wait behind others, or failed.

    `lost` names what retention has dropped before it was delivered.
    """

    name: str
    lag: int | None
    retried: int
    waiting: int
    failed: int
    disabled: str | None
    first: Sequence[Delivery]
    lost: Sequence[str] = ()


async def status_of(log: EventLog, subscriber: Subscriber, shown: int) -> SubscriberStatus:
    """Return how far a subscriber is, with its first deliveries that have an error."""
    ledger = await read_ledger(log, subscriber.name)
    there = await log.port.topics()
    lag = 0
    for topic, partition in topic_partitions(subscriber.topics(log.choreography)):
        if topic in there and (topic, partition) in ledger.positions:
            lag += max(await log.port.end(topic, partition) - ledger.positions[topic, partition], 0)
    dropped = await dropped_before(log.port, subscriber.topics(log.choreography), ledger.positions)
    parked = [*ledger.parked.values()]
    erring = [each for each in parked if each.error is not None]
    failed = sum(each.has_failed for each in parked)
    return SubscriberStatus(
        subscriber.name,
        lag if ledger.positions else None,
        len(erring) - failed,
        len(parked) - len(erring),
        failed,
        ledger.disabled,
        sorted(erring, key=lambda each: not each.has_failed)[:shown],
        names_of_dropped(dropped, ledger.positions),
    )


async def retry(log: EventLog, name: str, delivery_id: str | None) -> int:
    """Let parked deliveries be tried at once, with all their attempts before them; return how many. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[Delivery]:
        found = _parked(ledger, name, delivery_id)
        for each in found:
            each.due_ms, each.attempts = 0, 0
        return found

    return await change_ledger(log, name, change)


async def discard(log: EventLog, name: str, delivery_id: str) -> int:
    """Give a parked delivery up, so that those behind it go on. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[Delivery]:
        found = _parked(ledger, name, delivery_id)
        for each in found:
            del ledger.parked[each.location]
        return found

    return await change_ledger(log, name, change)


async def enable(log: EventLog, name: str) -> None:
    """Let a subscriber that is disabled get events again, from where it was. Raises: WiringError."""

    async def change(ledger: Ledger) -> list[Delivery]:
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

    async def change(ledger: Ledger) -> list[Delivery]:
        nonlocal records
        records = 0
        for each in places:
            at = await _offset(each)
            ledger.positions[each] = at
            records += await port.end(*each) - at
        again = [each for each in ledger.parked.values() if each.offset >= ledger.positions.get(each.location[:2], 0)]
        for delivery in again:
            del ledger.parked[delivery.location]
        return again

    async def _offset(place: TopicPartition) -> int:
        match start:
            case "earliest":
                return await port.start(*place)
            case "latest":
                return await port.end(*place)
            case _:
                return await port.offset_at(*place, to_ms(start))

    await change_ledger(log, subscriber.name, change)
    return records


def _parked(ledger: Ledger, name: str, delivery_id: str | None) -> list[Delivery]:
    found = [each for each in ledger.parked.values() if each.error is not None and delivery_id in {None, each.id}]
    if delivery_id is not None and not found:
        raise WiringError(
            f"{delivery_id} is no parked delivery of subscriber {name} with an error: `eventlib webhook status` lists them"
        )
    return found
