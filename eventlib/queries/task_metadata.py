"""What tasks have noted for themselves beside states: where they are, what is parked, which effects are pending.

The newest of it is looked up in the local stores of this machine where there are any, and only what came since is read
from the changelogs; so a refresh costs next to nothing beside a log on this machine. Elsewhere the first one reads the
changelogs, and the next ones what is new.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.ground.url import log_file
from eventlib.log.base import TOMBSTONES_KEPT
from eventlib.log.reading import SkippingReader
from eventlib.model.record import Record, key_text
from eventlib.model.saga_status import SagaState, SagaStates
from eventlib.model.service import Service
from eventlib.runtime.records import (
    EFFECT,
    PARKED,
    PAUSE,
    POSITION_KEY,
    SKIP,
    ParkedKey,
    Pause,
    Positions,
    state_key,
    unpack,
)
from eventlib.state.inspect import kept_in
from eventlib.state.open import stores_beside
from eventlib.values import now_ms

T = TypeVar("T")

_NOTES = (PARKED, PAUSE, SKIP, EFFECT, POSITION_KEY)
_CHUNK = 2_000
_FRESH_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)


class TaskNotes:
    """The notes of some tasks: of all of a choreography's, unless fewer are named.

    With `sagas`, also how each of these stands, by key: that takes reading every state of their decider once, about 10 us
    each. `records_read` counts the changelog records that the looks so far have cost.
    """

    def __init__(
        self,
        log: EventLog,
        tasks: Iterable[tuple[Service, int]] | None = None,
        sagas: SagaStates[Any] | None = None,
    ) -> None:
        every = [(service, p) for service in log.choreography.services for p in range(service.partitions)]
        self.tasks = every if tasks is None else [*tasks]
        self.records_read = 0
        self.sagas: dict[str, SagaState] = {}
        self._sagas = sagas
        self._saga_prefix = "" if sagas is None else state_key(sagas.decider.name, "")
        self._saga_service = "" if sagas is None else log.choreography.service_of(sagas.decider).name
        self._log = log
        self._port = SkippingReader(log.port)
        self._next: dict[tuple[str, int], int] = {}
        self._newest: dict[tuple[str, int], dict[str, Record]] = {}

    @property
    def damaged(self) -> list[DamagedRecord]:
        """What of the changelogs is damaged, as far as it was read."""
        return [*self._port.damaged.values()]

    async def refresh(self) -> None:
        """Take in what was noted since the last refresh, or by now."""
        there = await self._log.port.topics()
        for service, partition in self.tasks:
            if service.changelog.name in there:
                await self._refresh_task(service, partition)

    def of(self, service: Service, partition: int, prefix: str) -> list[Record]:
        """Return a task's newest notes whose keys begin with a prefix, the oldest first."""
        notes = self._newest.get((service.name, partition), {})
        found = [record for key, record in notes.items() if key.startswith(prefix)]
        return sorted(found, key=lambda record: record.timestamp_ms)

    async def positions(self, service: Service, partition: int) -> Positions | None:
        """Return where a task is; None when it has never run."""
        found = self.of(service, partition, POSITION_KEY)
        return await decoded(self._log, Positions, found[0]) if found else None

    async def parked(self, service: Service, partition: int) -> list[tuple[Record, ParkedKey]]:
        """Return a task's parked keys."""
        return [(record, await decoded(self._log, ParkedKey, record)) for record in self.of(service, partition, PARKED)]

    async def pauses(self, service: Service, partition: int) -> list[Pause]:
        """Return what a task holds back."""
        return [await decoded(self._log, Pause, record) for record in self.of(service, partition, PAUSE)]

    def effects(self, service: Service, partition: int) -> tuple[list[Record], list[Record]]:
        """Return the requests of a task's effects: those that are pending, and those that are parked."""
        found = self.of(service, partition, EFFECT)
        return [each for each in found if not each.headers], [each for each in found if each.headers]

    async def _begin(self, service: Service, partition: int) -> None:
        """Take in what the local store has, if there is one at hand."""
        task, place, path = (service.name, partition), (service.changelog.name, partition), store_of(self._log, service)
        self._next[task], self._newest[task] = 0, {}
        prefixes = (*_NOTES, self._saga_prefix) if service.name == self._saga_service else _NOTES
        since_ms = now_ms() - _FRESH_MS
        kept = None if path is None else kept_in(path, partition, self._log.port.log_id, since_ms, prefixes)
        if kept is None or kept.checkpoint > await self._log.port.end(*place):
            return
        self._next[task] = kept.checkpoint
        for key, value in kept.values.items():
            await self._take(task, unpack(key, value).replace(topic=place[0], partition=partition))

    async def _take(self, task: tuple[str, int], record: Record) -> None:
        key = record.key or b""
        if key.startswith(_NOTES_BYTES):
            notes = self._newest[task]
            notes.pop(name := key_text(record), None)
            if record.value is not None:
                notes[name] = record
        elif self._sagas is not None and task[0] == self._saga_service and key.startswith(self._saga_prefix.encode()):
            state = await decoded(self._log, self._sagas.decider.state, record) if record.value else None
            status = None if state is None else self._sagas.state_of(state)
            if status is None:
                self.sagas.pop(key_text(record), None)
            else:
                self.sagas[key_text(record)] = status

    async def _refresh_task(self, service: Service, partition: int) -> None:
        task, place = (service.name, partition), (service.changelog.name, partition)
        if task not in self._next:
            await self._begin(service, partition)
        offset = max(self._next[task], await self._log.port.start(*place))
        while records := await self._port.read(*place, offset, _CHUNK):
            offset = records[-1].offset + 1
            self.records_read += len(records)
            for record in records:
                await self._take(task, record)
        self._next[task] = offset


_NOTES_BYTES = tuple(prefix.encode() for prefix in _NOTES)


def store_of(log: EventLog, service: Service) -> Path | None:
    """Return the file with a service's local stores where reading it is cheap: beside an SQLite log."""
    file = log_file(log.port.url)
    return None if file is None else stores_beside(file) / f"{service.name}.db"


async def decoded(log: EventLog, kind: type[T], record: Record) -> T:
    """Return what is in a note, after learning its schema if it is new. Raises: ContractError."""
    try:
        return await log.codec.known(lambda: log.codec.decode(kind, record.value or b""))
    except UnknownSchema as error:
        raise ContractError(f"a note of a task cannot be read: {error}") from error
