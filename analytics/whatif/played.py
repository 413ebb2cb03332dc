"""One task of the alternative past: the runtime's own processor on states that are in memory."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from analytics.audit.routing import Routes
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.effect import Effect
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.model.signatures import name_of
from eventlib.replay.journal_steps import NONE_REFUSED, Refusal
from eventlib.runtime.bootstrap import mark_of
from eventlib.runtime.keyed_state import due_times
from eventlib.runtime.processor import InputProcessor
from eventlib.runtime.records import Positions
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Answer
from eventlib.runtime.transaction_builder import TransactionBuilder
from eventlib.state.memory import MemoryStores
from eventlib.values import to_ms

TaskName = tuple[str, int]
"""A service and a partition."""


class Emitted(NamedTuple):
    """An event of the alternative past; `asks` when its effect is to run."""

    record: Record
    event: Event
    asks: bool


class Due(NamedTuple):
    """A deadline of a key, and when it falls due (ms)."""

    at_ms: int
    decider: str
    key: str
    name: str


class Failed(NamedTuple):
    """A handler that raised: its key waits from here on."""

    decider: str
    key: str
    reason: str


class PlayedTask:
    """A task whose inputs and answers are given to it one by one; it goes on with the states of the task `before` it.

    `handlers` has what is called for an input, a deadline or an answer, by the source and its type or name.

    Guarantee: it decides as the runtime does: what `InputProcessor` returns is what it emits. A key whose handler raises
    takes no further input.
    """

    def __init__(self, service: Service, partition: int, log: EventLog, before: "PlayedTask | None" = None) -> None:
        self.service = service
        self.deciders = {decider.name: decider for decider in service.deciders}
        self.handlers = handler_names(service)
        self.failed = list[Failed]()
        self.effects: dict[str, Effect] = {
            request.__name__: effect for decider in service.deciders for request, effect in decider.effects.items()
        }
        self._keys = set[tuple[str, str]]()
        self._stuck = set[tuple[str, str]]()
        self._past_ends: dict[str, int] = {}
        if before is None:
            store = MemoryStores().open(service.name, partition, 0, log.port.log_id)
            self._state = TaskState(store, log.codec, self.deciders, 1)
        else:
            self._state, self._keys = before._state, before._keys  # noqa: SLF001  of the same class
            self._stuck, self._past_ends = before._stuck, before._past_ends  # noqa: SLF001
        self._processor = InputProcessor(service, partition, log, self._state, "")
        self._fall_due_anew()

    def begin(self, topic: str, past_end: int) -> None:
        """Take note that a topic's records before an offset were the service's past when it first started."""
        if self.service.effects == "new":
            self._past_ends[topic] = past_end

    def handles(self, record: Record) -> bool:
        """Return whether a decider here handles a record."""
        return bool(self._processor.inputs.deciders_of(record))

    def handle(
        self, record: Record, event: Event | None, at_ms: int, refused: Mapping[str, Refusal] = NONE_REFUSED
    ) -> list[Emitted]:
        """Handle an input, but for the deciders that refused it then. Raises: UnknownSchema, UndecodableRecord."""
        if record.offset < self._past_ends.get(record.topic, 0) and record.offset >= 0:
            record = record.replace(headers=record.headers + mark_of(self.service.emits_as))
        draft = self._draft(at_ms)
        if event is None:
            record, event = self._processor.inputs.read(record)
        key = key_text(record)
        for decider in self._processor.inputs.deciders_of(record) or ():
            if decider.name in refused or (decider.name, key) in self._stuck:
                continue
            self._keys.add((decider.name, key))
            failure = self._processor.decide(decider, key, record, event)
            if failure is not None:
                self._fail(decider.name, key, failure.reason)
        return self._emitted(draft)

    def take_answer(self, answer: Answer, at_ms: int) -> list[Emitted]:
        """Emit what an effect came back with; nothing when it is not pending here."""
        draft = self._draft(at_ms)
        self._processor.take_answer(answer)
        return self._emitted(draft)

    def pass_deadline(self, due: Due, at_ms: int) -> list[Emitted] | None:
        """Let a deadline pass; None when its key has no such deadline any more."""
        decider = self.deciders[due.decider]
        entry = self._state.entry(decider, due.key)
        if entry.due.get(due.name) != due.at_ms or (due.decider, due.key) in self._stuck:
            return None
        draft = self._draft(at_ms)
        # The runtime lets pass what the clock says; here, what was recorded or the virtual time says so.
        self._processor._pass_deadline(decider, due.key, due.name, due.at_ms, entry)  # noqa: SLF001
        if draft.parks:
            self._fail(due.decider, due.key, f"deadline {due.name} raised")
        return self._emitted(draft)

    def dues(self, key: str) -> Iterator[Due]:
        """Yield the deadlines of a key."""
        for decider in self.deciders.values():
            if decider.has_deadlines:
                for name, at_ms in self._state.entry(decider, key).due.items():
                    yield Due(at_ms, decider.name, key, name)

    def was_due(self, due: Due, then: Decider[Any]) -> bool:
        """Return whether a key's state has this deadline by the functions of another decider, too."""
        state = self._state.entry(self.deciders[due.decider], due.key).state
        at = then.due(state).get(due.name) if isinstance(state, then.state) else None
        return at is not None and to_ms(at) == due.at_ms

    @property
    def known_keys(self) -> list[str]:
        """The keys that it has handled."""
        return sorted({key for _, key in self._keys})

    def _fall_due_anew(self) -> None:
        """Compute the deadlines of all keys with today's functions."""
        for name, key in self._keys:
            decider = self.deciders.get(name)
            if decider is not None:
                entry = self._state.entry(decider, key)
                self._state.set_entry(decider, key, entry.replace(due=due_times(decider, entry.state, entry.memory)))

    def _fail(self, decider: str, key: str, reason: str) -> None:
        self._stuck.add((decider, key))
        self.failed.append(Failed(decider, key, reason))

    def _draft(self, at_ms: int) -> TransactionBuilder:
        draft = self._processor.draft = TransactionBuilder(at_ms, Positions(), ())
        return draft

    def _emitted(self, draft: TransactionBuilder) -> list[Emitted]:
        """Return what a transaction has emitted, without copies in compacted topics."""
        asked = {record.event_id for record, _ in draft.requested}
        return [
            Emitted(record, event, record.event_id in asked)
            for record, event in zip(draft.events, draft.emitted, strict=True)
            if event is not None
        ]


def handler_names(service: Service) -> dict[tuple[str, str], str]:
    """Return the names of a service's functions by source and cause: an event's type, `deadline NAME` or `effect TYPE`."""
    found = dict[tuple[str, str], str]()
    for decider in service.deciders:
        source = f"{service.emits_as}/{decider.name}"
        for event, handler in decider.handlers.items():
            found[source, contract_of(event).type] = f"{source}.{handler.name}"
        for name in decider.deadlines:
            found[source, f"deadline {name}"] = f"{source}.{name}"
        for request, effect in decider.effects.items():
            found[source, f"effect {contract_of(request).type}"] = f"{source}.{name_of(effect.ask.call)}"
    return found


def followed(choreography: Choreography) -> list[Service]:
    """Return the services that are played: those whose past is kept, since they read no compacted topic."""
    return [*Routes(choreography).services]


def task_names(choreography: Choreography) -> Iterator[TaskName]:
    """Yield the tasks of the services that are played."""
    return ((service.name, n) for service in followed(choreography) for n in range(service.partitions))
