"""Dry runs: an act is carried out by the code that carries it out, on an overlay of the log, so that nothing is written."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pydantic_core import to_json

from eventlib.codec.schema_ids import Schemas
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.overlay import OverlayLog
from eventlib.model.event import Event
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.personal.base import NO_MASTER, FieldCipher, Mask, NoRight
from eventlib.personal.opening import has_personal
from eventlib.queries.state import newest_of_keys
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.keyed_state import memory_of
from eventlib.runtime.records import PAUSE, POSITION_KEY, SKIP, Positions, code_version
from eventlib.runtime.runtime import prepare_own
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.state.memory import MemoryStores

_TOKEN_LENGTH = 12


async def dry_run_of(log: EventLog, services: Sequence[Service], *, may_be_masked: bool = False) -> EventLog:
    """Return a log on which acts on some services can be carried out; what they write there is in its `port.written`.

    Guarantee: nothing is written to the log, to a schema registry or to the keys of subjects. Raises: ContractError when
    today's code would be refused, as when it cannot read what is there; NoRight when handlers would decide by masks.
    """
    if masks(log) and not may_be_masked and any(service.is_personal for service in services):
        raise NoRight(f"handlers decide by personal fields, and this process has no right to read them: {NO_MASTER}")
    port, codec = OverlayLog(log.port), log.codec
    registry = None if isinstance(codec.registry, Schemas) else codec.registry
    registers = isinstance(codec, FramedCodec) and codec.auto_register and registry is None
    made = log.over(port, FramedCodec(port, registry, auto_register=registers, personal=_cipher(log)))
    await made.prepare(services)
    await prepare_own(made, services)
    return made


def masks(log: EventLog) -> bool:
    """Tell whether personal fields are masked on a log, so that handlers may decide otherwise than a service does."""
    return isinstance(log.codec, FramedCodec) and isinstance(log.codec.personal, Mask)


def _cipher(log: EventLog) -> FieldCipher | None:
    if not isinstance(log.codec, FramedCodec) or not has_personal(log.choreography):
        return None
    from eventlib.personal.cipher import DryRunCipher

    return DryRunCipher(log.codec.personal)


class TaskParts:
    """One task's positions, notes and the states of some of its keys, of which small tasks are made: one a key."""

    def __init__(self, log: EventLog, service: Service, partition: int) -> None:
        self._log = log
        self._place = service, partition
        self._notes: dict[str, Record] = {}
        self._states: Mapping[str, Record] = {}
        self._shared: list[Record] = []
        self._code_version = code_version(log.choreography)
        self._parked_end = 0

    async def read(self, states: Iterable[str]) -> None:
        """Read the notes, and the states under these keys of the changelog."""
        service, partition = self._place
        notes = TaskNotes(self._log, [self._place])
        await notes.refresh()
        self._notes = {key_text(record): record for record in notes.of(*self._place, "")}
        self._shared = [each for key, each in self._notes.items() if key.startswith((POSITION_KEY, PAUSE, SKIP))]
        self._states = await newest_of_keys(self._log, service.changelog.name, partition, states)
        self._parked_end = await self._log.port.end(service.parked.name, partition)

    def offset(self, state: str) -> int:
        """Return where on the changelog a state stands; -1 for none."""
        return self._states[state].offset if state in self._states else -1

    async def read_requests(self, state: str, requests: Collection[str]) -> None:
        """Read what there is under these keys of the changelog, of requests that may have entries apart from a state's."""
        known = self._states.get(state)
        if known is None or not memory_of(known).moved:
            return
        service, partition = self._place
        found = await newest_of_keys(self._log, service.changelog.name, partition, requests)
        self._shared += found.values()

    async def task(self, keys: Sequence[str]) -> Task:
        """Return a task that knows the notes and states under some keys of the changelog, and no others."""
        service, partition = self._place
        codec = self._log.codec
        store = MemoryStores().open(service.name, partition, 0, self._log.port.log_id)
        state = TaskState(store, codec, {each.name: each for each in service.deciders}, cached_entries=len(keys) + 1)
        every: Mapping[str, Record] = {**self._notes, **self._states}
        records = [*self._shared, *(every[key] for key in keys if key in every)]
        await codec.known(lambda: state.restore(records, 1))
        where = self._notes.get(POSITION_KEY)
        value = b"" if where is None else where.value or b""
        positions = await codec.known(lambda: codec.decode(Positions, value)) if value else Positions()
        task = Task(service, partition, self._log, state, positions=positions, code_version=self._code_version)
        task.processor.parked_end = self._parked_end
        return task


async def emitted_on(trial: EventLog) -> list[tuple[Record, Event]]:
    """Return the events that were emitted on the log of a dry run, in order, without the copies in compacted topics."""
    port = trial.port
    written = port.written if isinstance(port, OverlayLog) else []
    topics = {topic.name for topic in trial.choreography.topics}
    found = await trial.decode_many(each for each in written if each.topic in topics)
    return [(record, event) for record, event in found if isinstance(event, Event)]


def token_of(act: str, *positions: Any) -> str:
    """Return what names a dry run of an act by the positions that it was made at (12 hex digits)."""
    return sha256(to_json([act, *positions])).hexdigest()[:_TOKEN_LENGTH]


def refuse_moved(previewed: str, now: str) -> None:
    """Refuse an act that was previewed at other positions. Raises: ContractError."""
    if previewed and previewed != now:
        raise ContractError(
            f"nothing was done: what the preview {previewed} has shown is not what would happen now, since the log has "
            "moved on, or it was about something else. Look at a new preview first"
        )
