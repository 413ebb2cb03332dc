"""Requests to services about parked keys and effects: handle again, handle with other data, or discard.

A request is a record on the service's control topic; its task executes it once, as soon as it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.identity import root_traceparent
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.operations.sending import event_of, refuse_masked
from eventlib.queries.parked import Parking, WaitingInput, waiting_inputs
from eventlib.queries.pauses import Paused, pauses
from eventlib.runtime.parking.control import (
    BULK,
    REQUESTS,
    ParkedInputDiscarded,
    ParkedInputEdited,
    ParkedRetryRequested,
    Request,
)
from eventlib.values import now_ms

_ATTRIBUTES_BYTES = 10_000
"""How much of a control record is not the edited data, at most."""
_AT_ONCE = 500


class Command(NamedTuple):
    """A request about what is parked, not sent yet; `about` is the input that it is about, if it is one alone."""

    parking: Parking
    request: Request
    about: Record | None = None


def retry_of(parking: Parking, by: str, reason: str) -> Command:
    """Return the command that has a parked key or effect handled again, in order, as soon as its service runs.

    Guarantee: each request is executed once; one about something that is no longer parked changes nothing.
    """
    return Command(parking, ParkedRetryRequested(parking.decider, parking.id or parking.key, by, reason))


async def edit_of(log: EventLog, parking: Parking, event: Event, by: str, reason: str) -> Command:
    """Return the command that has the first input of a parked key handled as `event` instead, and then those behind it.

    Guarantee: the event fits: its class's fields, its topic, its key, its decider. The request changes nothing when another
    input is first by then. Raises: ContractError; NoRight where a field is personal, and this process may not write it.
    """
    service, first = log.choreography.service(parking.service), await first_waiting(log, parking)
    contract, record = contract_of(type(event)), first.record
    if contract.topic.name != record.topic or type(event) not in log.choreography.decider(parking.decider).handlers:
        raise ContractError(f"{parking.decider} handles no {contract.type} from {record.topic}: keep the input's type")
    if (key := key_of(event) or "") != key_text(record):
        raise ContractError(
            f"{contract.key} is {key!r}, and the input's is {key_text(record)!r}: an input keeps its key; discard it, "
            "and publish another one"
        )
    await log.codec.prepare([(contract.topic.name, type(event))])
    data = log.codec.encode(event)
    refuse_masked(event)
    most = min(contract.topic.max_event_bytes, service.control.max_event_bytes)
    if len(data) > most - _ATTRIBUTES_BYTES:
        raise ContractError(f"{contract.type} has {len(data)} bytes; an edit takes up to {most - _ATTRIBUTES_BYTES}")
    edit = ParkedInputEdited(parking.decider, parking.key, record.event_id, contract.type, data, by, reason)
    return Command(parking, edit, record)


async def discard_of(log: EventLog, parking: Parking, by: str, reason: str) -> Command:
    """Return the command that discards the first input of a parked key, or a parked effect, permanently.

    Those behind it are then handled. What it would have caused does not happen: its saga continues by its deadlines, or
    becomes overdue. The request changes nothing when another input is first by then.
    Raises: ContractError without a reason, and for a deadline, which is not an input.
    """
    if not reason.strip():
        raise ContractError("give a reason: it is stored on the log")
    if parking.id is not None:
        about = next((each.record for each in await waiting_inputs(log, parking)), None)
        return Command(
            parking, ParkedInputDiscarded(parking.decider, parking.id, parking.id, by, reason.strip()), about
        )
    first = (await first_waiting(log, parking)).record
    discard = ParkedInputDiscarded(parking.decider, parking.key, first.event_id, by, reason.strip())
    return Command(parking, discard, first)


async def first_waiting(log: EventLog, parking: Parking) -> WaitingInput:
    """Return the input that a key's others wait behind. Raises: ContractError if it is not an input, or no longer parked."""
    if parking.id is not None:
        raise ContractError(
            f"{parking.effect} {parking.id} is what {parking.decider} has emitted, and stays on the log: it cannot be "
            "edited. Retry it, or discard it"
        )
    waiting = await waiting_inputs(log, parking, limit=1)
    if not waiting:
        raise ContractError(f"nothing waits for {parking.decider} {parking.key} any more")
    if not waiting[0].record.topic:
        raise ContractError(
            f"{waiting[0].record.type} is a deadline of {parking.decider} {parking.key}, not an input: it follows from the "
            "state, and falls due again. Fix its handler, and retry it"
        )
    return waiting[0]


async def event_with(log: EventLog, parking: Parking, data: object, changes: Mapping[str, object]) -> Event:
    """Return the first input of a parked key with other data, or with some fields changed.

    Raises: ContractError, naming the field, when it does not fit its class; also for some fields of an input whose data is
    unknown.
    """
    first = await first_waiting(log, parking)
    if first.record.topic in log.external.topics:
        raise ContractError(
            f"{first.record.topic} is an external topic, in a format of its own: fix its decoder, or discard it"
        )
    if not first.record.type:
        raise ContractError("the record has no type, so that its class is unknown: discard it, and publish another one")
    event_type = log.choreography.event(first.record.type)
    fields = data
    if data is None:
        if not isinstance(first.reading.value, Event):
            raise ContractError(f"{first.record.type} cannot be read ({first.reading.error}): give all of its data")
        fields = json_of(first.reading.value)
    return event_of(event_type, {**fields, **changes} if isinstance(fields, Mapping) else fields)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A parked key that an act about many does not touch, since it is paused; `why` names the pause and the remedy."""

    parking: Parking
    why: str


async def apart_from_paused(log: EventLog, found: Sequence[Parking]) -> tuple[list[Parking], list[LeftOut]]:
    """Return what of this can be acted on now, and what is left out: its service, decider or key is paused.

    Effects are never left out: they wait by themselves.
    """
    held = await paused_among(log, found)
    left_out = [LeftOut(each, str(is_paused(held[each.name]))) for each in found if each.name in held]
    return [each for each in found if each.name not in held], left_out


async def paused_among(log: EventLog, found: Sequence[Parking]) -> dict[tuple[str, str, str], Paused]:
    """Return by name what of this is paused, and how."""
    every = [each for each in await pauses(log, {each.service for each in found}) if not each.is_ending]
    return {
        each.name: paused
        for each in found
        if each.id is None
        for paused in every
        if paused.target.service == each.service and paused.target.covers(each.decider, each.key, "")
    }


async def send(log: EventLog, commands: Sequence[Command], bulk: str = "") -> list[int]:
    """Put commands on the control topics, and return their offsets there. Raises: ContractError for what is paused.

    `bulk` names the act that they all belong to, as `BULK` has it.

    Guarantee: up to some hundreds are put there all or none; an interrupted call for more has put some.
    """
    for paused in (await paused_among(log, [each.parking for each in commands])).values():
        raise is_paused(paused)
    offsets = list[int]()
    for first in range(0, len(commands), _AT_ONCE):
        records = await control_records(log, commands[first : first + _AT_ONCE])
        headers = ((BULK, bulk.encode()),) if bulk else ()
        offsets += await log.port.append([each.replace(headers=headers) for each in records])
    return offsets


def is_paused(paused: Paused) -> ContractError:
    """Return why a command about what is paused is refused."""
    return ContractError(f"{paused.target} is paused, by {paused.by}: {paused.reason}. Resume it first")


async def control_records(log: EventLog, commands: Sequence[Command]) -> list[Record]:
    """Return the records of commands."""
    services = {each.parking.service: log.choreography.service(each.parking.service) for each in commands}
    controls = [service.control.name for service in services.values()]
    await log.codec.prepare([(control, kind) for control in controls for kind in REQUESTS])
    now = now_ms()
    return [
        control_record(log, services[parking.service], parking.partition, request, parking.key, now, about)
        for parking, request, about in commands
    ]


def control_record(  # noqa: PLR0913, PLR0917  where it goes, and what it is about
    log: EventLog, service: Service, partition: int, request: Request, key: str, now: int, about: Record | None = None
) -> Record:
    """Return the record of a request to a service's task, about an input or of itself."""
    event_id = token_hex(16)
    return Record(
        topic=service.control.name,
        partition=partition,
        offset=-1,
        timestamp_ms=now,
        key=key.encode(),
        value=log.codec.encode(request),
        id=event_id,
        type=wire_name_of(type(request)),
        source="outside",
        subject=key,
        correlation_id=event_id if about is None else about.correlation_id or about.event_id,
        causation_id=None if about is None else about.event_id,
        traceparent=root_traceparent(event_id) if about is None else about.traceparent,
    )
