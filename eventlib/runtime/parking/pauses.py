"""Pauses: what an operator holds back for a while. Its inputs, deadlines and effects wait, and nothing is decided otherwise."""

from collections.abc import Mapping
from dataclasses import replace

from eventlib.codec.base import Codec
from eventlib.limits import Limit, limit_set
from eventlib.model.event import contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.records import PAUSE, ParkedKey, Pause, pause_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Hold

KINDS = ("service", "decider", "effect", "key", "limit")


class Pauses:
    """The pauses and limits of a task, as committed.

    `topics` are the inputs that it does not read: those of a paused decider, for all that read them. `limits` are those
    of its effects, with what an operator has set. `any` is asked for every input.
    """

    def __init__(self, service: Service, state: TaskState, codec: Codec) -> None:
        self._state = state
        self._declared = service.limits
        self._codec = codec
        self._inputs: dict[str, frozenset[str]] = {
            decider.name: frozenset(contract_of(event).topic.name for event in decider.handlers)
            for decider in service.deciders
        }
        self._every = frozenset(topic.name for topic in service.inputs)
        self.is_changed = False
        self.load()

    def load(self) -> None:
        """Read what is committed."""
        self.all: Mapping[str, Pause] = {
            pause_key(pause): pause for pause in map(self._read, self._state.committed(PAUSE))
        }
        self.any = bool(self.all)
        self._all_wait = "pause/service" in self.all
        self._deciders = {each.decider for each in self.all.values() if each.kind == "decider"}
        self._effects = {each.effect for each in self.all.values() if each.kind == "effect"}
        self.limits = self._limits()
        self._keys = {(each.decider, each.key): each for each in self.all.values() if each.kind == "key"}
        unread = [self._inputs.get(name, frozenset()) for name in self._deciders]
        self.topics: frozenset[str] = self._every if self._all_wait else frozenset[str]().union(*unread)
        self._late = {name for name, topics in self._inputs.items() if topics & self.topics}
        self.is_changed = False

    def of_key(self, decider: str, key: str) -> Pause | None:
        """Return the pause of a key, if it has one of its own."""
        return self._keys.get((decider, key))

    def holds_deadline(self, decider: str, key: str) -> bool:
        """Tell whether a key's deadlines wait: also while one of its decider's topics is not read for another's sake."""
        return self._all_wait or decider in self._late or decider in self._deciders or (decider, key) in self._keys

    def holds_effect(self, request: Record) -> bool:
        """Tell whether an effect's next attempt waits."""
        decider = (request.source or "").partition("/")[2]
        is_held = self._all_wait or decider in self._deciders or request.type in self._effects
        return is_held or (decider, request.subject or "") in self._keys

    def why_unhandled(self, decider: str, key: str | None = None) -> str:
        """Return why parked inputs of a decider, or of a key, cannot be handled now; empty when they can."""
        names = [Pause("service"), Pause("decider", decider)]
        for name in names if key is None else [*names, Pause("key", decider, key)]:
            found = self.all.get(pause_key(name))
            if found is not None:
                return f"{paused_name(found)} is paused ({found.why}): resume it first"
        return ""

    def apply(self, hold: Hold, parked: ParkedKey | None, at_ms: int) -> None:
        """Begin or end a pause in the open transaction; one that is there already, or is not, changes nothing."""
        pause, name = hold.pause, pause_key(hold.pause)
        is_set_anew = pause.kind == "limit" and not hold.ends
        if (name in self.all) is not hold.ends and not is_set_anew:
            return
        self.is_changed = True
        if hold.ends:
            self._state.put(name, None)
            return
        first = -1 if parked is None else parked.first
        since = replace(pause, since_ms=at_ms, parked_before=first)
        value = self._codec.encode(since)
        self._state.put(name, Record("", 0, -1, 0, b"", value, type=wire_name_of(Pause), subject=pause.key))

    def _limits(self) -> Mapping[str, Limit]:
        """Return the limits of the service's effects: the declared ones, but for what an operator has set."""
        found = dict(self._declared)
        for each in self.all.values():
            if each.kind == "limit" and each.limit in found:  # code of before may have had others
                found[each.limit] = limit_set(found[each.limit], each.per_second, each.burst, each.concurrent)
        return found

    def _read(self, record: Record) -> Pause:
        return self._codec.decode(Pause, record.value or b"")


def paused_name(pause: Pause) -> str:
    """Return what a pause is about, for people."""
    match pause.kind:
        case "service":
            return "the service"
        case "limit":
            return f"the limit {pause.limit}"
        case "key":
            return f"{pause.decider} {pause.key}"
        case _:
            return f"{pause.kind} {pause.effect or pause.decider}"
