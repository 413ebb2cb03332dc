"""Records that a task writes for itself: positions, journal, parked keys; and the version of the code that decides."""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from pydantic_core import from_json, to_json

from eventlib.model.choreography import Choreography
from eventlib.model.evolution import wire_name
from eventlib.model.record import Record

POSITION_KEY = "position"
STATE = "state/"
EFFECT = "effect/"
PARKED = "parked/"
SKIP = "skip/"
DUE = "due/"
PAUSE = "pause/"
REQUEST = "request/"


@wire_name("Positions")
@dataclass(frozen=True)
class Positions:
    """The position of a task: the next offset of each input topic, and the time of its last transaction (ms).

    `first_ms` is the time of its first start; 0 when it is not known, or has no past. `past` has, for each topic that the task
    still catches up with, the end as of the first time that it read it. `topics` has facts as JSON, which change seldom and
    are written out once: the topics' `ids`, what was `lost` of them, and how the task's `clock` was reset.
    """

    next: dict[str, int] = field(default_factory=dict)
    at_ms: int = 0
    first_ms: int = 0
    past: dict[str, int] = field(default_factory=dict)
    topics: str = ""

    @property
    def ids(self) -> Mapping[str, str]:
        """The topics' identities, where the log has some; under `LOG` which log it is."""
        return _facts_in(self.topics).get("ids", _NO_FACTS)

    @property
    def lost(self) -> Mapping[str, str]:
        """Which inputs were gone before they were read, by topic, until an operator accepts that."""
        return _facts_in(self.topics).get("lost", _NO_FACTS)

    @property
    def clock(self) -> "TaskClock":
        """The order of the task's times, which an operator may have reset."""
        return TaskClock.of(_facts_in(self.topics).get("clock", _NO_FACTS))

    def with_facts(
        self,
        *,
        ids: Mapping[str, str] | None = None,
        lost: Mapping[str, str] | None = None,
        clock: "TaskClock | None" = None,
    ) -> "Positions":
        """Return these positions with other facts; those that are not given stay."""
        known = {"ids": self.ids if ids is None else ids, "lost": self.lost if lost is None else lost}
        known["clock"] = (self.clock if clock is None else clock).facts
        facts = {name: dict(found) for name, found in known.items() if found}
        return replace(self, topics=to_json(facts).decode() if facts else "")


RESET = '"clock":'
"""The text that the facts of a task contain once its clock was reset."""


class ClockReset(NamedTuple):
    """A task's time went back to `at_ms`, by an operator's act: its transactions from `first_ms` to `last_ms` are before that."""

    first_ms: int
    last_ms: int
    at_ms: int


@dataclass(frozen=True)
class TaskClock:
    """Orders the times of one task: they grow, but where an operator has reset them, since a wrong clock had set them ahead.

    Guarantee: a time is either within one reset's range or the time when something was done: the task uses no time of such a
    range again.
    """

    resets: tuple[ClockReset, ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> "TaskClock":
        """Return the clock that `facts` has."""
        return _clock_in(tuple(facts.items())) if facts else _REAL

    @property
    def facts(self) -> Mapping[str, str]:
        """It as text, by when the resets were."""
        return {str(each.at_ms): f"{each.first_ms}-{each.last_ms}" for each in self.resets}

    def order_ms(self, at_ms: int) -> int:
        """Return a time (ms) by which what was done at a time of the task can be ordered among all tasks."""
        for first_ms, last_ms, reset_ms in self.resets:
            if first_ms <= at_ms <= last_ms:
                return reset_ms - 1
        return at_ms

    def time(self, at_ms: int) -> "TaskTime":
        """Return what orders a task's transactions, and those of different tasks."""
        return (self.order_ms(at_ms), at_ms) if self.resets else (at_ms, at_ms)

    def with_reset(self, first_ms: int, last_ms: int, at_ms: int) -> "TaskClock":
        """Return the clock after one more reset."""
        return TaskClock((*self.resets, ClockReset(first_ms, last_ms, at_ms)))

    def after(self, entry: "JournalEntry") -> "TaskClock":
        """Return the clock after a transaction of its task."""
        clock = self
        for step in entry.steps:
            if step.kind == "clock":
                clock = clock.with_reset(step.first, step.last, entry.at_ms)
        return clock

    def unused(self, at_ms: int) -> int:
        """Return the first time from one on that no reset has taken back."""
        for first_ms, last_ms, _ in sorted(self.resets):
            if first_ms <= at_ms <= last_ms:
                at_ms = last_ms + 1
        return at_ms


TaskTime = tuple[int, int]
"""When something was done, to be compared; and the time (ms) that its records have."""

_REAL = TaskClock()


@lru_cache(maxsize=1_024)
def _clock_in(facts: tuple[tuple[str, str], ...]) -> TaskClock:
    ranges = [(int(at), *map(int, text.split("-"))) for at, text in facts]
    return TaskClock(tuple(ClockReset(first, last, at) for at, first, last in ranges))


LOG = ""
"""A name that no topic has."""
_NO_FACTS: Mapping[str, str] = MappingProxyType({})


@lru_cache(maxsize=1_024)
def _facts_in(topics: str) -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = from_json(topics) if topics else {}
    return found


@wire_name("ParkedKey")
@dataclass(frozen=True)
class ParkedKey:
    """A key of a decider whose inputs wait in the parked topic, and why.

    `first` is the offset there of the oldest one that still waits, `count` how many wait. `edited` is the offset on the
    control topic of the edit whose data that one is to be handled with; -1: its own. `code_version` is that of the code
    that could not handle it, `traceback` where in it that was.
    """

    decider: str = ""
    key: str = ""
    first: int = 0
    count: int = 0
    since_ms: int = 0
    reason: str = ""
    edited: int = -1
    code_version: str = ""
    traceback: str = ""


@wire_name("Pause")
@dataclass(frozen=True)
class Pause:
    """A pause: what a task holds back since a time (ms), who asked for that, and why.

    `kind` is `service`, `decider`, `effect` (the requests of a type, which `effect` names), `key` (of a decider) or `limit`:
    that has other numbers than the declared ones, but for those that are 0.
    `parked_before` is, of a key that was parked when it was paused, the offset of its first input in the parked topic.
    """

    kind: str = ""
    decider: str = ""
    key: str = ""
    effect: str = ""
    by: str = ""
    reason: str = ""
    since_ms: int = 0
    parked_before: int = -1
    limit: str = ""
    per_second: float = 0.0
    burst: int = 0
    concurrent: int = 0

    @property
    def why(self) -> str:
        """The operator who asked for it, and the reason."""
        return f"{self.by}: {self.reason}" if self.reason else self.by


@wire_name("Step")
@dataclass(frozen=True)
class Step:
    """One thing that a transaction did, in order.

    kind: `begin` (the task reads a topic for the first time, from first; records before last are the past; the detail is
    "no past" for a task without one, and for the control topic "first services: " and their names), `run` (inputs
    first..last of a topic), `drop` (a request that was answered before, or a skipped input), `park`, `release` (of
    first in the parked topic; of a parked effect, without a topic), `deadline` (first is its due time in ms), `answer`
    (of an effect), `stall` (an effect was parked). `drop` and `park` refer to the step before them: the last input
    of a run, a release, an edit, or a deadline. `key` is the decider's, `request` the id of an effect's request.
    Acts of operators, with who and why in detail: `edit` (a release of first in the parked topic, with the data
    of the edit at last of the control topic), `discard` (the record at first in the parked topic was not handled,
    and will not be; without a topic, an effect was given up), `refuse` (the request at first of the control topic was not
    carried out), all with the id of the parked input or effect as `request`; `skip` (the input with the id `request` will be
    dropped), `reset` (the task moved from first to last of a topic), `switch` (the task has taken over the states of a
    rerun, as its changelog, the topic, has them at its end).
    `lose` (the log no longer has the record at first of a topic, as detail says; the task continues at last, which is
    lower where the topic was created again or has lost its end).
    `clock` (the task's time was reset to that of its entry: a wrong clock dated its transactions from time first to last).
    `mend` (records first..last of the changelog, the topic, were damaged, as detail says; they were rebuilt from the
    journal and the events, and written again).
    """

    kind: str
    topic: str = ""
    first: int = 0
    last: int = 0
    decider: str = ""
    key: str = ""
    detail: str = ""
    request: str = ""


@wire_name("JournalEntry")
@dataclass(frozen=True)
class JournalEntry:
    """One transaction: the code that made it, its time (ms), its steps in order, and how many events it emitted.

    A chained transaction writes one entry per round, so an entry's inputs precede it. Its events are on the log with its
    time; copies in compacted topics are not counted. Guarantee: every input that a decider handled is in a run, in the
    order of handling, also when nothing came of it; inputs without a handler may be left out. So the journal and the
    inputs are all that an exact replay needs.
    """

    code_version: str = ""
    at_ms: int = 0
    steps: tuple[Step, ...] = ()
    said: int = 0


def state_key(decider: str, key: str) -> str:
    """Return the changelog key of a decider's state."""
    return f"{STATE}{decider}/{key}"


class ChangelogKey(NamedTuple):
    """The subject of a changelog record, decoded from its key.

    `kind` is `state`, `effect`, `parked`, `pause`, `skip`, `request`, or the name of a task's own note, such as `position`.
    `decider` and `key` are those of a state, a parked key or a `request` (its id) that was answered; of an effect, and of an
    input to be skipped, `key` is the id.
    """

    kind: str
    decider: str = ""
    key: str = ""
    request: str = ""


_OF_DECIDERS = frozenset({"state", "parked"})


def changelog_key(key: str) -> ChangelogKey:
    """Return what a record under a key of a changelog is about."""
    kind, _, rest = key.partition("/")
    if kind in _OF_DECIDERS:
        decider, _, rest = rest.partition("/")
        return ChangelogKey(kind, decider, rest)
    if kind == "request":
        decider, length, rest = rest.split("/", 2)
        end = int(length)
        return ChangelogKey(kind, decider, rest[:end], rest[end + 1 :])
    return ChangelogKey(kind, "", rest)


def effect_key(request_id: str) -> str:
    """Return the changelog key of a pending effect."""
    return f"{EFFECT}{request_id}"


def request_key(decider: str, key: str, request_id: str) -> str:
    """Return the changelog key of a request that a key has answered before its newest ones."""
    return f"{REQUEST}{decider}/{len(key)}/{key}/{request_id}"


def skip_key(event_id: str) -> str:
    """Return the changelog key of an input that is not to be handled."""
    return f"{SKIP}{event_id}"


def parked_key(decider: str, key: str) -> str:
    """Return the changelog key of a parked key."""
    return f"{PARKED}{decider}/{key}"


def pause_key(pause: Pause) -> str:
    """Return the changelog key of what is paused."""
    parts = {"decider": (pause.decider,), "effect": (pause.effect,), "key": (pause.decider, pause.key)}
    parts["limit"] = (pause.limit,)
    return "/".join((f"{PAUSE}{pause.kind}", *parts.get(pause.kind, ())))


def due_key(due_ms: int, decider: str, name: str, key: str) -> str:
    """Return the local store's key of a deadline; sorted by time. It is derived from states, never on the log."""
    return f"{DUE}{due_ms:015d}/{decider}/{name}/{key}"


def due_of(stored_key: str) -> tuple[int, str, str, str]:
    """Return (due time in ms, decider, deadline, key) from the local store's key of a deadline."""
    _, due, decider, name, key = stored_key.split("/", 4)
    return int(due), decider, name, key


def pack(record: Record) -> bytes:
    """Return what a local store keeps of a changelog record: its attributes, a line end, and its value."""
    attributes = (
        record.timestamp_ms,
        record.id,
        record.type,
        record.source,
        record.subject,
        record.sequence,
        record.correlation_id,
        record.causation_id,
        record.traceparent,
        [(n, v.decode()) for n, v in record.headers] if record.headers else (),
    )
    return to_json(attributes) + b"\n" + (record.value or b"")


def unpack(key: str, stored: bytes) -> Record:
    """Return the changelog record that a store keeps under a key; its place on the log is not kept."""
    line, _, value = stored.partition(b"\n")
    timestamp_ms, *attributes, headers = from_json(line)
    pairs = tuple((name, text.encode()) for name, text in headers)
    return Record(*("", 0, -1, timestamp_ms, key.encode(), value, *attributes, pairs))


def code_version(choreography: Choreography) -> str:
    """Return a fingerprint of the modules that declare the deciders' states, events and functions (12 hex digits).

    Guarantee: comments, docstrings and layout do not change it.
    """
    return modules_version({module for decider in choreography.deciders for module in decider.modules})


def modules_version(modules: Iterable[str]) -> str:
    """Return a fingerprint of what modules do, whatever their comments, docstrings and layout (12 hex digits)."""
    return _fingerprint(tuple((name, _source_of(name)) for name in sorted(modules)))


def _source_of(module: str) -> str | None:
    try:
        return inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # none is at hand, as in a frozen program
        return None


@lru_cache(maxsize=16)
def _fingerprint(sources: tuple[tuple[str, str | None], ...]) -> str:
    """Return the fingerprint of modules by name and source; a process asks for few, and for each again and again."""
    digest = hashlib.blake2b(digest_size=6)
    for name, source in sources:
        try:
            tree = None if source is None else ast.parse(source)
        except SyntaxError:
            tree = None
        digest.update((name if tree is None else " ".join(_parts(tree))).encode())
    return digest.hexdigest()


def _parts(value: object) -> Iterator[str]:
    """Yield what is in a syntax tree, without positions and without statements that do nothing.

    Fields that are empty are left out: each version of Python adds some, and a fingerprint should outlive them.
    """
    if isinstance(value, ast.AST):
        yield f"({type(value).__name__}"
        for name, field in ast.iter_fields(value):
            if field is not None and field != []:
                yield name
                yield from _parts(field)
        yield ")"
    elif isinstance(value, list):
        for each in value:
            if not _is_idle(each):
                yield from _parts(each)
    else:
        yield repr(value)


def _is_idle(statement: object) -> bool:
    """Tell whether a statement does nothing: a docstring, another constant on its own, or `pass`."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)
