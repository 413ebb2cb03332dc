"""Reads what handlers and effects declare in their annotations."""

import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Never, Union

from eventlib.errors import WiringError
from eventlib.event import Event


def publish_list(function: Callable[..., Any], where: str, depth: int = 2) -> tuple[type[Event], ...]:
    """Return the event types of a handler's `-> list[A | B]`; `list[Never]` says nothing."""
    annotation = _return_annotation(function, where, depth + 1)
    if typing.get_origin(annotation) is not list:
        raise WiringError(
            f"{where}: write what it says as its return type, `-> list[EventA | EventB]` "
            "(`-> list[Never]` when it says nothing)"
        )
    (said,) = typing.get_args(annotation)
    return () if said is Never else _event_types(said, where)


def answers(function: Callable[..., Any], where: str, depth: int = 2) -> tuple[type[Event], ...]:
    """Return the event types of an effect's `-> A | B`."""
    return _event_types(_return_annotation(function, where, depth + 1), where)


def positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a call by position fills."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def takes_meta(function: Callable[..., Any], arguments: int, where: str) -> bool:
    """Tell whether a function wants Meta after its own arguments. Raises: WiringError for any other count."""
    count = len(positional(function))
    if count not in {arguments, arguments + 1}:
        raise WiringError(
            f"{where} takes {count} arguments; expected {arguments}, or {arguments + 1} with Meta at the end"
        )
    return count == arguments + 1


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that messages use for a function."""
    return getattr(function, "__name__", repr(function))


def _return_annotation(function: Callable[..., Any], where: str, depth: int) -> Any:
    try:
        # The names of the scope that declares the function: a handler in a test may speak of events defined beside it.
        hints = typing.get_type_hints(function, localns=sys._getframe(depth).f_locals)  # noqa: SLF001  no public way to that scope
    except NameError as error:
        raise WiringError(f"{where}: its annotations name something that does not exist: {error}") from error
    if "return" not in hints:
        raise WiringError(f"{where} has no return type: the events that it says are read from there")
    return hints["return"]


def _event_types(annotation: Any, where: str) -> tuple[type[Event], ...]:
    union = typing.get_origin(annotation) in {Union, types.UnionType}
    found = typing.get_args(annotation) if union else (annotation,)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, Event) and each.__contract__ is not None):
            raise WiringError(f"{where}: {each!r} in its return type is not an event with a topic")
    return tuple(found)
