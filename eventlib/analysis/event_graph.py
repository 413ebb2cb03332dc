"""What may follow from what in a choreography: its reactions, read off the types, and walks along them.

All of it goes by publish lists, so it is as exact as they are: a handler that emits one thing about one event and
another about a second is better written as two. What one handler emits about one event is *possible*, never certain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.model import signatures
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.effect import Effect
from eventlib.model.event import EventType, contract_of


@dataclass(frozen=True, slots=True)
class Transition:
    """What a decider may emit about one event, or when a deadline has passed (then there is no `cause`)."""

    kind: Literal["handler", "effect", "deadline"]
    service: str
    decider: Decider[Any]
    name: str
    cause: EventType | None
    emits: tuple[EventType, ...]
    effect: Effect | None = None

    @property
    def where(self) -> str:
        """Its place, for a person: `service/decider.function`."""
        return f"{self.service}/{self.decider.name}.{self.name}"


class Reachability(Mapping[EventType, EventType | None]):
    """The events that can be come to, nearest first, each with the one before it; None for where it began."""

    def __init__(self, before: Mapping[EventType, EventType | None]) -> None:
        self._before = before

    def __getitem__(self, event: EventType) -> EventType | None:
        return self._before[event]

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._before)

    def __len__(self) -> int:
        return len(self._before)

    def path(self, event: EventType) -> list[EventType]:
        """Return the shortest way to an event, from where the walk began."""
        found = [event]
        while (before := self._before[found[-1]]) is not None:
            found.append(before)
        return found[::-1]


class EventGraph:
    """A choreography's reactions, and what its events declare of failing and undoing.

    `entries` come from outside. `reversers` are the events that undo one, by that one; `compensating` are all these,
    but for what is a failure as well, and what does nothing but ask for one. `happening` are the events that something from outside can lead to,
    deadlines included; `hoping` are those of them that it can lead to before anything has failed.
    """

    def __init__(self, choreography: Choreography) -> None:
        self.choreography = choreography
        self.reactions = tuple(_reactions(choreography))
        self.entries = tuple(event for event in choreography.events if _is_entry(event, choreography))
        self.failures = choreography.failures
        self.reversers: dict[EventType, tuple[EventType, ...]] = {}
        for event in choreography.events:
            for undone in contract_of(event).reverses:
                self.reversers[undone] = (*self.reversers.get(undone, ()), event)
        self._by_cause: dict[EventType | None, list[Transition]] = {}
        self._by_emitted: dict[EventType, list[Transition]] = {}
        for reaction in self.reactions:
            self._by_cause.setdefault(reaction.cause, []).append(reaction)
            for emitted in reaction.emits:
                self._by_emitted.setdefault(emitted, []).append(reaction)
        self.compensating = self._compensating()
        self.happening = self._happening(lambda _: True)
        self.hoping = self._happening(lambda event: event not in self.failures | self.compensating)

    def to(self, event: EventType) -> Sequence[Transition]:
        """Return the reactions to an event: handlers, and effects that it requests."""
        return self._by_cause.get(event, ())

    def emitting(self, event: EventType) -> Sequence[Transition]:
        """Return the reactions that may emit an event."""
        return self._by_emitted.get(event, ())

    def walk(
        self,
        *starts: EventType,
        past: Callable[[EventType], bool] = lambda _: True,
        by: Callable[[Transition], bool] = lambda _: True,
    ) -> Reachability:
        """Walk from these events along reactions that `by` lets through; what `past` refuses is come to, and no further.

        Deadlines answer no event, so no walk takes them.
        """
        before: dict[EventType, EventType | None] = dict.fromkeys(starts)
        pending = list(before)
        for event in pending:  # grows
            if not past(event):
                continue
            for reaction in filter(by, self.to(event)):
                for emitted in reaction.emits:
                    if emitted not in before:
                        before[emitted] = event
                        pending.append(emitted)
        return Reachability(before)

    def leading_to(self, event: EventType) -> set[EventType]:
        """Return the events that an event can follow from, and itself; deadlines answer none."""
        found = {event}
        pending = [event]
        for emitted in pending:  # grows
            for cause in (r.cause for r in self.emitting(emitted) if r.cause is not None and r.cause not in found):
                found.add(cause)
                pending.append(cause)
        return found

    def is_forward(self, event: EventType) -> bool:
        """Tell whether a saga may go on after an event: it has neither failed, nor ended, nor turned back."""
        return event not in self.failures and event not in self.compensating and not contract_of(event).final

    def _compensating(self) -> frozenset[EventType]:
        reversing = frozenset(event for events in self.reversers.values() for event in events) - self.failures
        asking = {
            event
            for event in self._by_cause
            if event is not None
            and event not in self.failures
            and reversing & (emitted := {each for reaction in self.to(event) for each in reaction.emits})
            and emitted <= reversing | self.failures
        }
        return reversing | asking

    def _happening(self, past: Callable[[EventType], bool]) -> frozenset[EventType]:
        found = {*self.walk(*self.entries, past=past)}
        while True:
            receivers = {r.decider for r in self.reactions if r.cause in found or found & {*r.emits}}
            late = [e for r in self.reactions if r.kind == "deadline" and r.decider in receivers for e in r.emits]
            if found >= {*late}:
                return frozenset(found)
            found |= {*self.walk(*late, past=past)}


def _is_entry(event: EventType, choreography: Choreography) -> bool:
    contract = contract_of(event)
    if any(event in decider.awaits for decider in choreography.deciders):
        return False  # it comes from outside, and only after the effect has asked for it
    return contract.request or contract.external is not None or event in choreography.facts


def _reactions(choreography: Choreography) -> Iterable[Transition]:
    for service in choreography.services:
        for decider in service.deciders:
            for event, handler in decider.handlers.items():
                yield Transition("handler", service.name, decider, handler.name, event, handler.emits)
            for event, effect in decider.effects.items():
                name = signatures.name_of(effect.ask.call)
                yield Transition("effect", service.name, decider, name, event, effect.leads_to, effect)
            for deadline in decider.deadlines.values():
                emits = () if deadline.handler is None else deadline.handler.emits
                yield Transition("deadline", service.name, decider, deadline.name, None, emits)
