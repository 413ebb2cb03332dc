"""Keys that are no text of their own. Exact, by the key field's type.

An event's key is `str()` of its key field: one value has to have one text, and two values two. That the key is a field
at all, and the key of every decider that handles the event, is refused at import.
"""

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import EventType, contract_of
from eventlib.model.finding import Finding

_TEXTS = (str, int, UUID)


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the events whose key is not always a text of its own."""
    for event in flow.choreography.events:
        key = contract_of(event).key
        wrong = None if key is None else _what_is_wrong(event.model_fields[key].annotation)
        if wrong is not None:
            yield _finding(event, f"{event.__name__}.{key}", wrong)


def _finding(event: EventType, subject: str, wrong: str) -> Finding:
    return Finding(
        "error",
        "key-without-text",
        subject,
        event.__name__,
        f"{subject} is the key, and {wrong}",
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
