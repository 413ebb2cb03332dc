"""States of deciders at a point in time: a time, or an event that was handled or emitted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from eventlib.errors import ContractError, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.log.base import Record, key_text
from eventlib.log.reading import chunks
from eventlib.model.event import contract_of
from eventlib.model.saga import Saga
from eventlib.queries.decoding import event_topics
from eventlib.queries.state import KnownState, known_state
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.steps import HistoryStep
from eventlib.values import time_of, to_ms

_SHORTEST = 6
"""How many characters of an event's id have to be given."""


def ids_of(step: HistoryStep[Any]) -> set[str]:
    """Return the ids of the events that a decider met in a step: what it handled or refused, and what it said."""
    met = {"handled", "dropped", "parked", "discarded"}
    came = {step.input.id} if step.input is not None and step.kind in met else set[str]()
    return came | {said.id for said in step.said}


def full_id(pasts: Sequence[KeyHistory], given: str) -> str:
    """Return the id in these pasts that begins as given; what is given if there is none. Raises: ContractError."""
    ids = {event_id for past in pasts for step in past.steps for event_id in ids_of(step)}
    found = sorted(event_id for event_id in ids if event_id.startswith(given))
    if given in found or not found:
        return given
    if len(found) > 1 or len(given) < _SHORTEST:
        raise ContractError(f"{given!r} may be {' or '.join(found[:4])}: write more of the event's id")
    return found[0]


async def why_unknown(log: EventLog, pasts: Sequence[KeyHistory], event_id: str) -> str:
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


Steps = Sequence[HistoryStep[Any]]


class SagaSnapshot(NamedTuple):
    """How a key stood under a decider: what was known of it, and why it, or an effect of it, waited for a person.

    `known` is None as long as all that came was parked. `doubt` is what is to be said about the past that it was
    folded from; see KeyPast.
    """

    decider: str
    known: KnownState | None
    waits: str
    doubt: str


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
    Raises: WiringError for an unknown decider; UnknownKey when it knew nothing of the key then; ContractError for an
    event that it has nothing to do with, or when retention has dropped what it takes to know.
    """
    return known_in(await standing_at(log, decider_name, key, moment))


def known_in(standing: SagaSnapshot) -> KnownState:
    """Return what was known. Raises: UnknownKey when all that had come was parked or dropped."""
    if standing.known is None:
        raise UnknownKey(
            f"{standing.decider} had handled nothing of the key then: {standing.waits or 'all was dropped'}"
        )
    return standing.known


async def standing_at(log: EventLog, decider_name: str, key: str, moment: datetime | str) -> SagaSnapshot:
    """Return how a key stood at a moment. Raises: as `state_at` does."""
    past = await key_history(log, log.choreography.decider(decider_name), key)
    steps = await _until_event(log, past, moment) if isinstance(moment, str) else _until(past, moment)
    return _standing(log, past, steps)


async def standings_of_saga(log: EventLog, saga: Saga, at: datetime) -> list[SagaSnapshot]:
    """Return how a saga's own key stood by a time (UTC) under each decider that knew of it then.

    What a saga shares with others, such as a product's shelf, is not among them.
    """
    own = {event.record.type for event in saga.events if key_text(event.record) == saga.key}
    contracts = [contract_of(event_type) for event_type in log.choreography.events]
    fields = {contract.key for contract in contracts if contract.type in own}
    found = list[SagaSnapshot]()
    for decider in log.choreography.deciders:
        if decider.key in fields:
            try:
                found.append(await standing_at(log, decider.name, saga.key, at))
            except UnknownKey:
                continue
    return found


def _standing(log: EventLog, past: KeyHistory, steps: Steps) -> SagaSnapshot:
    changed = [step for step in steps if step.entry_after is not step.entry_before]
    known = known_state(log, past.decider, past.key, changed[-1].entry_after, changed[-1].at) if changed else None
    return SagaSnapshot(past.decider.name, known, waits(steps), past.doubt)


def waits(steps: Steps) -> str:
    """Return why a key, or an effect of it, waits for a person after these steps; empty when nothing does."""
    reasons: dict[str, str] = {}
    for step in steps:
        gone = step.kind == "retried" or (step.kind == "discarded" and not step.was_parked)
        effect = step.input.id if step.input is not None and (gone or step.kind == "stalled") else ""
        if step.kind in {"parked", "stalled"}:
            reasons.setdefault(effect, step.reason)
        elif step.was_parked or gone:
            reasons.pop(effect, None)
    return "; ".join(reasons.values())


def _until(past: KeyHistory, at: datetime) -> Steps:
    at_ms = to_ms(at)
    steps = [step for step in past.steps if to_ms(step.at) <= at_ms]
    if not steps:
        first = past.steps[0].at.isoformat(timespec="milliseconds")
        raise UnknownKey(
            f"{past.decider.name} knew nothing of {past.key!r} then: the first that it heard of it was at {first}"
        )
    return steps


async def _until_event(log: EventLog, past: KeyHistory, event_id: str) -> Steps:
    whole = full_id([past], event_id)
    last = max((number for number, step in enumerate(past.steps) if whole in ids_of(step)), default=None)
    if last is None:
        raise ContractError(await why_unknown(log, [past], event_id))
    return past.steps[: last + 1]
