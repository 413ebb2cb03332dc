"""Compares what today's code says with what was said, and tells the difference."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eventlib.choreography import Choreography
from eventlib.event import Event, contract_of, key_of
from eventlib.log.port import Record, key_text
from eventlib.replay.report import Difference, Input, Kind, Telling
from eventlib.replay.strip import Item


@dataclass(frozen=True, slots=True)
class Asked:
    """Which decisions are compared: those since a time (ms), and of some sagas (correlation ids) only; None: all."""

    since_ms: int = 0
    sagas: frozenset[str] | None = None

    def about(self, correlation_id: str | None) -> bool:
        """Tell whether a decision of this saga is compared."""
        return self.sagas is None or correlation_id in self.sagas


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of today's code, beside the recorded one: the input, what was said, what would be, what went wrong."""

    handler: str
    key: str
    at_ms: int
    input: Input
    then: Sequence[Item]
    now: Sequence[Event]
    kind: Kind | None = None
    why: str = ""


def same(now: Sequence[Event], then: Sequence[Item]) -> bool:
    """Tell whether events are those that were said: their types, contents, keys, topics and order."""
    if len(now) != len(then):
        return False
    for event, (record, said) in zip(now, then, strict=True):
        if event is not said and (
            type(event) is not type(said) or not (event.__dict__ == said.__dict__ or _equal(event, said))
        ):
            return False
        topic, key = _place(type(event))
        if topic != record.topic or (None if key is None else str(event.__dict__[key]).encode()) != record.key:
            return False
    return True


def _equal(event: Event, said: Event) -> bool:
    """Compare by what goes on the wire, where a value is not equal to itself, as NaN."""
    return event.model_dump_json() == said.model_dump_json()


@lru_cache(maxsize=1_024)
def _place(event_type: type[Event]) -> tuple[str, str | None]:
    contract = contract_of(event_type)
    return contract.topic.name, contract.key


class Describer:
    """Makes differences readable: events as their fields, and sagas by name.

    An saga is known by the key field of the events that end a saga.
    """

    def __init__(self, choreography: Choreography) -> None:
        contracts = [contract_of(event) for event in choreography.events]
        self._fields = tuple(dict.fromkeys(c.key for c in contracts if c.final and c.key is not None))

    def difference(self, decision: Decision) -> Difference:
        """Return a decision that differs."""
        facts = [decision.input.facts, *(_facts(e) for e in decision.now), *(_facts(e) for _, e in decision.then)]
        kind: Kind = "other" if decision.then and decision.now else "silent" if decision.then else "talks"
        return Difference(
            decision.handler,
            decision.kind or kind,
            decision.key,
            self._saga(facts) or decision.key,
            decision.at_ms,
            decision.input,
            tuple(told(event, record) for record, event in decision.then),
            tuple(telling(event) for event in decision.now),
            decision.why,
        )

    def _saga(self, facts: Iterable[Mapping[str, object]]) -> str:
        for each in facts:
            for name in self._fields:
                if each.get(name):
                    return str(each[name])
        return ""


def input_of(record: Record, event: object) -> Input:
    """Return a record as what was decided on."""
    place = record.topic, record.partition, record.offset
    return Input(record.type or type(event).__name__, record.event_id, *place, facts=_facts(event))


def telling(event: Event) -> Telling:
    """Return an event as it would be said."""
    contract = contract_of(type(event))
    return Telling(contract.type, key_of(event) or "", contract.topic.name, _facts(event))


def told(event: Any, record: Record) -> Telling:
    """Return an event as it was said."""
    error = "" if isinstance(event, Event) else str(event)
    return Telling(record.type or "", key_text(record), record.topic, _facts(event), error)


def _facts(event: object) -> dict[str, object]:
    return event.model_dump(mode="json") if isinstance(event, Event) else {}
