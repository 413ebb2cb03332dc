"""What operators changed about a saga: edited and discarded inputs, and states taken over from a rerun."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.decider import Decider
from eventlib.model.saga import Saga
from eventlib.model.service import Service
from eventlib.queries.parked import ParkedQuery, parkings, waiting_inputs
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.parking.control import ParkedInputDiscarded, ParkedInputEdited, request_in
from eventlib.runtime.records import PARKED, STATE, Step, state_name
from eventlib.values import from_ms

_ENDS = {"edit", "discard", "refuse"}

Outcome = Literal["done", "refused", "asked"]
Wish = ParkedInputEdited | ParkedInputDiscarded


@dataclass(frozen=True, slots=True)
class Amendment:
    """Somebody's wish about a parked input of a saga, or a parked effect, and what came of it.

    `at` is when it was asked for (UTC); `event_id` and `event_type` are the input's, or the effect's request's.
    `outcome`: `done`; `refused`, since it stood no longer first, or waited no more; `asked`, and not handled yet.
    """

    at: datetime
    service: str
    decider: str
    kind: Literal["edit", "discard"]
    event_id: str
    event_type: str
    by: str
    reason: str
    outcome: Outcome


async def amendments_of(log: EventLog, saga: Saga) -> list[Amendment]:
    """Return what people have changed about a saga, in the order in which they asked for it.

    Cost: reads what was asked of services since the saga began and, where that was about it, their journals from then on.
    Raises: UndecodableRecord when a newer version has asked; ContractError when a journal cannot be read.
    """
    there = await log.port.topics()
    types = {event.record.event_id: event.type for event in saga.events}
    since_ms = saga.events[0].record.timestamp_ms
    found = list[Amendment]()
    for service in log.choreography.services:
        for partition in range(service.partitions if service.control.name in there else 0):
            place = service.control.name, partition
            async for records in chunks(log.port, place, await log.port.offset_at(*place, since_ms)):
                for record in records:
                    if record.causation_id in types:
                        found += await _read(log, service, record, types[record.causation_id])
    return sorted(found, key=lambda amendment: amendment.at)


async def _read(log: EventLog, service: Service, record: Record, event_type: str) -> list[Amendment]:
    asked = await request_in(record, log.codec)
    if not isinstance(asked, Wish):
        return []  # asked for a retry, which changes nothing
    kind: Literal["edit", "discard"] = "edit" if isinstance(asked, ParkedInputEdited) else "discard"
    outcome = await _outcome(log, service, record, asked)
    about = kind, asked.event_id, event_type
    return [
        Amendment(from_ms(record.timestamp_ms), service.name, asked.decider, *about, asked.by, asked.reason, outcome)
    ]


async def _outcome(log: EventLog, service: Service, asked: Record, wish: Wish) -> Outcome:
    """Return what the task has made of a wish, by its journal: it was heard after it was asked for."""
    since = await log.port.offset_at(service.journal.name, asked.partition, asked.timestamp_ms)
    async for _, entry in TaskJournal(log, service, asked.partition).entries(since):
        for step in entry.steps:
            if step.request == wish.event_id and step.kind in _ENDS and _is_of(step, asked.offset):
                return "refused" if step.kind == "refuse" else "done"
    # Nothing came of it: either it was not heard yet, or what it is about waits no more, and then nothing ever will.
    for parking in await parkings(log, wanted=ParkedQuery([service.name])):
        if parking.id == wish.event_id:
            return "asked"
        if parking.id is None and (parking.decider, parking.key) == (wish.decider, wish.key):
            first = await waiting_inputs(log, parking, limit=1)
            return "asked" if [each.record.event_id for each in first] == [wish.event_id] else "refused"
    return "refused"


def _is_of(step: Step, offset: int) -> bool:
    """Tell whether a step is what came of what stands there on the control topic; a given up effect's names nothing."""
    return not step.topic or offset == (step.first if step.kind == "refuse" else step.last)


class Known(NamedTuple):
    """What was known of a key of a decider; `entry` is None where the key was only parked, or let go on."""

    decider: str
    key: str
    entry: KeyedState | None
    is_parked: bool = False


async def known_by_rerun(
    log: EventLog, place: TopicPartition, deciders: Mapping[str, Decider[Any]]
) -> AsyncIterator[Known]:
    """Yield what stands on a rerun's changelog, in order: what comes later about a key is what it knew in the end.

    Raises: ContractError, UnknownSchema for a state that today's code cannot read.
    """
    async for records in chunks(log.port, place, 0):
        for record in records:
            kind, (decider, key) = _kind_and_name((record.key or b"").decode())
            if kind == PARKED:
                yield Known(decider, key, None, is_parked=record.value is not None)
            elif kind == STATE and record.value is None:
                yield Known(decider, key, KeyedState())
            elif kind == STATE and decider in deciders:
                yield Known(
                    decider, key, await log.codec.known(partial(entry_of, record, deciders[decider], log.codec))
                )


def _kind_and_name(key: str) -> tuple[str, tuple[str, str]]:
    for kind in (STATE, PARKED):
        if key.startswith(kind):
            return kind, state_name(key)
    return "", ("", "")
