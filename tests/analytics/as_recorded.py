"""What the library says of a log, in the form in which the history tables have it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from random import Random
from typing import Any

from eventlib import EventLog
from eventlib.errors import UnknownKey
from eventlib.model.decider import FORGET
from eventlib.model.event import contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.record import Record, key_text
from eventlib.model.schema.derive import record_of
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.point_in_time import state_at
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import JournalEntry, changelog_key
from eventlib.values import from_ms, to_ms
from tests.analytics.folded import Folded, Row
from tests.integration.reopening import everything

Period = tuple[Any, int, int | None, str | None, bool]
"""A state as columns, since when and until when it was (ms), the event that has led to it, whether it was removed."""

RESERVED = {"key", "changed_by", "changed_at", "partition", "valid_from", "valid_to", "set_by", "removed"}


# --- what the library says


async def written_states(log: EventLog) -> dict[tuple[str, str], tuple[Any, str | None, int]]:
    """Return the newest state of each key as its service has written it, its event and time."""
    found = dict[tuple[str, str], tuple[Any, str | None, int]]()
    for service in log.choreography.services:
        for record in await everything(log, service.changelog.name):
            kind, name, key, _ = changelog_key(key_text(record))
            if kind != "state":
                continue
            entry = entry_of(record, log.choreography.decider(name), log.codec) if record.value else None
            if entry is None:
                found.pop((name, key), None)
            elif (name, key) not in found or found[name, key][1] != entry.changed_by:
                # Else an effect of it was answered: that is written, too, and changes nothing yet.
                found[name, key] = shown(entry.state), entry.changed_by, record.timestamp_ms
    return found


async def histories_of(log: EventLog, keys: Sequence[tuple[str, str]]) -> list[KeyHistory]:
    return [await key_history(log, log.choreography.decider(decider), key) for decider, key in keys]


async def states_then(log: EventLog, asked: Sequence[tuple[str, str, int]]) -> list[list[Any]]:
    return [await state_then(log, *each) for each in asked]


async def state_then(log: EventLog, decider: str, key: str, at_ms: int) -> list[Any]:
    try:
        state = (await state_at(log, decider, key, from_ms(at_ms))).state
    except UnknownKey:
        return []
    return [] if state is None else [shown(state)]


async def answers(log: EventLog) -> dict[str, tuple[Record, Record | None]]:
    """Return each request of an effect on the log, with the event that its decider has said for it."""
    requests = {
        (f"{service.name}/{decider.name}", contract_of(request).type): {contract_of(e).type for e in effect.emits}
        for service in log.choreography.services
        for decider in service.deciders
        for request, effect in decider.effects.items()
    }
    topics = {contract_of(event).topic.name for event in log.choreography.events}
    records = [record for topic in sorted(topics) for record in await everything(log, topic)]
    by_cause = {(r.source, r.causation_id, r.type): r for r in records}
    found = dict[str, tuple[Record, Record | None]]()
    for record in records:
        kinds = requests.get((record.source or "", record.type or ""))
        if kinds is not None:
            told = [by_cause.get((record.source, record.id, kind)) for kind in kinds]
            found[record.event_id] = record, next((each for each in told if each is not None), None)
    return found


async def passed_deadlines(log: EventLog) -> dict[tuple[str, str, str, int], int]:
    found = dict[tuple[str, str, str, int], int]()
    for service in log.choreography.services:
        for record in await everything(log, service.journal.name):
            entry = log.codec.decode(JournalEntry, record.value or b"")
            for step in entry.steps:
                if step.kind == "deadline" and step.detail != FORGET:
                    found[step.decider, step.detail, step.key, step.first] = entry.at_ms
    return found


async def pending_deadlines(log: EventLog) -> list[tuple[str, str, int, list[str]]]:
    found = dict[tuple[str, str], list[str]]()
    for service in log.choreography.services:
        for record in await everything(log, service.changelog.name):
            kind, name, key, _ = changelog_key(key_text(record))
            if kind == "state":
                entry = entry_of(record, log.choreography.decider(name), log.codec)
                found[name, key] = [each for each in entry.due if each != FORGET]
    return [(decider, key, 0, due) for (decider, key), due in found.items()]


# --- what the tables say


def some_keys(folded: Folded, most: int) -> list[tuple[str, str]]:
    deciders = [decider.name for decider in folded.fold.application.choreography.deciders]
    keys = sorted({(name, row["key"]) for name in deciders for row in folded.table(f"state_{name}_history")})
    return keys if len(keys) <= most else Random(21).sample(keys, most)


def states_in(folded: Folded) -> dict[tuple[str, str], tuple[Any, str | None, int]]:
    return {
        (decider.name, row["key"]): (columns_of(folded, decider.name, row), row["changed_by"], ms(row["changed_at"]))
        for decider in folded.fold.application.choreography.deciders
        for row in folded.table(f"state_{decider.name}")
    }


def periods_in(folded: Folded, decider: str, key: str) -> list[Period]:
    far = 1 << 62
    found = [
        (
            columns_of(folded, decider, row),
            ms(row["valid_from"]),
            None if row["valid_to"] is None else ms(row["valid_to"]),
            row["changed_by"],
            row["removed"],
        )
        for row in folded.of_key(f"state_{decider}_history", key)
    ]
    return sorted(found, key=lambda each: (each[1], far if each[2] is None else each[2], repr(each)))


def periods_of(history: KeyHistory) -> list[Period]:
    found = list[Period]()
    for step in history.steps:
        at_ms, after = to_ms(step.at), step.entry_after
        if step.before == after.state:
            continue
        if step.before is not None:
            state, first_ms, _, by, _ = found.pop()
            found.append((state, first_ms, at_ms, by, after.state is None))
        if after.state is not None:
            found.append((shown(after.state), at_ms, None, after.changed_by, False))
    far = 1 << 62
    return sorted(found, key=lambda each: (each[1], far if each[2] is None else each[2], repr(each)))


def shown(state: Any) -> Any:
    """Return a state as a table has it."""
    hidden = personal_fields(type(state))
    values = {each.name: getattr(state, each.name) for each in fields(state)}
    return {
        f"state_{name}" if name in RESERVED else name: None if name in hidden else plain(value)
        for name, value in values.items()
    }


def columns_of(folded: Folded, decider: str, row: Row) -> Any:
    state = folded.fold.application.choreography.decider(decider).state
    names = [f"state_{each.name}" if each.name in RESERVED else each.name for each in record_of(state).fields]
    return {name: plain(row[name]) for name in names}


def plain(value: Any) -> Any:
    """Return a value with its times as numbers."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def ms(at: datetime) -> int:
    """Return a time of a row in ms: Spark gives it in the zone of this machine."""
    return round(at.timestamp() * 1_000)
