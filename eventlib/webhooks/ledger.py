"""How far a subscriber is, and its parked deliveries: records of the topic `_webhooks`, written under a claim."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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


def ledger_records(
    name: str,
    positions: Mapping[TopicPartition, int],
    disabled: str | None,
    parked: Iterable[ParkedEvent],
    done: Iterable[Location],
) -> list[Record]:
    """Return the records that move a subscriber's position, park deliveries, and end parked ones."""
    ends = dict[str, dict[str, int]]()
    for (topic, partition), offset in positions.items():
        ends.setdefault(topic, {})[str(partition)] = offset
    values: dict[bytes, object] = {_key(name, "position"): {"next": ends, "disabled": disabled}}
    values |= {_key(name, "parked", each.id): asdict(each) for each in parked}
    values |= {_key(name, "parked", *map(str, location)): None for location in done}
    return [
        Record(WEBHOOKS.name, 0, -1, now_ms(), key, None if value is None else json.dumps(value).encode())
        for key, value in values.items()
    ]


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
        parked = [each for each in changed if each.location in ledger.parked]
        done = before - set(ledger.parked)
        await log.port.append(ledger_records(name, ledger.positions, ledger.disabled, parked, done), claim)
        return len(changed)

    return await seizing(changed)


def _key(*parts: str) -> bytes:
    return "/".join(parts).encode()
