"""Skips one input: one that is not handled yet, or one that is parked and blocks those behind it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.reading import records_between
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.as_json import event_json
from eventlib.operations.dry_run import dry_run_of, emitted_on, token_of
from eventlib.operations.seek import act
from eventlib.queries.task_clock import positions_of
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.parking.parked import original_of, waiting_behind
from eventlib.runtime.records import JournalEntry
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Release, SkipInput
from eventlib.values import now_ms


@dataclass(frozen=True, slots=True)
class SkippedNow:
    """A skipped input: its location, and what happened to the inputs that waited behind it.

    `was_parked` is whether it was tried before. `released` counts the inputs that were handled now that it no longer
    blocks them; `parked_again` is whether one of them failed, so that the rest waits behind that one.
    """

    service: str
    event_id: str
    type: str | None
    key: str
    topic: str
    partition: int
    offset: int
    was_parked: bool
    released: int
    parked_again: bool


@dataclass(frozen=True)
class SkipOutcome(Outcome):
    """What was skipped, or would be, and then the events that would be emitted."""

    skipped: SkippedNow
    emitted: Sequence[Event] = ()
    token: str = ""
    why: str = ""

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        line = {**asdict(self.skipped), "why": self.why, "done": not self.token}
        if self.token:
            line |= {"emitted": [event_json(each, personal=personal) for each in self.emitted]}
        return line | self.previewed


class Skip(Act[Service, SkipOutcome]):
    """Skip one input of a service that is not handled yet, or is parked; those behind it are then handled."""

    path: ClassVar[str] = "/services/{service}/skip"
    decides: ClassVar[bool] = True
    service: str
    event_id: Annotated[str, Field(min_length=1, max_length=1_000, description="The id of the input's event.")]

    async def select(self, desk: Desk) -> Service:
        """Return the service. Raises: WiringError."""
        return desk.log.choreography.service(self.service)

    async def preview(self, desk: Desk, about: Service) -> SkipOutcome:
        """Carry it out in a dry run. Raises: as `skip`."""
        return await preview_skip(desk.log, about, self.event_id)

    async def apply(self, desk: Desk, about: Service) -> SkipOutcome:
        """Skip it. Raises: as `skip`."""
        why = desk.signed(self.reason)
        return SkipOutcome(await skip(desk.log, about, self.event_id, why), why=why)


class _Parked(NamedTuple):
    """An input that was parked once, and its decider; it may be parked no longer."""

    decider: str
    original: Record


async def preview_skip(log: EventLog, service: Service, event_id: str) -> SkipOutcome:
    """Return what `skip` would come to, by carrying it out in a dry run. Raises: as `skip`."""
    trial = await dry_run_of(log, [service])
    found = await skip(trial, service, event_id, "a preview")
    emitted = await emitted_on(trial)
    token = token_of("skip", found, [record.id for record, _ in emitted])
    return SkipOutcome(found, [event for _, event in emitted], token)


async def skip(log: EventLog, service: Service, event_id: str, why: str) -> SkippedNow:
    """Make a service skip an input; behind a parked one, the waiting inputs are handled now.

    Guarantee: who skipped what, when and why is recorded in the journal. If an input was published twice under one id,
    both are skipped.
    Raises: ContractError when there is no such input, or when the service has handled it already: the events it emitted
    stay on the log.
    """
    parked = await _parked(log, service, event_id)
    if parked:
        found = [await _skip_parked(log, service, each, event_id, why) for each in parked]
        if done := [each for each in found if each is not None]:
            return done[-1]
    record = await _input(log, service, event_id, handled=False)
    if record is None:
        if (handled := await _input(log, service, event_id, handled=True)) is not None:
            raise _too_late(service, handled)
        read = ", ".join(sorted(topic.name for topic in service.inputs))
        raise ContractError(
            f"{service.name} reads no event with the id {event_id!r} (it reads {read}): `eventlib tail --json` shows ids"
        )
    if InputReader(log, service).deciders_of(record) is None:
        raise ContractError(f"{service.name} does not handle {record.type}: there is nothing to skip")

    async def decide(task: Task) -> Inputs:
        if record.offset < task.positions.next.get(record.topic, 0):
            raise _too_late(service, record)
        if (known := task.processor.skips.why(event_id)) is not None:
            raise ContractError(f"{service.name} will not handle {record.type} {event_id} anyway ({known})")
        return Inputs(now_ms(), acts=[SkipInput(event_id, why)])

    await act(log, service, record.partition, decide)
    return _skipped(service, record, was_parked=False, steps=())


async def _skip_parked(log: EventLog, service: Service, found: _Parked, event_id: str, why: str) -> SkippedNow | None:
    """Skip an input that waits for a decider; None when it no longer waits."""
    place = service.parked.name, found.original.partition

    async def decide(task: Task) -> Inputs | None:
        parked = task.processor.parked.get(found.decider, key_text(found.original))
        waiting = [] if parked is None else await waiting_behind(parked, place, log.port)
        if not any(record.event_id == event_id for record in waiting):
            return None
        return Inputs(now_ms(), acts=[SkipInput(event_id, why)], release=Release(None, waiting))

    transaction = await act(log, service, found.original.partition, decide)
    if transaction is None:
        return None
    entry = log.codec.decode(JournalEntry, transaction.journal[-1].value or b"")
    return _skipped(service, found.original, was_parked=True, steps=[step.kind for step in entry.steps])


def _skipped(service: Service, record: Record, *, was_parked: bool, steps: Sequence[str]) -> SkippedNow:
    parked_again = "park" in steps
    return SkippedNow(
        service.name,
        record.event_id,
        record.type,
        key_text(record),
        record.topic,
        record.partition,
        record.offset,
        was_parked,
        steps.count("release") - steps.count("drop") - parked_again,
        parked_again,
    )


async def _parked(log: EventLog, service: Service, event_id: str) -> list[_Parked]:
    found = dict[tuple[str, int, int], _Parked]()
    for partition in range(service.partitions):
        async for record in records_between(log.port, (service.parked.name, partition), 0):
            facts, original = original_of(record)
            if original.event_id == event_id and original.topic:
                found[facts["decider"], partition, original.offset] = _Parked(facts["decider"], original)
    return [*found.values()]


async def _input(log: EventLog, service: Service, event_id: str, *, handled: bool) -> Record | None:
    """Return the input with an id, of those that are not handled, or of all that are there; None when there is none."""
    for partition in range(service.partitions):
        positions = await positions_of(log, service, partition)
        for topic in service.inputs:
            start = await log.port.start(topic.name, partition)
            first = start if handled else positions.next.get(topic.name, start)
            async for record in records_between(log.port, (topic.name, partition), first):
                if record.event_id == event_id:
                    return record
    return None


def _too_late(service: Service, record: Record) -> ContractError:
    return ContractError(
        f"{service.name} has handled {record.type} {record.event_id} already (at {record.topic}/{record.partition}/"
        f"{record.offset}): the events it emitted stay on the log. If it was handled wrongly, fix the code and see what "
        f"`eventlib rerun {service.name} --into NAME` makes of it"
    )
