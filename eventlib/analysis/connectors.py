"""What connects a choreography with databases and subscribers, and what is asked for in vain. Exact, by the types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import EventType
from eventlib.model.finding import Finding


@dataclass(frozen=True, slots=True)
class Connector:
    """A sink or a webhook's subscriber: the events that it gets, those of `where` only; or an outbox: those that it puts.

    `asks_for_all` is whether its events were not named singly; `tables` is how many tables it has, None where it needs none.
    """

    kind: Literal["sink", "webhook", "outbox"]
    name: str
    events: tuple[EventType, ...]
    where: Mapping[str, str | int | bool] = field(default_factory=dict)
    asks_for_all: bool = False
    tables: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def findings(flow: EventGraph, connectors: Iterable[Connector]) -> Iterable[Finding]:
    """Return what sinks and subscribers ask for in vain; an outbox refuses what no service handles when it is declared."""
    for connector in (each for each in connectors if each.kind != "outbox"):
        if not connector.asks_for_all:
            yield from _without_source(flow, connector)
            yield from _filtered_out(connector)
        elif connector.where and not any(_can_match(event, connector.where) for event in connector.events):
            yield _filter(connector, "*", "any event")
        if not connector.tables and connector.tables is not None:
            yield Finding(
                "error",
                "sink-without-table",
                connector.name,
                str(connector),
                f"{connector} has tables=, and there is no table in it",
                "its handlers have nothing that they can write, and a rebuild makes an empty schema",
                "give the metadata that its tables are declared on, or leave tables= out for an inbox",
            )


def _without_source(flow: EventGraph, connector: Connector) -> Iterable[Finding]:
    for event in connector.events:
        if event not in flow.entries and not flow.emitting(event):
            yield Finding(
                "error",
                "consumer-without-source",
                f"{connector.name}: {event.__name__}",
                str(connector),
                f"{connector} asks for {event.__name__}, and no service emits it",
                "it never gets one",
                "emit it somewhere, ask for another event, or declare request=True if it comes from outside",
            )


def _filtered_out(connector: Connector) -> Iterable[Finding]:
    for event in connector.events:
        if connector.where and not _can_match(event, connector.where):
            yield _filter(connector, event.__name__, event.__name__)


def _filter(connector: Connector, subject: str, what: str) -> Finding:
    where = ", ".join(f"{name} = {value!r}" for name, value in connector.where.items())
    return Finding(
        "error",
        "filter-without-match",
        f"{connector.name}: {subject}",
        str(connector),
        f"{connector} asks for {what} where {where}, and none can have that",
        "it never gets one",
        "compare a field that the event has with a value of the field's type, or leave the event out",
    )


def _can_match(event: EventType, where: Mapping[str, str | int | bool]) -> bool:
    return all(
        name in event.model_fields and _can_be(event.model_fields[name].annotation, value)
        for name, value in where.items()
    )


def _can_be(annotation: Any, value: str | int | bool) -> bool:
    """Tell whether a value of a type can equal one of a filter; what is no text, number or bool is compared as text."""
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    if get_origin(annotation) in {Union, UnionType, Annotated}:
        return any(_can_be(each, value) for each in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return any(each == value if isinstance(each, str | int) else str(each) == value for each in annotation)
    if annotation is bool or annotation is int:
        return isinstance(value, int)  # True equals 1
    return annotation is not type(None) and isinstance(value, str)
