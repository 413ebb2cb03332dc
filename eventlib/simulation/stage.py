"""The stage: an application prepared once, with all its tasks started, and reset for each schedule."""

from asyncio import CancelledError
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from functools import partial
from typing import Any, Never, TypeVar
from zlib import crc32

from eventlib.codec.wire_format import FramedCodec
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider, EmittedMeta
from eventlib.model.event import Event, Meta, contract_of, key_of
from eventlib.model.service import Service
from eventlib.personal.opening import ephemeral_cipher
from eventlib.replay.rebuilding import rebuilt
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import Damage, RuntimeContext
from eventlib.runtime.records import code_version
from eventlib.runtime.restore import restored
from eventlib.runtime.runtime import prepare_own
from eventlib.simulation.log import SimulatedLog, driven
from eventlib.state.base import Stores
from eventlib.state.memory import MemoryStores
from eventlib.values import to_ms

S = TypeVar("S")

BEGIN_MS = to_ms(datetime(2026, 1, 1, tzinfo=UTC))
"""When every simulation begins."""

CONFIG = RuntimeConfig(skipped_inputs=3, restore_chunk=7)
"""Small limits, so that a short schedule reaches them."""


class BrokenHandler(Exception):
    """Raised by a handler with a bug, or on a machine without memory."""


class ProcessDied(BaseException):
    """Raised where a handler, or an effect, takes its process down: nothing in that process catches it."""


class Panic(BaseException):
    """Raised as a native library's panic is: not as an error."""


ODD_ENDS: tuple[type[BaseException], ...] = (BrokenHandler, Panic, CancelledError, SystemExit, GeneratorExit)
"""What a function of the application that is broken ends with."""


class Stage:
    """An application whose tasks have all started, on a log that is otherwise empty.

    `broken` are the deciders' keys whose handlers raise at the moment, `deadly` those that take their process down until
    they are parked: by their handlers ("handler"), or by their effects ("effect").
    """

    def __init__(self, choreography: Choreography) -> None:
        self.declared = choreography
        self.broken = set[tuple[str, str]]()
        self.deadly = dict[tuple[str, str], str]()
        self.played = _fallible(choreography, self.broken, self.deadly)
        self.code_version = code_version(choreography)
        self.changelogs = {service.changelog.name: service.name for service in self.played.services}
        self.topic_roles = _topic_roles(self.played)
        self.events = {topic for topic, what in self.topic_roles.items() if what == "event"}
        self.readers = _readers(self.played)
        self.handles = _handles(self.played)
        self._log = SimulatedLog(lambda: BEGIN_MS)
        self._codec = FramedCodec(self._log, personal=ephemeral_cipher(choreography))
        driven(self._prepare())

    def set(self, clock: Callable[[], int]) -> EventLog:
        """Return the application on a fresh log."""
        self.broken.clear()
        self.deadly.clear()
        log = EventLog(self._log.forked(clock), self._codec, self.played)
        log.rebuild = rebuilt
        return log

    def context(self, log: EventLog, stores: Stores, on_damage: Callable[[str], object]) -> RuntimeContext:
        """Return the runtime context of a log's tasks; `on_damage` is called with damage."""
        return RuntimeContext(log, stores, {}, {}, CONFIG, self.code_version, damage=Damage(on_damage))

    async def _prepare(self) -> None:
        log = EventLog(self._log, self._codec, self.played)
        await log.prepare()
        await prepare_own(log, self.played.services)
        context = self.context(log, MemoryStores(), lambda _: None)
        for service in self.played.services:
            for partition in range(service.partitions):
                claim = self._log.take_over(service.name, partition)
                task = await restored(service, claim, context)
                worker = TaskCommitter(task, claim, log, lambda *_: True, skipped_inputs=CONFIG.skipped_inputs)
                while await worker.begin(BEGIN_MS):
                    pass


class _FallibleDecider(Decider[S]):
    """A decider whose handlers raise for the keys that are currently broken."""

    broken: set[tuple[str, str]]
    deadly: dict[tuple[str, str], str]

    def decide(self, state: S, event: Event, meta: Meta, emitted_meta: EmittedMeta) -> tuple[S | None, list[Event]]:
        """See `Decider.decide`."""
        if self.deadly and self.deadly.get((self.name, key_of(event) or "")) == "handler":
            raise ProcessDied
        if not (self.broken and (self.name, key_of(event) or "") in self.broken):
            return super().decide(state, event, meta, emitted_meta)
        sound, self._apply = self._apply, partial(_end_oddly, crc32(meta.id.encode()))
        try:
            return super().decide(state, event, meta, emitted_meta)
        finally:
            self._apply = sound

    def pass_deadline(self, name: str, state: S, meta: Meta, emitted_meta: EmittedMeta) -> tuple[S | None, list[Event]]:
        """See `Decider.pass_deadline`."""
        if self.deadly and self.deadly.get((self.name, meta.subject)) == "handler":
            raise ProcessDied
        if self.broken and (self.name, meta.subject) in self.broken:
            raise BrokenHandler("simulated")
        return super().pass_deadline(name, state, meta, emitted_meta)


def _end_oddly(number: int, *_: object) -> Never:
    raise ODD_ENDS[number % len(ODD_ENDS)]("simulated")


def _fallible(
    choreography: Choreography, broken: set[tuple[str, str]], deadly: dict[tuple[str, str], str]
) -> Choreography:
    services = list[Service]()
    for service in choreography.services:
        played = copy(service)
        played.deciders = tuple(_fallible_decider(decider, broken, deadly) for decider in service.deciders)
        services.append(played)
    return Choreography(choreography.name, services, facts=choreography.facts)


def _topic_roles(choreography: Choreography) -> dict[str, str]:
    """Return the content of each topic, for the invariant monitor: events, states, or journals."""
    found = {contract_of(event).topic.name: "event" for event in choreography.events}
    for service in choreography.services:
        found |= {service.changelog.name: "changelog", service.journal.name: "journal"}
    return found


def _readers(choreography: Choreography) -> dict[str, list[Service]]:
    """Return the consumers of each topic."""
    found: dict[str, list[Service]] = {}
    for service in choreography.services:
        for topic in (*service.inputs, service.control):
            found.setdefault(topic.name, []).append(service)
    return found


def _handles(choreography: Choreography) -> dict[tuple[str, str], list[str]]:
    """Return which deciders of a service handle a type of event."""
    found: dict[tuple[str, str], list[str]] = {}
    for service in choreography.services:
        for decider in service.deciders:
            for event in decider.handlers:
                found.setdefault((service.name, contract_of(event).type), []).append(decider.name)
    return found


def _fallible_decider(
    decider: Decider[Any], broken: set[tuple[str, str]], deadly: dict[tuple[str, str], str]
) -> Decider[Any]:
    made = object.__new__(_FallibleDecider)
    made.__dict__.update(vars(decider))  # its handlers, effects and deadlines: the same objects
    made.broken, made.deadly = broken, deadly
    return made
