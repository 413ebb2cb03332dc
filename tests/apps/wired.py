"""Choreographies in a few lines, from what answers what: for tests of what follows from types alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Never

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.effect import FOREVER, Retry

Emits = Mapping[type[Event], Sequence[type[Event]]]


@dataclass(frozen=True)
class Nothing:
    """A state that remembers nothing."""


@dataclass(frozen=True)
class Asks:
    """An effect: what it answers, how often it is tried, what `otherwise` says, and whether it calls a port named `port`."""

    answers: Sequence[type[Event]]
    retry: Retry = FOREVER
    otherwise: type[Event] | None = None
    port: bool = False


@dataclass(frozen=True)
class Wired:
    """A decider to be: what it says about which event, after which deadline, and what its effects answer."""

    emits: Emits
    asks: Mapping[Any, Asks] = field(default_factory=dict)
    overdue: Sequence[type[Event]] | None = None
    key: str = "order_id"
    state: type[Any] = Nothing


def choreography(**deciders: Wired | Emits) -> Choreography:
    """Return a choreography of one service for each decider; parameters are their names."""
    made = {name: each if isinstance(each, Wired) else Wired(each) for name, each in deciders.items()}
    return Choreography("planted", [Service(name, deciders=[decider(name, each)]) for name, each in made.items()])


def _same(state: object, _event: object) -> object:
    return state


def decider(name: str, wired: Wired) -> Decider[Any]:
    """Return a decider of which only the types matter."""
    made: Decider[Any] = Decider(name, state=wired.state, key=wired.key)
    made.evolve(_same)
    for event, emits in wired.emits.items():
        made.on(event)(_answering(f"on_{event.__name__}", emits))
    for event, asks in wired.asks.items():
        made.effect(event, retry=asks.retry, otherwise=_otherwise(asks))(_asking(asks))
    if wired.overdue is not None:

        @made.deadline
        def overdue_at(_state: object) -> datetime | None:
            return None

        overdue_at.passed(_answering("passed", wired.overdue, arguments=1))
    return made


def _answering(name: str, emits: Sequence[type[Event]], arguments: int = 2) -> Callable[..., Any]:
    def one(_state: object) -> Any:
        return []

    def two(_state: object, _event: object) -> Any:
        return []

    return _annotated(one if arguments == 1 else two, name, list[_union(emits)] if emits else list[Never])  # type: ignore[misc]  # made of values


def _asking(asks: Asks) -> Callable[..., Any]:
    async def ask(_event: object) -> Any: ...
    async def ask_port(_event: object, port: object) -> Any: ...

    return _annotated(ask_port if asks.port else ask, "ask", _union(asks.answers))


def _otherwise(asks: Asks) -> Callable[..., Any] | None:
    if asks.otherwise is None:
        return None

    def unknown(_event: object) -> Any: ...

    return _annotated(unknown, "unknown", asks.otherwise)


def _union(events: Sequence[type[Event]]) -> Any:
    return reduce(or_, events)


def _annotated(function: Callable[..., Any], name: str, returned: Any) -> Callable[..., Any]:
    function.__name__ = name
    function.__annotations__ = {"return": returned}
    return function
