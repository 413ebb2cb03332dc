"""The status of services, from their log alone: their tasks' owners, lag, pending effects and parked keys."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eventlib.errors import DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.operations.input_health import HeldInput, InputLoss, held_inputs, input_losses, topic_faults
from eventlib.operations.startup_waits import STATE_DIR, Waiting, waiting_here
from eventlib.queries.decoding import event_topics_there
from eventlib.queries.parked import Parking, parkings_in
from eventlib.queries.pauses import Paused, pauses_in
from eventlib.queries.task_metadata import TaskNotes, store_of
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.records import state_key
from eventlib.state.inspect import kept_in
from eventlib.values import from_ms, now_ms

MINUTE_MS = 60_000
_LONG_S = 60
_LOOKED_AT = 2_000
"""How many records behind a position are read, to find out whether a service handles them."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task: its owner (None: none), the inputs that it has not handled, and the age of the oldest.

    `to_restore` counts the changelog records that a start on this machine would read; None where that is unknown.
    `pending` are effects without an answer, `parked` what waits for a person: keys, with their inputs, and effects.
    """

    service: str
    partition: int
    owner: str | None
    lag: int
    behind_s: float
    handled_at: datetime | None
    pending: int
    parked_keys: int
    parked_inputs: int
    parked_effects: int
    to_restore: int | None


@dataclass(frozen=True, slots=True)
class SagaCount:
    """How many sagas are in a state, and how many of them are overdue."""

    state: str
    count: int
    overdue: int
    has_ended: bool


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The effects of a service for one type of request that have no answer yet: how many, and the oldest one's key and time."""

    service: str
    effect: str
    count: int
    key: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a choreography at one time.

    `owners_known` is False where a log does not know who runs its services. `said_per_s` is events per second on each
    topic within the last minute. `sagas` is None unless requested. `waiting` are the processes of this machine that wait
    at their start, `damaged` the changelog records that were found damaged, `paused` what operators have paused.
    `lost` are inputs that are gone before they were read, `held` those behind open transactions, `faults` what keeps
    services from reading topics whole. `past_of_ended` are effects among `parked` that follow from a service's past, and
    whose saga has ended. `unanswered` are the effects without an answer, those that wait the longest first.
    """

    at: datetime
    tasks: Sequence[TaskStatus]
    owners_known: bool
    said_per_s: Mapping[str, float]
    parked: Sequence[Parking]
    sagas: Sequence[SagaCount] | None
    waiting: Sequence[Waiting] = ()
    damaged: Sequence[DamagedRecord] = ()
    paused: Sequence[Paused] = ()
    lost: Sequence[InputLoss] = ()
    held: Sequence[HeldInput] = ()
    faults: Sequence[str] = ()
    past_of_ended: Sequence[Parking] = ()
    unanswered: Sequence[Unanswered] = ()

    def of(self, service: str) -> list[TaskStatus]:
        """Return the tasks of a service."""
        return [task for task in self.tasks if task.service == service]


class StatusReader:
    """Reads the status of a choreography repeatedly: a later read costs what has changed since.

    `state_dir` is where processes of this machine keep their local stores. Cost of the first read: see `TaskNotes`;
    `with_sagas` reads each saga's state once; without `with_stores`, `to_restore` is unknown, and no store is opened. Of each read: the ends of the topics, and up to 2,000 records for each
    partition with a lag.
    """

    def __init__(
        self, log: EventLog, *, with_sagas: bool = False, with_stores: bool = True, state_dir: str = STATE_DIR
    ) -> None:
        self._log = log
        self._state_dir = state_dir
        self._with_sagas = with_sagas
        self._with_stores = with_stores
        self._notes = TaskNotes(log, sagas=log.choreography.sagas if with_sagas else None)
        self._of_sagas: TaskNotes | None = None
        self._readers = {service.name: InputReader(log, service) for service in log.choreography.services}

    @property
    def records_read(self) -> int:
        """How many changelog records were read so far."""
        return self._notes.records_read

    async def read(self) -> Status:
        """Return the current status. Raises: ContractError for changelog records that cannot be read."""
        await self._notes.refresh()
        services = self._log.choreography.services
        owners = {service.name: await self._log.port.owners(service.name) for service in services}
        parked = await parkings_in(self._notes)
        tasks = [
            await self._task(service, partition, (owners[service.name] or {}).get(partition))
            for service, partition in self._notes.tasks
        ]
        owners_known = all(each is not None for each in owners.values())
        sagas = self._sagas() if self._with_sagas and self._log.choreography.sagas is not None else None
        waiting = waiting_here(self._log.port.url, self._state_dir)
        now, rates, paused = from_ms(now_ms()), await self._rates(), await pauses_in(self._log, self._notes)
        damaged, lost = self._notes.damaged, await input_losses(self._log, self._notes)
        held, faults = await held_inputs(self._log), await topic_faults(self._log)
        over, asked = await self._past_of_ended(parked), self._unanswered()
        return Status(
            now, tasks, owners_known, rates, parked, sagas, waiting, damaged, paused, lost, held, faults, over, asked
        )

    def _unanswered(self) -> list[Unanswered]:
        found = dict[tuple[str, str], list[Record]]()
        for service, partition in self._notes.tasks:
            for request in self._notes.effects(service, partition)[0]:
                found.setdefault((service.name, request.type or ""), []).append(request)
        oldest = {name: min(requests, key=lambda each: each.timestamp_ms) for name, requests in found.items()}
        return [
            Unanswered(*name, len(found[name]), first.subject or "", from_ms(first.timestamp_ms))
            for name, first in sorted(oldest.items(), key=lambda item: item[1].timestamp_ms)
        ]

    async def _past_of_ended(self, parked: Sequence[Parking]) -> list[Parking]:
        """Return the effects of the past whose saga is known to have ended; reads sagas only where there are such effects."""
        past, declared = [each for each in parked if each.is_of_past], self._log.choreography.sagas
        if not past or declared is None:
            return []
        if not self._with_sagas:
            self._of_sagas = self._of_sagas or TaskNotes(self._log, sagas=declared)
            await self._of_sagas.refresh()
        known, name = (self._of_sagas or self._notes).sagas, declared.decider.name
        ended = {key for key, state in known.items() if state.has_ended}
        return [each for each in past if state_key(name, each.key) in ended]

    async def _task(self, service: Service, partition: int, owner: str | None) -> TaskStatus:
        positions = await self._notes.positions(service, partition)
        next_offsets = {} if positions is None else positions.next
        lag, oldest_ms = 0, None
        there = await self._log.port.topics()
        for topic in (each for each in service.inputs if each.name in there):
            of_topic, since_ms = await self._behind(service, (topic.name, partition), next_offsets.get(topic.name))
            lag += of_topic
            if since_ms is not None:
                oldest_ms = since_ms if oldest_ms is None else min(oldest_ms, since_ms)
        pending, stalled = self._notes.effects(service, partition)
        parked = [note for _, note in await self._notes.parked(service, partition)]
        return TaskStatus(
            service.name,
            partition,
            owner,
            lag,
            0.0 if oldest_ms is None else max(now_ms() - oldest_ms, 0) / 1000,
            None if positions is None else from_ms(positions.at_ms),
            len(pending),
            len(parked),
            sum(note.count for note in parked),
            len(stalled),
            await self._to_restore(service, partition) if self._with_stores else None,
        )

    async def _behind(self, service: Service, place: TopicPartition, position: int | None) -> tuple[int, int | None]:
        """Return how many inputs a task has not handled, and the time of the first; records without a handler do not count."""
        end = await self._log.port.end(*place)
        hidden = max(await self._log.port.written_end(*place) - end, 0)
        first = max(position or 0, await self._log.port.start(*place))
        if position is None and service.start_from == "latest":
            return 0, None
        if first >= end:
            return hidden, None
        records = await self._log.port.read(*place, first, _LOOKED_AT)
        inputs = [record for record in records if self._readers[service.name].deciders_of(record) is not None]
        rest = (end - records[-1].offset - 1 if records else 0) + hidden
        return len(inputs) + max(rest, 0), inputs[0].timestamp_ms if inputs else None

    async def _to_restore(self, service: Service, partition: int) -> int | None:
        path, place = store_of(self._log, service), (service.changelog.name, partition)
        if path is None or service.changelog.name not in await self._log.port.topics():
            return None
        kept = kept_in(path, partition, self._log.port.log_id, 0, ())
        start, end = await self._log.port.start(*place), await self._log.port.end(*place)
        return end - (start if kept is None else kept.checkpoint)

    async def _rates(self) -> Mapping[str, float]:
        since_ms, there = now_ms() - MINUTE_MS, await self._log.port.topics()
        found = dict[str, float]()
        for topic in await event_topics_there(self._log):
            came = 0
            for place in ((topic.name, partition) for partition in range(there[topic.name].partitions)):
                came += await self._log.port.end(*place) - await self._log.port.offset_at(*place, since_ms)
            found[topic.name] = came / (MINUTE_MS / 1000)
        return found

    def _sagas(self) -> list[SagaCount]:
        known = self._notes.sagas.values()
        counts, now = Counter((each.name, each.has_ended) for each in known), from_ms(now_ms())
        overdue = Counter((each.name, each.has_ended) for each in known if each.is_late(now))
        ordered = sorted(counts, key=lambda name: (name[1], name[0]))
        return [SagaCount(name, counts[name, ended], overdue[name, ended], ended) for name, ended in ordered]


def without_answer(status: Status) -> list[str]:
    """Return a sentence about each kind of effect that has had no answer for long; that may be an outage, and is no complaint."""
    return [
        f"{each.service}: {each.count:,} {each.effect} without an answer, that of {each.key} since "
        f"{each.since:%Y-%m-%d %H:%M:%S} UTC; why is in the service's log, at its fifth failed attempt"
        for each in status.unanswered
        if (status.at - each.since).total_seconds() > _LONG_S
    ]
