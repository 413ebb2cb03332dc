"""What a choreography's services could not handle: which keys and effects are parked, since when, why, what waits."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.ground.linear_regex import LinearRegex
from eventlib.log.reading import records_between
from eventlib.model.record import Record, key_text
from eventlib.model.saga import Saga
from eventlib.model.service import Service
from eventlib.queries.decoding import Reading, RecordReader
from eventlib.queries.state import partition_of
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.bootstrap import is_of_past
from eventlib.runtime.parking.control import edit_at
from eventlib.runtime.parking.parked import PAUSED, is_waiting, original_of
from eventlib.runtime.parking.releasing import edited
from eventlib.runtime.records import ParkedKey
from eventlib.values import from_ms


@dataclass(frozen=True, slots=True)
class Parking:
    """A key whose inputs wait for a person, or an effect that does (`effect` is its request's type, `id` its id).

    `waiting` counts the inputs, `first` is the offset of the oldest one in the service's parked topic. `code_version`
    is that of the code that could not handle it, `traceback` where in it that was. `edited` is the offset on the control
    topic of the edit with which the oldest one was tried last; -1: as it is.
    """

    service: str
    decider: str
    key: str
    partition: int
    since: datetime
    waiting: int
    reason: str
    first: int = 0
    effect: str | None = None
    id: str | None = None
    code_version: str = ""
    traceback: str = ""
    edited: int = -1

    @property
    def is_paused(self) -> bool:
        """Whether its inputs wait since an operator has paused its key, and not since one failed."""
        return self.id is None and self.reason.startswith(PAUSED)

    @property
    def is_of_past(self) -> bool:
        """Whether it is an effect that follows from what was recorded before a service's first start."""
        return self.id is not None and is_of_past(self.reason)

    @property
    def command(self) -> str:
        """The command that goes on from here: it lets an effect of the past run, and else shows what waits."""
        if self.id is not None and self.is_of_past:
            return retry_command(self.decider, self.id)
        return f"eventlib parked show {quote(self.key)}"

    @property
    def name(self) -> tuple[str, str, str]:
        """What distinguishes it: the service, and the decider with its key, or the effect's id."""
        return self.service, "" if self.id else self.decider, self.id or self.key


@dataclass(frozen=True, slots=True)
class ParkedQuery:
    """Which of what is parked is meant: of some services and deciders, and with a reason in which a pattern is found.

    `condition` is a further one: that of a query, from `eventlib.search.parked.parked_where`.
    """

    services: Collection[str] = ()
    deciders: Collection[str] = ()
    reason: LinearRegex | None = None
    condition: Callable[[Parking], bool] | None = None

    @classmethod
    def of(
        cls, log: EventLog, services: Collection[str], deciders: Collection[str], reason: str | None
    ) -> "ParkedQuery":
        """Return what an operator wants, as given. Raises: WiringError for an unknown name; ContractError."""
        names = [log.choreography.service(name).name for name in services]
        of_deciders = [log.choreography.decider(name).name for name in deciders]
        try:
            return cls(names, of_deciders, None if reason is None else LinearRegex(reason))
        except ValueError as error:
            raise ContractError(f"{reason!r} is no regular expression that can be searched for: {error}") from error

    def has(self, parking: Parking) -> bool:
        """Tell whether something parked is meant."""
        of_service = not self.services or parking.service in self.services
        of_decider = not self.deciders or parking.decider in self.deciders
        if not (of_service and of_decider and (self.reason is None or self.reason.search(parking.reason))):
            return False
        return self.condition is None or self.condition(parking)


ALL = ParkedQuery()


def retry_command(decider: str, effect_id: str) -> str:
    """Return the command that lets a parked effect run."""
    return f"eventlib parked retry {quote(decider)} {quote(effect_id)}"


def parked_of(saga: Saga, found: Iterable[Parking]) -> list[Parking]:
    """Return what of a saga is parked: effects by their requests' ids, which no other saga has.

    A saga that has ended waits for nothing: of it only effects of the past are left, since they have never run.
    """
    keys = {key_text(event.record) for event in saga.events}
    ids = {event.record.event_id for event in saga.events}
    own = [each for each in found if (each.id in ids if each.id else each.key in keys)]
    return [each for each in own if each.is_of_past] if saga.ended else own


def named(found: Iterable[Parking], name: str) -> list[Parking]:
    """Return what a name means: a key, or an effect's id; else the effects that are parked for a key."""
    every = [each for each in found if name in {each.key, each.id}]
    return [each for each in every if name == (each.id or each.key)] or every


@dataclass(frozen=True, slots=True)
class WaitingInput:
    """One input that waits behind a parked key: where it came from, why it waits, and what is in it.

    `record` is the input as it stood on its topic; a deadline has no topic. `edited_by` says who has it handled with
    other data, and why; `reading` has that.
    """

    record: Record
    reason: str
    reading: Reading
    edited_by: str = ""


async def parkings(log: EventLog, keys: Collection[str] | None = None, wanted: ParkedQuery = ALL) -> list[Parking]:
    """Return everything that is parked, or what is parked under these keys; the oldest first.

    Cost: see `TaskNotes`.
    """
    check(log, EventLog, "log", A_LOG)
    services = [each for each in log.choreography.services if not wanted.services or each.name in wanted.services]
    places = [
        (service, partition)
        for service in services
        for partition in (range(service.partitions) if keys is None else {partition_of(service, key) for key in keys})
    ]
    notes = TaskNotes(log, places)
    await notes.refresh()
    found = await parkings_in(notes)
    return [each for each in found if wanted.has(each) and (keys is None or each.key in keys)]


async def parkings_in(notes: TaskNotes) -> list[Parking]:
    """Return what is parked by what tasks have noted; the oldest first."""
    found = list[Parking]()
    for service, partition in notes.tasks:
        found += [_of_effect(service, partition, each) for each in notes.effects(service, partition)[1]]
        found += [_of_key(service, partition, parked) for _, parked in await notes.parked(service, partition)]
    return sorted(found, key=lambda parking: (parking.since, parking.service, parking.decider, parking.key))


def _of_key(service: Service, partition: int, parked: ParkedKey) -> Parking:
    return Parking(
        service.name,
        parked.decider,
        parked.key,
        partition,
        from_ms(parked.since_ms),
        parked.count,
        parked.reason,
        parked.first,
        code_version=parked.code_version,
        traceback=parked.traceback,
        edited=parked.edited,
    )


def _of_effect(service: Service, partition: int, request: Record) -> Parking:
    notes = {name: value.decode() for name, value in request.headers}
    return Parking(
        service.name,
        (request.source or "").partition("/")[2],
        request.subject or "",
        partition,
        from_ms(request.timestamp_ms),
        1,
        notes.get("parked_reason", ""),
        effect=request.type,
        id=request.event_id,
        code_version=notes.get("parked_code", ""),
    )


async def waiting_inputs(log: EventLog, parking: Parking, limit: int | None = None) -> list[WaitingInput]:
    """Return the inputs that wait behind a parked key in order, the first `limit` of them; of an effect, its request."""
    check(log, EventLog, "log", A_LOG)
    check(parking, Parking, "parking", "give one of those that `await parkings(log)` returns")
    service = log.choreography.service(parking.service)
    reader = RecordReader(log)
    if parking.id is not None:
        notes = TaskNotes(log, [(service, parking.partition)])
        await notes.refresh()
        effects = [r for r in notes.effects(service, parking.partition)[1] if r.event_id == parking.id]
        return [WaitingInput(r.record, parking.reason, r) for r in await reader.read(effects)]
    found = list[WaitingInput]()
    most = parking.waiting if limit is None else min(limit, parking.waiting)
    place = service.parked.name, parking.partition
    async for parked in records_between(log.port, place, max(parking.first, await log.port.start(*place))):
        if len(found) == most:
            break
        if not is_waiting(parked, parking.decider, parking.key):
            continue
        facts, record = original_of(parked)
        by, shown = "", parked
        if not found and parking.edited >= 0:
            edit = await edit_at(log, (service.control.name, parking.partition), parking.edited)
            by, shown = edit.why, edited(parked, edit)
        (reading,) = await reader.read([shown])
        found.append(WaitingInput(record, parking.reason if not found else facts.get("reason", ""), reading, by))
    return found
