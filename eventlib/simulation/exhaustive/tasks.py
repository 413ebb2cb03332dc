"""Steps of tasks in an exploration, with numbers for objects."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import ParkedKey, Positions, changelog_key, pack, parked_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer, Inputs
from eventlib.simulation.scenario import Choices
from eventlib.simulation.stage import Stage
from eventlib.state.base import Store
from eventlib.state.memory import MemoryStores

T = TypeVar("T")


class Numbered(Generic[T]):
    """Assigns one number to equal things, and keeps the first of them."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._things: list[T] = []

    def number(self, thing: T, same: Hashable) -> int:
        """Return a thing's number: that of an earlier one with an equal `same`, or a new one."""
        number = self._numbers.setdefault(same, len(self._things))
        if number == len(self._things):
            self._things.append(thing)
        return number

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)


def canonical(thing: object) -> Hashable:
    """Return an equal value for equal things: the `repr` of a set depends on the hash seed."""
    if isinstance(thing, int | str):
        return thing
    if is_dataclass(thing):
        thing = (type(thing).__name__, *(getattr(thing, field.name) for field in fields(thing)))
    match thing:
        case dict():
            return tuple(sorted((repr(key), canonical(value)) for key, value in thing.items()))
        case set() | frozenset():
            return tuple(sorted(map(repr, thing)))
        case tuple() | list():
            return tuple(map(canonical, thing))
        case Choices():
            return None
        case _:
            return repr(thing)


TaskName = tuple[str, int]
Shared = Callable[[TaskName, str], Record | None]


class State(NamedTuple):
    """A decider's state of a key after a step; None if it is forgotten. Equal ones have an equal `same`."""

    decider: str
    key: str
    state: object
    same: Hashable


class Due(NamedTuple):
    """When a deadline of a decider's key falls due (ms)."""

    at_ms: int
    decider: str
    key: str
    name: str


class Made(NamedTuple):
    """The result of a step: the task's state, the emitted events, changed states, and what it parked, if anything."""

    knows: int
    emitted: tuple[int, ...]
    states: tuple[State, ...]
    parked: ParkedKey | None


class Tasks:
    """Computes each step once: a task is deterministic, so equal state and input give an equal result.

    Every step is made by a task that was just restored, as if its process had died before it. `shared` returns the state
    of a key that was there before the exploration, as long as nothing in it has changed that state.
    """

    def __init__(self, stage: Stage, log: EventLog) -> None:
        self.shared: Shared = _nothing
        self._stage = stage
        self._log = log
        self._records = Numbered[Record]()
        self._known = Numbered[Mapping[str, Record]]()
        self._known.number({}, ())
        self._steps: dict[tuple[TaskName, int, Hashable, int], Made] = {}
        self._dues: dict[tuple[TaskName, int], Sequence[Due]] = {}

    def number(self, record: Record) -> int:
        """Return the number of a record on the log; records that differ only in ids and causes are equal."""
        # An external event has no sequence: its id, given by its publisher, distinguishes it.
        id_from_outside = record.id if record.sequence is None else None
        same = (record.topic_partition, record.value, record.astuple()[7:11], id_from_outside, record.timestamp_ms)
        return self._records.number(record.placed(0), same)

    def record(self, number: int) -> Record:
        """Return the record on the log with a number."""
        return self._records[number]

    def handle(self, task: TaskName, knows: int, number: int, at_ms: int) -> Made:
        """Let a task handle a record at a time."""
        return self._made(task, knows, number, Inputs(at_ms, [self._records[number]]))

    def handle_answer(self, task: TaskName, knows: int, answer: Answer, at_ms: int) -> Made:
        """Let a task handle an effect's answer at a time."""
        same = answer.request_id, canonical(answer.event), answer.reason
        return self._made(task, knows, same, Inputs(at_ms, answers=[answer]))

    def pass_deadlines(self, task: TaskName, knows: int, at_ms: int) -> Made:
        """Let a task pass the deadlines that are due at a time."""
        return self._made(task, knows, None, Inputs(at_ms, due_ms=at_ms))

    def _made(self, task: TaskName, knows: int, same: Hashable, inputs: Inputs) -> Made:
        name = task, knows, same, inputs.now_ms
        found = self._steps.get(name)
        if found is None:
            found = self._steps[name] = self.make(task, knows, inputs)
        return found

    def next_due(self, task: TaskName, knows: int) -> Due | None:
        """Return the next deadline of a task's keys; that a state is forgotten is none."""
        return next((due for due in self._due(task, knows) if due.name != FORGET), None)

    def forgets(self, task: TaskName, knows: int) -> Due | None:
        """Return when a task forgets a key's state, if it does so before its next deadline."""
        return next((due for due in self._due(task, knows)[:1] if due.name == FORGET), None)

    def _due(self, task: TaskName, knows: int) -> Sequence[Due]:
        if (task, knows) not in self._dues:
            self._dues[task, knows] = sorted(self._all_due(self._stage.played.service(task[0]), knows))
        return self._dues[task, knows]

    def _all_due(self, service: Service, knows: int) -> Iterator[Due]:
        deciders = {decider.name: decider for decider in service.deciders if decider.has_deadlines}
        known = self._known[knows]
        for key, record in known.items():
            kind, name, of, _ = changelog_key(key)
            if kind != "state" or name not in deciders or parked_key(name, of) in known:
                continue
            entry = entry_of(record, deciders[name], self._log.codec)
            yield from (Due(at, name, of, each) for each, at in entry.due.items())

    def know(self, known: Mapping[str, Record]) -> int:
        """Return the number of what a task knows: its changelog records by their keys."""
        same = tuple(sorted((key, r.id or "", r.value or b"", r.sequence or 0, r.headers) for key, r in known.items()))
        return self._known.number(known, same)

    def pending(self, knows: int) -> Iterator[Record]:
        """Yield the requests of a task's pending effects."""
        for key, record in self._known[knows].items():
            if changelog_key(key).kind == "effect" and not record.headers:
                yield record

    def event(self, record: Record) -> Event:
        """Return the event in a record of the application."""
        event = self._log.decode(record)
        assert event is not None  # noqa: S101  its choreography has emitted it
        return event

    def make(self, name: TaskName, knows: int, inputs: Inputs) -> Made:
        """Let a task handle inputs."""
        known = self._known[knows]
        service = self._stage.played.service(name[0])
        made = self._restored(service, name[1], known).handle(inputs)
        events = [record for record in made.events if self._stage.topic_roles.get(record.topic) == "event"]
        emitted, renamed = self._canonical_ids(events)
        changed = {(r.key or b"").decode(): r for r in (_renamed(record, renamed) for record in made.changes[:-1])}
        after = {key: r for key, r in {**known, **changed}.items() if r.value is not None or self.shared(name, key)}
        states = [self._state(service, key, r) for key, r in changed.items() if changelog_key(key).kind == "state"]
        parked = next((r.value for key, r in after.items() if changelog_key(key).kind == "parked"), None)
        note = None if parked is None else self._log.codec.decode(ParkedKey, parked)
        return Made(self.know(after), tuple(emitted), tuple(states), note)

    def _canonical_ids(self, events: list[Record]) -> tuple[list[int], dict[bytes, bytes]]:
        """Return the numbers of emitted events, and the replacements of their ids.

        An id shows which of several causes came last; nothing else depends on it.
        """
        emitted, renamed = list[int](), dict[bytes, bytes]()
        for event in events:
            number = self.number(_renamed(event, renamed))
            emitted.append(number)
            known = self._records[number].event_id
            if known != event.event_id:
                renamed[event.event_id.encode()] = known.encode()
        return emitted, renamed

    def _restored(self, service: Service, partition: int, known: Mapping[str, Record]) -> Task:
        store: Store = MemoryStores().open(service.name, partition, 1, "explored")
        if self.shared is not _nothing:
            gone = {key for key, record in known.items() if record.value is None}
            store = OverlaidStore(
                store, lambda key: None if key in gone else self.shared((service.name, partition), key)
            )
        deciders = {decider.name: decider for decider in service.deciders}
        state = TaskState(store, self._log.codec, deciders, len(known) + 1)
        state.restore([*known.values()], 1)
        topics = [topic.name for topic in (*service.inputs, service.control)]
        positions = Positions(dict.fromkeys(topics, 0))
        return Task(service, partition, self._log, state, positions=positions, code_version=self._stage.code_version)

    def _state(self, service: Service, key: str, record: Record) -> State:
        _, name, of, _ = changelog_key(key)
        decider: Any = next(each for each in service.deciders if each.name == name)
        state = self._log.codec.decode(decider.state, record.value) if record.value else None
        return State(name, of, state, canonical((name, of, state)))


def _nothing(_task: TaskName, _key: str) -> Record | None:
    return None


def _renamed(record: Record, names: Mapping[bytes, bytes]) -> Record:
    """Return a record with ids replaced everywhere; all ids have one length."""
    for name, known in names.items():
        value = None if record.value is None else record.value.replace(name, known)
        key = None if record.key is None else record.key.replace(name, known)
        event_id = known.decode() if record.id == name.decode() else record.id
        record = record.replace(value=value, key=key, id=event_id)
    return record


class OverlaidStore(Store):
    """Reads fall through to `under`; scans do not, since they ask for what a task has under way."""

    def __init__(self, over: Store, under: Callable[[str], Record | None]) -> None:
        self._over = over
        self._under = under

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._over.checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        found = self._over.get(key)
        record = self._under(key) if found is None else None
        return found if record is None else pack(record)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self._over.write(changes, checkpoint)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`."""
        return self._over.scan(prefix)

    def clear(self) -> None:
        """See `Store.clear`."""
        self._over.clear()

    def close(self) -> None:
        """See `Store.close`."""
        self._over.close()
