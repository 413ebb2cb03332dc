"""How far a subscriber is, and its parked deliveries: records of the topic `_webhooks`, written under a claim."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.seizing import seizing
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.sinks.consuming import Location, ParkedEvent
from eventlib.values import now_ms

WEBHOOKS = Topic("_webhooks", partitions=1, compacted=True)
"""The positions and the parked deliveries of all subscribers."""

_PLACE = (WEBHOOKS.name, 0)


@dataclass(slots=True)
class Ledger:
    """What the log has of one subscriber; `disabled` is why nothing is sent to it."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    disabled: str | None = None
    parked: dict[Location, ParkedEvent] = field(default_factory=dict)


Change = Callable[[Ledger], Awaitable[Sequence[ParkedEvent]]]
"""What an operator does to a ledger; it returns the deliveries that this is about."""


def service_of(name: str) -> str:
    """Return the name under which the processes of a subscriber share its work."""
    return f"_webhook.{name}"


async def read_ledger(log: EventLog, name: str) -> Ledger:
    """Return a subscriber's ledger as of now: with what every claim that has ended has written."""
    if WEBHOOKS.name not in await log.port.topics():
        return Ledger()
    await log.port.decided_end(*_PLACE)
    kept = dict[bytes, bytes]()
    await log.port.newest(_PLACE, await log.port.start(*_PLACE), kept, None)
    position = json.loads(kept.get(_key(name, "position"), b"{}"))
    ledger = Ledger(disabled=position.get("disabled"))
    ledger.positions = {
        (topic, int(part)): at for topic, ends in position.get("next", {}).items() for part, at in ends.items()
    }
    begin = _key(name, "parked", "")
    found = [ParkedEvent(**json.loads(value)) for key, value in kept.items() if key.startswith(begin)]
    ledger.parked = {each.location: each for each in sorted(found, key=lambda each: each.location)}
    return ledger


def position_record(name: str, positions: Mapping[TopicPartition, int], disabled: str | None) -> Record:
    """Return the record that moves a subscriber's position."""
    ends = dict[str, dict[str, int]]()
    for (topic, partition), offset in positions.items():
        ends.setdefault(topic, {})[str(partition)] = offset
    return _record(_key(name, "position"), {"next": ends, "disabled": disabled})


def parked_record(name: str, delivery: ParkedEvent) -> Record:
    """Return the record of a parked delivery."""
    return _record(_key(name, "parked", delivery.id), asdict(delivery))


def unparked_record(name: str, location: Location) -> Record:
    """Return the record that ends a parked delivery."""
    return _record(_key(name, "parked", "/".join(map(str, location))), None)


async def change_ledger(log: EventLog, name: str, change: Change) -> int:
    """Let an operator change a subscriber's ledger, and return how many deliveries that was about.

    The process that works for it loses it for a moment, and goes on with what is changed; what it has sent meanwhile, it
    sends again, with the same id. Raises: OwnershipLost when others kept taking it; what `change` raises.
    """
    await log.port.create_topics([WEBHOOKS])

    async def changed() -> int:
        claim = await log.port.seize(service_of(name), 0)
        ledger = await read_ledger(log, name)
        before = set(ledger.parked)
        changed = await change(ledger)
        records = [parked_record(name, each) for each in changed if each.location in ledger.parked]
        gone = [unparked_record(name, location) for location in before - set(ledger.parked)]
        await log.port.append([position_record(name, ledger.positions, ledger.disabled), *records, *gone], claim)
        return len(changed)

    return await seizing(changed)


def _key(*parts: str) -> bytes:
    return "/".join(parts).encode()


def _record(key: bytes, value: object) -> Record:
    content = None if value is None else json.dumps(value).encode()
    return Record(WEBHOOKS.name, 0, -1, now_ms(), key, content)
