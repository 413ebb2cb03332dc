"""Declarations of events and states that cannot hold what they promise. Exact, by their fields' types and their topics.

An event's key is `str()` of its key field: one value has to have one text, and two values two. That the key is a field
at all, and the key of every decider that handles the event, is refused at import. Of what is immutable, containers refuse
a change, and events and states are frozen; a model or dataclass within them is what its own class declares. External
records without a value are what deletes are in a compacted topic: Debezium writes one after each, and compaction keeps it.
"""

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import contract_of
from eventlib.model.finding import Finding
from eventlib.model.schema.derive import known_record_of
from eventlib.model.schema.types import Record, nodes_in

_TEXTS = (str, int, UUID)


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the keys that are no text of their own, the null values without a meaning, and the parts that can change."""
    yield from _keys(flow)
    yield from _null_values(flow)
    yield from _parts(flow)


def _keys(flow: EventGraph) -> Iterable[Finding]:
    for event in flow.choreography.events:
        key = contract_of(event).key
        wrong = None if key is None else _what_is_wrong(event.model_fields[key].annotation)
        if wrong is not None:
            yield Finding(
                "error",
                "key-without-text",
                f"{event.__name__}.{key}",
                event.__name__,
                f"{event.__name__}.{key} is the key, and {wrong}",
                "a key decides on partition and state: two values with one text share a state, one value with two has two",
                "make it a str, an int or a UUID that is always there",
            )


def _what_is_wrong(annotation: Any) -> str | None:
    if get_origin(annotation) is Annotated:
        return _what_is_wrong(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return next((wrong for each in get_args(annotation) if (wrong := _what_is_wrong(each))), None)
    if get_origin(annotation) is Literal:
        annotation = type(get_args(annotation)[0])
    if annotation is NoneType:
        return "may be None, whose text is 'None' for every such event"
    if isinstance(annotation, type) and issubclass(annotation, _TEXTS):
        return None
    return f"{getattr(annotation, '__name__', annotation)} has no text of its own"


def _null_values(flow: EventGraph) -> Iterable[Finding]:
    for event in flow.choreography.events:
        contract, name = contract_of(event), event.__name__
        if contract.external is not None and contract.topic.compacted and contract.null is None:
            yield Finding(
                "warning",
                "null-without-meaning",
                name,
                name,
                f"{name} does not declare what a record without a value means, and {contract.topic.name} is compacted",
                "others write such a record when they delete a key; it is passed over, so that the key lives on here",
                'declare null={"deleted": True} (the fields of the event that it is), or null="skip" on the class',
            )


def _parts(flow: EventGraph) -> Iterable[Finding]:
    """Yield the classes of parts that are not frozen, each at the first event or state that holds it."""
    choreography = flow.choreography
    known = set[type]()
    for owner in (*choreography.events, *(decider.state for decider in choreography.deciders)):
        parts = [node.cls for node in nodes_in(known_record_of(owner)) if isinstance(node, Record)]
        for part in parts:
            if part is owner or part in known or _is_frozen(part):
                continue
            known.add(part)
            is_model = issubclass(part, BaseModel)
            frozen = "model_config = ConfigDict(frozen=True)" if is_model else "@dataclass(frozen=True)"
            yield Finding(
                "warning",
                "part-not-frozen",
                part.__name__,
                owner.__name__,
                f"{part.__name__} is a part of {owner.__name__}, and its fields can be changed in place",
                "what one handler changes in it is what the next one in its process is given, and no other process",
                f"declare it with `{frozen}`",
            )


def _is_frozen(cls: type) -> bool:
    if issubclass(cls, BaseModel):
        return bool(cls.model_config.get("frozen"))
    return bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # a record is one of the two
