"""What a decider knew of a key at a moment: a time, or an event that it handled or said."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.inspection.decoding import event_topics
from eventlib.inspection.state import KnownState, known_state
from eventlib.log.port import Record
from eventlib.replay.past import KeyPast, past_of_key
from eventlib.replay.steps import HistoryStep
from eventlib.runtime.parking import key_text
from eventlib.times import time_of, to_ms

_CHUNK = 2_000
SHORTEST_ID = 6
"""How many characters of an event's id have to be given."""


def moment_of(text: str) -> datetime | str:
    """Return text as a moment: a time (UTC) if it is one, else an event's id."""
    try:
        return time_of(text)
    except ContractError:
        return text


async def state_at(log: EventLog, decider_name: str, key: str, moment: datetime | str) -> KnownState:
    """Return what a decider knew of a key: when its task had handled everything by a time, or after an event.

    A time (UTC) takes in every transaction of that millisecond. An event, by its id or the beginning of it, takes in
    the last step in which the decider handled it, or said it.
    Guarantee: equal to what was recorded live at that moment, as long as evolve is what it was.
    Raises: WiringError for an unknown decider; ContractError when the decider knows nothing of the key, or knew
    nothing then; for an event that it has nothing to do with; when retention has dropped what it takes to know.
    """
    return await state_in(log, await past_of_key(log, log.choreography.decider(decider_name), key), moment)


async def state_in(log: EventLog, past: KeyPast, moment: datetime | str) -> KnownState:
    """Return what a decider knew at a moment of a past that was read. Raises: ContractError as `state_at` does."""
    step = await step_of_event(log, past, moment) if isinstance(moment, str) else step_by(past, moment)
    until = past.steps[: past.steps.index(step) + 1]
    changed = [each.at for each in until if each.entry_after is not each.entry_before]
    if not changed:
        raise ContractError(
            f"{past.decider.name} had handled nothing of {past.key!r} then: it was {step.kind} ({step.reason})"
        )
    return known_state(log, past.decider, past.key, step.entry_after, changed[-1])


def step_by(past: KeyPast, at: datetime) -> HistoryStep[Any]:
    """Return the last step of a key by a time. Raises: ContractError when its first one was later."""
    at_ms = to_ms(at)
    steps = [step for step in past.steps if to_ms(step.at) <= at_ms]
    if not steps:
        raise ContractError(
            f"{past.decider.name} knew nothing of {past.key!r} then: the first that it heard of it was at "
            f"{past.steps[0].at.isoformat(timespec='milliseconds')}"
        )
    return steps[-1]


async def step_of_event(log: EventLog, past: KeyPast, event_id: str) -> HistoryStep[Any]:
    """Return the last step that an event had a part in, by its id or the beginning of it. Raises: ContractError."""
    whole = full_id([past], event_id)
    steps = [step for step in past.steps if whole in _ids(step)]
    if not steps:
        raise ContractError(await why_unknown(log, [past], event_id))
    return steps[-1]


def full_id(pasts: Sequence[KeyPast], given: str) -> str:
    """Return the id in these pasts that begins as given; what is given if there is none. Raises: ContractError."""
    ids = {event_id for past in pasts for step in past.steps for event_id in _ids(step)}
    found = sorted(event_id for event_id in ids if event_id.startswith(given))
    if given in found or not found:
        return given
    if len(found) > 1 or len(given) < SHORTEST_ID:
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
            f"`eventlib history {pasts[0].decider.name} {key}` shows those that {names} had to do with"
        )
    said = f", said by {event.source}" if event.source else ""
    return (
        f"{names} had nothing to do with {event.type} {event.event_id} under key {key!r}: it is an event of key "
        f"{key_text(event)!r} on {event.topic}{said}"
    )


def _ids(step: HistoryStep[Any]) -> set[str]:
    came = {step.input.id} if step.input is not None and step.kind not in {"answered", "stalled", "retried"} else set()
    return came | {said.id for said in step.said}


async def _find(log: EventLog, event_id: str) -> Record | None:
    """Look for an event on the whole log, for a message that says where it is."""
    for topic in event_topics(log):
        for partition in range(topic.partitions):
            offset = await log.port.start(topic.name, partition)
            while records := await log.port.read(topic.name, partition, offset, _CHUNK):
                offset = records[-1].offset + 1
                for record in records:
                    if record.event_id.startswith(event_id):
                        return record
    return None
