"""What waits in one task while its past is folded: effects for their answers, parked inputs for a person."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from analytics.history.rows import StagedRows
from analytics.history.tables import EFFECTS, PARKED
from eventlib.model.effect import Effect
from eventlib.model.signatures import name_of


@dataclass(slots=True)
class OpenEffect:
    """An effect that has no answer yet; times are in ms."""

    id: str
    service: str
    decider: str
    handler: str
    port: str | None
    key: str
    saga: str | None
    request_type: str
    requested_ms: int
    attempts: int = 1
    parked_ms: int | None = None
    reason: str = ""

    def row(self, answered_ms: int | None, outcome: str) -> tuple[Any, ...]:
        """Return its row of the table, with its end."""
        latency_ms = None if answered_ms is None else answered_ms - self.requested_ms
        name = self.id, self.service, self.decider, self.handler, self.port, self.key, self.saga
        return *name, self.requested_ms, answered_ms, self.attempts, outcome, latency_ms

    def parked_row(self, at_ms: int | None, how: str | None) -> tuple[Any, ...]:
        """Return its row among what was parked."""
        name = self.service, self.decider, self.key, self.saga
        return *name, self.parked_ms, self.reason, self.id, self.request_type, self.attempts, at_ms, how


class OpenEffects:
    """The effects of one task that have no answer yet.

    An attempt is what the journal knows: the first, and one for each time that a person has let a parked one run again.
    """

    def __init__(self, rows: StagedRows) -> None:
        self._rows = rows
        self._open = dict[str, OpenEffect]()

    def request(self, effect: OpenEffect) -> None:
        """Begin to wait for an answer."""
        self._open[effect.id] = effect

    def answer(self, request_id: str, at_ms: int, outcome: str) -> None:
        """End one: with an answer, or because a person gave it up."""
        effect = self._open.pop(request_id, None)
        if effect is not None:
            self._rows.settle(EFFECTS, effect.row(at_ms, outcome))

    def park(self, request_id: str, at_ms: int, reason: str) -> None:
        """Take note that its attempts are used up."""
        effect = self._open.get(request_id)
        if effect is not None:
            effect.parked_ms, effect.reason = at_ms, reason

    def unpark(self, request_id: str, at_ms: int, how: str) -> None:
        """End its parking: `how` a person wanted it."""
        effect = self._open.get(request_id)
        if effect is None:
            return
        if effect.parked_ms is not None:
            self._rows.settle(PARKED, effect.parked_row(at_ms, how))
            effect.parked_ms = None
        if how == "discarded":
            self.answer(request_id, at_ms, how)
        else:
            effect.attempts += 1

    def restore(self, packed: bytes) -> None:
        """Take up one that `open` has given."""
        effect = OpenEffect(*from_json(packed))
        self._open[effect.id] = effect

    def open(self) -> Iterator[tuple[tuple[Any, ...], bytes]]:
        """Yield the rows of those without an answer, each with what is carried on."""
        for effect in self._open.values():
            fields = [getattr(effect, name) for name in OpenEffect.__slots__]
            yield effect.row(None, "open" if effect.parked_ms is None else "parked"), to_json(fields)

    def parked(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of those that are parked."""
        for effect in self._open.values():
            if effect.parked_ms is not None:
                yield effect.parked_row(None, None)


def effect_names(effects: Mapping[type[Any], Effect]) -> dict[type[Any], tuple[str, str | None]]:
    """Return each effect's handler and port, by the request."""
    return {request: (name_of(effect.ask.call), effect.ask.port) for request, effect in effects.items()}


@dataclass(slots=True)
class ParkedInput:
    """An input, or a deadline (without a topic), that waits; `attempts` counts how often it was handled in vain."""

    topic: str
    offset: int
    saga: str | None
    parked_ms: int
    reason: str
    input_id: str | None
    input_type: str | None
    attempts: int


@dataclass
class ParkedInputs:
    """The inputs of one task that wait, by decider and key, in their order."""

    rows: StagedRows
    service: str
    _waiting: dict[tuple[str, str], list[ParkedInput]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return bool(self._waiting)

    def park(self, name: tuple[str, str], parked: ParkedInput) -> None:
        """Add an input, or park one again that was handled in vain."""
        waiting = self._waiting.setdefault(name, [])
        known = next((each for each in waiting if (each.topic, each.offset) == (parked.topic, parked.offset)), None)
        if known is None:
            waiting.append(parked)
        else:
            known.reason = parked.reason
            known.attempts += parked.attempts

    def release(self, name: tuple[str, str], topic: str, offset: int, at_ms: int, how: str) -> None:
        """End the wait of an input, and of the deadlines before it, which fall due again by themselves."""
        waiting = self._waiting.get(name, [])
        at = next((i for i, each in enumerate(waiting) if (each.topic, each.offset) == (topic, offset)), None)
        if at is None:
            return
        *before, released = waiting[: at + 1]
        for each in before:
            self._settle(name, each, at_ms, "retried")
        self._settle(name, released, at_ms, how)
        del waiting[: at + 1]
        if not waiting:
            del self._waiting[name]

    def go_on(self, name: tuple[str, str], at_ms: int) -> None:
        """End the wait of what is left of a key that goes on: deadlines, of whose release the journal tells nothing."""
        for each in self._waiting.pop(name, ()):
            self._settle(name, each, at_ms, "retried")

    def clear(self, at_ms: int) -> None:
        """End every wait: the task has taken over the states of a rerun."""
        for name, waiting in self._waiting.items():
            for each in waiting:
                self._settle(name, each, at_ms, None)
        self._waiting.clear()

    def restore(self, packed: bytes) -> None:
        """Take up one that `open` has given."""
        decider, key, *fields = from_json(packed)
        self._waiting.setdefault((decider, key), []).append(ParkedInput(*fields))

    def open(self) -> Iterator[tuple[tuple[Any, ...], bytes]]:
        """Yield the rows of those that wait, each with what is carried on."""
        for name, waiting in self._waiting.items():
            for each in waiting:
                fields = [getattr(each, slot) for slot in ParkedInput.__slots__]
                yield self._row(name, each, None, None), to_json([*name, *fields])

    def _settle(self, name: tuple[str, str], parked: ParkedInput, at_ms: int, how: str | None) -> None:
        self.rows.settle(PARKED, self._row(name, parked, at_ms, how))

    def _row(self, name: tuple[str, str], parked: ParkedInput, at_ms: int | None, how: str | None) -> tuple[Any, ...]:
        about = parked.saga, parked.parked_ms, parked.reason, parked.input_id, parked.input_type, parked.attempts
        return self.service, *name, *about, at_ms, how
