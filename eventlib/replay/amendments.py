"""What operators changed about a saga: edited and discarded inputs, and states taken over from a rerun."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.decider import Decider
from eventlib.model.record import Record, key_text
from eventlib.model.saga import Saga
from eventlib.model.service import Service
from eventlib.queries.parked import ParkedQuery, parkings, waiting_inputs
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.parking.control import ParkedInputDiscarded, ParkedInputEdited, request_in
from eventlib.runtime.records import Step, changelog_key
from eventlib.values import from_ms

_ENDS = {"edit", "discard", "refuse"}

Outcome = Literal["done", "refused", "asked"]
Request = ParkedInputEdited | ParkedInputDiscarded


@dataclass(frozen=True, slots=True)
class Amendment:
    """An operator's request about a parked input of a saga, or a parked effect, and its outcome.

    `at` is the time of the request (UTC); `event_id` and `event_type` are the input's, or the effect's request's.
    `outcome`: `done`; `refused`, because it was no longer first or no longer parked; `asked`: not handled yet.
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
    """Return what operators changed about a saga, in the order of their requests.

    Cost: reads the control topics since the saga began and, for requests about it, the journals from then on.
    Raises: UndecodableRecord for a request of a newer version; ContractError when a journal cannot be read.
    """
    there = await log.port.topics()
    types = {event.record.event_id: event.type for event in saga.events}
    since_ms = saga.events[0].record.timestamp_ms
    found = list[Amendment]()
    for service in log.choreography.services:
        for partition in range(service.partitions if service.control.name in there else 0):
            topic_partition = service.control.name, partition
            async for records in chunks(
                log.port, topic_partition, await log.port.offset_at(*topic_partition, since_ms)
            ):
                for record in records:
                    if record.causation_id in types:
                        found += await _read(log, service, record, types[record.causation_id])
    return sorted(found, key=lambda amendment: amendment.at)


async def _read(log: EventLog, service: Service, record: Record, event_type: str) -> list[Amendment]:
    request = await request_in(record, log.codec)
    if not isinstance(request, Request):
        return []  # a retry, which changes nothing
    kind: Literal["edit", "discard"] = "edit" if isinstance(request, ParkedInputEdited) else "discard"
    outcome = await _outcome(log, service, record, request)
    about = kind, request.event_id, event_type
    by = request.by, request.reason
    return [Amendment(from_ms(record.timestamp_ms), service.name, request.decider, *about, *by, outcome)]


async def _outcome(log: EventLog, service: Service, record: Record, request: Request) -> Outcome:
    """Return a request's outcome, from the task's journal since the request."""
    since = await log.port.offset_at(service.journal.name, record.partition, record.timestamp_ms)
    async for _, entry in TaskJournal(log, service, record.partition).entries(since):
        for step in entry.steps:
            if step.request == request.event_id and step.kind in _ENDS and _is_of(step, record.offset):
                return "refused" if step.kind == "refuse" else "done"
    # No step: the request is not consumed yet, or its target is no longer parked and no step will follow.
    for parking in await parkings(log, wanted=ParkedQuery([service.name])):
        if parking.id == request.event_id:
            return "asked"
        if parking.id is None and (parking.decider, parking.key) == (request.decider, request.key):
            first = await waiting_inputs(log, parking, limit=1)
            return "asked" if [each.record.event_id for each in first] == [request.event_id] else "refused"
    return "refused"


def _is_of(step: Step, offset: int) -> bool:
    """Return whether a step answers the request at this control offset; a discarded effect's step names no topic."""
    return not step.topic or offset == (step.first if step.kind == "refuse" else step.last)


class RerunKey(NamedTuple):
    """What a rerun's changelog has about a key; `entry` is None if the key was only parked or released."""

    decider: str
    key: str
    entry: KeyedState | None
    is_parked: bool = False


async def rerun_changelog(
    log: EventLog, changelog: TopicPartition, deciders: Mapping[str, Decider[Any]]
) -> AsyncIterator[RerunKey]:
    """Yield a rerun's changelog in order; the last item of a key is its final state.

    Raises: ContractError, UnknownSchema for a state that the current code cannot read.
    """
    async for records in chunks(log.port, changelog, 0):
        for record in records:
            kind, decider, key, _ = changelog_key(key_text(record))
            if kind == "parked":
                yield RerunKey(decider, key, None, is_parked=record.value is not None)
            elif kind == "state" and record.value is None:
                yield RerunKey(decider, key, KeyedState())
            elif kind == "state" and decider in deciders:
                yield RerunKey(
                    decider, key, await log.codec.known(partial(entry_of, record, deciders[decider], log.codec))
                )
