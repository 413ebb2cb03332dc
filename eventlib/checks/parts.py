"""Whether a handler asks once, or for each of several parts: read off where the other key comes from."""

import dataclasses
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from eventlib.event import EventType, contract_of
from eventlib.flow import Reaction


def is_for_each_part(reaction: Reaction, said: EventType) -> bool:
    """Tell whether an event under another key than its decider's is said for each of several parts.

    That key's field then stands within a collection of the input or of the state, and nowhere outside of one.
    """
    key = contract_of(said).key
    if key is None or reaction.decider.key in {None, key}:
        return False
    known = [reaction.decider.state, *([] if reaction.cause is None else [reaction.cause])]
    places = [place for each in known for place in _places(each, key)]
    return bool(places) and all(places)


def _places(of: Any, name: str, within: tuple[Any, ...] = ()) -> Iterator[bool]:
    """Yield for each field of this name whether it stands within a collection."""
    for field, annotation in _fields(of).items():
        if field == name:
            yield False
        for part, is_many in _parts(annotation):
            if part not in within:
                for deeper in _places(part, name, (*within, part)):
                    yield is_many or deeper


def _fields(of: Any) -> dict[str, Any]:
    if isinstance(of, type) and issubclass(of, BaseModel):
        return {name: field.annotation for name, field in of.model_fields.items()}
    if dataclasses.is_dataclass(of):
        try:
            return typing.get_type_hints(of)
        except NameError:  # names of a function's scope: nothing is known of it
            return {}
    return {}


def _parts(annotation: Any, *, many: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the classes in an annotation, and whether there may be several of each."""
    origin = get_origin(annotation)
    if origin is None:
        if isinstance(annotation, type):
            yield annotation, many
        return
    several = many or origin not in {Annotated, Union, UnionType}
    inner = get_args(annotation)
    for each in inner[:1] if origin is Annotated else inner:
        yield from _parts(each, many=several)
