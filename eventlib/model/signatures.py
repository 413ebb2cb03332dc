"""Reads what handlers and effects declare in their annotations."""

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never, Union

from eventlib.errors import WiringError
from eventlib.model.event import Event

Hints = Mapping[str, Any]
"""A function's annotations by name, `return` among them."""


def hints_of(function: Callable[..., Any], where: str, depth: int) -> Hints:
    """Return a function's annotations; `depth` counts the calls from the scope that declares it. Raises: WiringError."""
    try:
        # The names of the scope that declares the function: a handler in a test may use events defined beside it.
        return typing.get_type_hints(function, localns=sys._getframe(depth).f_locals)  # noqa: SLF001  no public way to that scope
    except NameError as error:
        raise WiringError(f"{where}: its annotations name something that does not exist: {error}") from error


def emitted(hints: Hints, where: str) -> tuple[type[Event], ...]:
    """Return the event types of a handler's `-> list[A | B]`; `-> None` and `-> list[Never]` emit nothing."""
    annotation = _returned(hints, where)
    if annotation is types.NoneType:
        return ()
    if typing.get_origin(annotation) is not list:
        raise WiringError(
            f"{where}: write what it emits as its return type, `-> list[EventA | EventB]` (`-> None` when it emits nothing)"
        )
    (emitted,) = typing.get_args(annotation)
    return () if emitted is Never else _event_types(emitted, where, "return type")


def handled(function: Callable[..., Any], hints: Hints, where: str) -> tuple[type[Event], ...]:
    """Return the event types of a handler's second parameter, `event: A | B`."""
    annotation = hints.get(positional(function)[1].name)
    if annotation is None:
        raise WiringError(
            f"{where}: the events that it handles are read from its second parameter: "
            f"write `def {name_of(function)}(state: State, event: EventA | EventB) -> list[EventC]`"
        )
    return _event_types(annotation, where, "second parameter's type")


def refuse_others(function: Callable[..., Any], hints: Hints, named: Sequence[type[Event]], where: str) -> None:
    """Refuse a handler that does not take an event that it is registered for. Raises: WiringError."""
    taken = _members(hints.get(positional(function)[1].name))
    if not all(isinstance(each, type) and issubclass(each, Event) for each in taken):
        return  # no event is named there: a type checker's Any, perhaps
    for event_type in named:
        if not issubclass(event_type, taken):
            raise WiringError(
                f"{where} is registered for {event_type.__name__}, and its second parameter does not take that: write "
                "`.on` without arguments, and all events that it handles in that parameter's type"
            )


def events_in(given: Sequence[object], where: str, remedy: str) -> Sequence[type[Event]]:
    """Return the event types that were given. Raises: WiringError for anything else, and for none."""
    if not given:
        raise WiringError(f"{where}() names no event: {remedy}")
    return [event for each in given for event in _event_types(each, where, "arguments")]


def answers(function: Callable[..., Any], where: str, depth: int) -> tuple[type[Event], ...]:
    """Return the event types of an effect's `-> A | B`; `depth` is as in `hints_of`."""
    return _event_types(_returned(hints_of(function, where, depth + 1), where), where, "return type")


def reports(function: Callable[..., Any], where: str, depth: int) -> tuple[type[Event], ...]:
    """Return the event types of `-> A | B | None`; `depth` is as in `hints_of`."""
    found = _members(_returned(hints_of(function, where, depth + 1), where))
    events = [each for each in found if each is not types.NoneType]
    return tuple(event for each in events for event in _event_types(each, where, "return type"))


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


def refuse_async(function: Callable[..., Any], where: str) -> None:
    """Refuse a function that waits, or yields. Raises: WiringError."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise WiringError(
            f"{where} is async: it is a pure function, so write `def`, and ask the outside world in an effect"
        )
    if inspect.isgeneratorfunction(function):
        raise WiringError(f"{where} yields: it is called once, so return what it has to give")


def may_return_none(function: Callable[..., Any]) -> bool:
    """Tell whether a function says in its return annotation that it may return None."""
    annotation = getattr(function, "__annotations__", {}).get("return", inspect.Parameter.empty)
    if isinstance(annotation, str):
        return bool(re.search(r"\b(None|Optional)\b", annotation))
    return not {None, types.NoneType}.isdisjoint(_members(getattr(annotation, "__value__", annotation)))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that messages use for a function."""
    return getattr(function, "__name__", repr(function))


def _returned(hints: Hints, where: str) -> Any:
    if "return" not in hints:
        raise WiringError(f"{where} has no return type: the events that it emits are read from there")
    return hints["return"]


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that is none."""
    union = typing.get_origin(annotation) in {Union, types.UnionType}
    return typing.get_args(annotation) if union else (annotation,)


def _event_types(annotation: Any, where: str, place: str) -> tuple[type[Event], ...]:
    found = _members(annotation)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, Event) and each.__contract__ is not None):
            raise WiringError(f"{where}: {each!r} in its {place} is not an event with a topic")
    return found
