"""Pauses a service, a decider, a kind of effect or a key, or sets a limit of effects, and has it go on: on the log, for all processes of the service.

A request is a record on the service's control topic, for each task that it concerns; the task takes it up once, as soon
as it runs.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import EventLog
from eventlib.limits import checked, limit_set
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.decider import Decider
from eventlib.model.event import contract_of
from eventlib.model.identity import root_traceparent
from eventlib.model.record import Record, key_text
from eventlib.model.saga import Saga
from eventlib.model.service import Service
from eventlib.operations.parked_commands import control_record
from eventlib.queries.pauses import Paused, PauseTarget, pauses, pauses_in
from eventlib.queries.task_clock import positions_of
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.parking.control import REQUESTS, PauseRequest, PauseRequested, ResumeRequested
from eventlib.runtime.turns import queues_of
from eventlib.values import now_ms


class Numbers(NamedTuple):
    """The numbers that a limit has instead of the declared ones; 0: as declared."""

    per_second: float = 0.0
    burst: int = 0
    concurrent: int = 0


_LOOKS_S = 0.1
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class WhatWaits:
    """What waits while something is paused: inputs that are there by now, and effects without an answer.

    `at_least` tells that there are more inputs than were counted. `others` are the deciders that wait too, since they
    read a topic of a paused one, with these `topics`.
    """

    inputs: int
    effects: int
    at_least: bool = False
    others: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


async def pause(log: EventLog, target: PauseTarget, by: str, reason: str, numbers: Numbers | None = None) -> None:
    """Ask the tasks of a service to hold something back, from now on until `resume`.

    Guarantee: nothing is lost, and nothing is decided otherwise than it would have been: inputs and deadlines are handled,
    and effects attempted, when it goes on. What is under way ends: an attempt that is out, and a transaction.
    A limit has these numbers meanwhile, and may be set again. Raises: ContractError without a reason, when it is paused
    already, or when the tasks could not share the numbers out.
    """
    if not reason.strip():
        raise ContractError("give a reason: it is stored on the log")
    if target.limit:
        numbers = _numbers(log, target, numbers)
        await _ask(log, target, PauseRequested(*target.fields, by, reason.strip(), target.limit, *numbers))
        return
    known = await paused(log, target)
    if known is not None and not known.is_ending:
        raise ContractError(f"{target} is paused already, by {known.by}: {known.reason}")
    await _ask(log, target, PauseRequested(*target.fields, by, reason.strip()))


def _numbers(log: EventLog, target: PauseTarget, numbers: Numbers | None) -> Numbers:
    """Return the numbers of a limit that can hold. Raises: ContractError."""
    if numbers is None or not any(numbers):
        raise ContractError(f"give {target} a number: per_second, burst or concurrent")
    service = log.choreography.service(target.service)
    try:
        limit = limit_set(service.limits[target.limit], *numbers)
        checked({target.limit: limit}, service.effect_ports(), service.partitions, f"service {service.name}")
    except WiringError as error:
        raise ContractError(str(error)) from error
    return numbers


async def resume(log: EventLog, target: PauseTarget, by: str, reason: str = "") -> None:
    """Ask the tasks of a service to go on with what was paused under these names.

    Raises: ContractError when it is not paused, or when a key's decider or service is: those have to go on first.
    """
    every = await pauses(log, [target.service])
    known = next((each for each in every if each.target == target), None)
    if known is None:
        also = ", ".join(str(each.target) for each in every) or "nothing"
        raise ContractError(f"{target} is not paused; in {target.service}, {also} is")
    above = (
        {PauseTarget(target.service), PauseTarget(target.service, target.decider)} if target.key is not None else set()
    )
    for each in every:
        if each.target in above and not each.is_ending:
            raise ContractError(f"{each.target} is paused too ({each.by}: {each.reason}): resume that first")
    await _ask(log, target, ResumeRequested(*target.fields, by, reason.strip(), target.limit))


async def paused(log: EventLog, target: PauseTarget) -> Paused | None:
    """Return how something is paused; None when it is not. Cost: see `TaskNotes`, for the tasks that it concerns."""
    service = log.choreography.service(target.service)
    notes = TaskNotes(log, [(service, partition) for partition in target.partitions(service)])
    await notes.refresh()
    return next((each for each in await pauses_in(log, notes) if each.target == target), None)


async def settled(log: EventLog, target: PauseTarget, patience_s: float) -> Paused | None:
    """Wait until each task has taken up what it was asked, or for a while; return how it is paused then."""
    until = monotonic() + patience_s
    while True:
        known = await paused(log, target)
        if known is None or not known.asked or monotonic() >= until:
            return known
        await asyncio.sleep(_LOOKS_S)


async def what_waits(log: EventLog, target: PauseTarget) -> WhatWaits:
    """Return what would wait if something were paused now, or what waits since it is."""
    service = log.choreography.service(target.service)
    notes = TaskNotes(log, [(service, partition) for partition in target.partitions(service)])
    await notes.refresh()
    inputs = effects = 0
    limited = {kind for kind, queue in queues_of(service).items() if target.limit in {kind, queue.name}}
    for _, partition in notes.tasks:
        pending = notes.effects(service, partition)[0]
        names = [((each.source or "").partition("/")[2], each.subject or "", each.type or "") for each in pending]
        effects += sum(kind in limited if target.limit else target.covers(d, key, kind) for d, key, kind in names)
        if target.kind == "key":
            inputs += sum(
                p.count for _, p in await notes.parked(service, partition) if target.covers(p.decider, p.key, "")
            )
    if target.kind in {"effect", "limit"}:
        return WhatWaits(0, effects)
    held = _topics(service, target) if target.kind == "decider" else ()
    others = tuple(d.name for d in service.deciders if held and d.name != target.decider and _reads(d) & {*held})
    shared = tuple(t for t in held if any(t in _reads(d) for d in service.deciders if d.name != target.decider))
    for _, partition in notes.tasks:
        for topic in _topics(service, target):
            inputs += await _unread(log, target, service, (topic, partition), _MOST_COUNTED - inputs)
    return WhatWaits(inputs, effects, inputs >= _MOST_COUNTED, others, shared)


async def _unread(log: EventLog, target: PauseTarget, service: Service, place: TopicPartition, most: int) -> int:
    """Count the inputs that a task has not handled, and that would wait."""
    if place[0] not in await log.port.topics():
        return 0
    positions = await positions_of(log, service, place[1])
    reader, count = InputReader(log, service), 0
    first = positions.next.get(place[0], await log.port.start(*place))
    async for records in chunks(log.port, place, first):
        for record in records:
            deciders = [each.name for each in reader.deciders_of(record) or ()]
            count += any(target.kind != "key" or target.covers(each, key_text(record), "") for each in deciders)
        if count >= most:
            break
    return count


def _topics(service: Service, target: PauseTarget) -> tuple[str, ...]:
    reads = [_reads(each) for each in service.deciders if not target.decider or each.name == target.decider]
    return tuple(topic.name for topic in service.inputs if any(topic.name in each for each in reads))


def _reads(decider: Decider[Any]) -> set[str]:
    return {contract_of(event).topic.name for event in decider.handlers}


async def _ask(log: EventLog, target: PauseTarget, request: PauseRequest) -> None:
    """Send a request to each task that it concerns, under one name."""
    service, now, name = log.choreography.service(target.service), now_ms(), token_hex(16)
    await log.codec.prepare([(service.control.name, kind) for kind in REQUESTS])
    records = [
        control_record(log, service, partition, request, target.key or "", now).replace(
            id=f"{name}{partition:04x}", correlation_id=name, traceparent=root_traceparent(name)
        )
        for partition in target.partitions(service)
    ]
    await log.port.append(records)


async def holding(log: EventLog, saga: Saga) -> list[Paused]:
    """Return what is paused that a saga waits for: one of its events is not read, or has no answer, or its key is held."""
    found = list[Paused]()
    for each in await pauses(log):
        service = log.choreography.service(each.target.service)
        if await _holds(log, each.target, service, saga):
            found.append(each)
    return found


async def _holds(log: EventLog, target: PauseTarget, service: Service, saga: Saga) -> bool:
    records = [event.record for event in saga.events]
    if target.kind in {"service", "decider"}:
        return await _is_unread(log, service, [each for each in records if each.topic in _topics(service, target)])
    if target.kind == "limit":
        return False  # it goes on, though slower
    if target.kind == "key":
        return any(key_text(each) == target.key for each in records)
    notes, ids = TaskNotes(log, [(service, p) for p in target.partitions(service)]), {each.event_id for each in records}
    await notes.refresh()
    pending = [each for _, partition in notes.tasks for each in notes.effects(service, partition)[0]]
    return any(each.event_id in ids and each.type == target.effect for each in pending)


async def _is_unread(log: EventLog, service: Service, records: Sequence[Record]) -> bool:
    """Tell whether a service has not handled one of these inputs."""
    reader = InputReader(log, service)
    for record in records:
        if reader.deciders_of(record) is not None:
            positions = await positions_of(log, service, record.partition)
            if record.offset >= positions.next.get(record.topic, 0):
                return True
    return False
