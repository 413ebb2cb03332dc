"""States of deciders at a point in time: a time, or an event that was handled or emitted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from eventlib.errors import ContractError, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.log.reading import chunks
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.saga import Saga
from eventlib.queries.decoding import event_topics_there
from eventlib.queries.state import KnownState, known_state
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.steps import HistoryStep
from eventlib.values import time_of, to_ms

_SHORTEST = 6
"""How many characters of an event's id have to be given."""


def ids_of(step: HistoryStep[Any]) -> set[str]:
    """Return the ids of the events in a step: its input, and what it emitted."""
    inputs = {"handled", "dropped", "parked", "discarded"}
    consumed = {step.input.id} if step.input is not None and step.kind in inputs else set[str]()
    return consumed | {each.id for each in step.emitted}


def full_id(histories: Sequence[KeyHistory], given: str) -> str:
    """Return the event id with this prefix in these histories; the prefix itself if none has it. Raises: ContractError."""
    ids = {event_id for history in histories for step in history.steps for event_id in ids_of(step)}
    found = sorted(event_id for event_id in ids if event_id.startswith(given))
    if given in found or not found:
        return given
    if len(found) > 1 or len(given) < _SHORTEST:
        raise ContractError(f"{given!r} may be {' or '.join(found[:4])}: write more of the event's id")
    return found[0]


async def why_unknown(log: EventLog, histories: Sequence[KeyHistory], event_id: str) -> str:
    """Return why these histories lack an event: where it is instead, or that it does not exist."""
    key = histories[0].key
    names = " and ".join(history.decider.name for history in histories)
    event = await _find(log, event_id)
    if event is None:
        return (
            f"no event on this log has the id {event_id!r}, nor is that a time such as 2026-01-31T12:00:00Z: "
            f"`eventlib history {histories[0].decider.name} {key}` shows the events of {names}"
        )
    source = f", emitted by {event.source}" if event.source else ""
    return (
        f"{names} neither consumed nor emitted {event.type} {event.event_id} under key {key!r}: it is an event of "
        f"key {key_text(event)!r} on {event.topic}{source}"
    )


async def _find(log: EventLog, event_id: str) -> Record | None:
    """Search the whole log for an event, for an error message that names its location."""
    for topic in await event_topics_there(log):
        for partition in range(topic.partitions):
            topic_partition = topic.name, partition
            async for records in chunks(log.port, topic_partition, await log.port.start(*topic_partition)):
                for record in records:
                    if record.event_id.startswith(event_id):
                        return record
    return None


Steps = Sequence[HistoryStep[Any]]


class SagaSnapshot(NamedTuple):
    """A key's state under a decider at one point, and why it, or an effect of it, was parked (`waits`).

    `known` is None as long as all inputs were parked. `doubt` is that of the KeyHistory.
    """

    decider: str
    known: KnownState | None
    waits: str
    doubt: str


def parse_point_in_time(text: str) -> datetime | str:
    """Parse a point in time: a time (UTC), else an event id."""
    try:
        return time_of(text)
    except ContractError:
        return text


async def state_at(log: EventLog, decider_name: str, key: str, moment: datetime | str) -> KnownState:
    """Return a key's state under a decider at a time, or after an event.

    A time (UTC) includes every transaction of that millisecond. An event (its id or a prefix) includes the last step in
    which the decider handled or emitted it.
    Guarantee: equal to the state recorded live at that point, as long as evolve is unchanged.
    Raises: WiringError for an unknown decider; UnknownKey when it had no state of the key then; ContractError for an
    event that it neither consumed nor emitted, or when retention has dropped records that it needs.
    """
    return state_in(await snapshot_at(log, decider_name, key, moment))


def state_in(snapshot: SagaSnapshot) -> KnownState:
    """Return the state. Raises: UnknownKey when all inputs were parked or dropped."""
    if snapshot.known is None:
        raise UnknownKey(
            f"{snapshot.decider} had handled nothing of the key then: {snapshot.waits or 'all was dropped'}"
        )
    return snapshot.known


async def snapshot_at(log: EventLog, decider_name: str, key: str, moment: datetime | str) -> SagaSnapshot:
    """Return a key's snapshot at a point in time. Raises: as `state_at` does."""
    history = await key_history(log, log.choreography.decider(decider_name), key)
    steps = await _until_event(log, history, moment) if isinstance(moment, str) else _until(history, moment)
    return _snapshot(log, history, steps)


async def snapshots_of_saga(log: EventLog, saga: Saga, at: datetime) -> list[SagaSnapshot]:
    """Return the snapshots of a saga's own key at a time (UTC), of each decider that had it then.

    State shared with other sagas, such as a product's shelf, is not included.
    """
    own = {event.record.type for event in saga.events if key_text(event.record) == saga.key}
    contracts = [contract_of(event_type) for event_type in log.choreography.events]
    fields = {contract.key for contract in contracts if contract.type in own}
    found = list[SagaSnapshot]()
    for decider in log.choreography.deciders:
        if decider.key in fields:
            try:
                found.append(await snapshot_at(log, decider.name, saga.key, at))
            except UnknownKey:
                continue
    return found


def _snapshot(log: EventLog, history: KeyHistory, steps: Steps) -> SagaSnapshot:
    changed = [step for step in steps if step.entry_after is not step.entry_before]
    known = known_state(log, history.decider, history.key, changed[-1].entry_after, changed[-1].at) if changed else None
    return SagaSnapshot(history.decider.name, known, waits(steps), history.doubt)


def waits(steps: Steps) -> str:
    """Return why a key, or an effect of it, is parked after these steps; empty if nothing is."""
    reasons: dict[str, str] = {}
    for step in steps:
        is_over = step.kind == "retried" or (step.kind == "discarded" and not step.was_parked)
        effect = step.input.id if step.input is not None and (is_over or step.kind == "stalled") else ""
        if step.kind in {"parked", "stalled"}:
            reasons.setdefault(effect, step.reason)
        elif step.was_parked or is_over:
            reasons.pop(effect, None)
    return "; ".join(reasons.values())


def _until(history: KeyHistory, at: datetime) -> Steps:
    at_ms = to_ms(at)
    steps = [step for step in history.steps if history.clock.order_ms(to_ms(step.at)) <= at_ms]
    if not steps:
        first = history.steps[0].at.isoformat(timespec="milliseconds")
        raise UnknownKey(f"{history.decider.name} had no state of {history.key!r} then: its first input was at {first}")
    return steps


async def _until_event(log: EventLog, history: KeyHistory, event_id: str) -> Steps:
    whole = full_id([history], event_id)
    last = max((number for number, step in enumerate(history.steps) if whole in ids_of(step)), default=None)
    if last is None:
        raise ContractError(await why_unknown(log, [history], event_id))
    return history.steps[: last + 1]
