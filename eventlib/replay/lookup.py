"""Finds events by their ids, or the beginnings of them, in pasts; and says where one is that has no part in them."""

from collections.abc import Sequence
from typing import Any

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.inspection.decoding import event_topics
from eventlib.log.chunks import chunks
from eventlib.log.port import Record, key_text
from eventlib.replay.past import KeyPast
from eventlib.replay.steps import HistoryStep

_SHORTEST = 6
"""How many characters of an event's id have to be given."""


def ids_of(step: HistoryStep[Any]) -> set[str]:
    """Return the ids of the events that a decider met in a step: what it handled or refused, and what it said."""
    met = {"handled", "dropped", "parked", "discarded"}
    came = {step.input.id} if step.input is not None and step.kind in met else set[str]()
    return came | {said.id for said in step.said}


def full_id(pasts: Sequence[KeyPast], given: str) -> str:
    """Return the id in these pasts that begins as given; what is given if there is none. Raises: ContractError."""
    ids = {event_id for past in pasts for step in past.steps for event_id in ids_of(step)}
    found = sorted(event_id for event_id in ids if event_id.startswith(given))
    if given in found or not found:
        return given
    if len(found) > 1 or len(given) < _SHORTEST:
        raise ContractError(f"{given!r} may be {' or '.join(found[:4])}: write more of the event's id")
    return found[0]


async def why_unknown(log: EventLog, pasts: Sequence[KeyPast], event_id: str) -> str:
    """Return why an event has no part in these pasts: where it is instead, or that there is none."""
    key = pasts[0].key
    names = " and ".join(past.decider.name for past in pasts)
    event = await _find(log, event_id)
    if event is None:
        return (
            f"no event on this log has the id {event_id!r}, and it is no time such as 2026-01-31T12:00:00Z: "
            f"`eventlib history {pasts[0].decider.name} {key}` shows what {names} had to do with"
        )
    said = f", said by {event.source}" if event.source else ""
    return (
        f"{names} had nothing to do with {event.type} {event.event_id} under key {key!r}: it is an event of key "
        f"{key_text(event)!r} on {event.topic}{said}"
    )


async def _find(log: EventLog, event_id: str) -> Record | None:
    """Look for an event on the whole log, for a message that says where it is."""
    for topic in event_topics(log):
        for partition in range(topic.partitions):
            place = topic.name, partition
            async for records in chunks(log.port, place, await log.port.start(*place)):
                for record in records:
                    if record.event_id.startswith(event_id):
                        return record
    return None
