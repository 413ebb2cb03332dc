"""Makes a case that goes wrong as small as it can be while it still goes wrong in the same way."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any

from eventlib.model.event import Event, contract_of
from eventlib.model.identity import derived_id
from eventlib.proof.cases import Case, changed_event, with_values
from eventlib.testing.given import DEFAULT_TIME


def shrunk(case: Case, how: Callable[[Case], Hashable]) -> Case:
    """Return a smaller case that goes wrong in the same way, of which `how` tells: fewer events, simpler fields."""
    wrong = how(case)

    def fails(tried: Case) -> bool:
        return how(tried) == wrong

    timeless = replace(case, at=DEFAULT_TIME)
    case, before = _with_one_key(_with_fewer(timeless if fails(timeless) else case, fails), fails), None
    while case != before:  # simpler fields may make events needless
        before, case = case, _with_fewer(_with_simpler(case, fails), fails)
    return case


_KEY = "k"
_FEW = 20
"""So many events are tried without each pair of them: a longer history costs too many tries."""
_Fails = Callable[[Case], bool]


def _with_fewer(case: Case, fails: _Fails) -> Case:
    size = max(1, len(case.history) // 2)
    while True:
        first = 0
        while first < len(case.history):
            tried = replace(case, history=case.history[:first] + case.history[first + size :])
            if fails(tried):
                case = tried
            else:
                first += size
        if size == 1:
            return _without_pairs(case, fails)
        size //= 2


def _without_pairs(case: Case, fails: _Fails) -> Case:
    """Leave out two events that need each other, as what was asked for and its answer, with others between them."""
    count = len(case.history)
    for pair in combinations(range(count), 2) if count <= _FEW else ():
        tried = replace(case, history=tuple(each for n, each in enumerate(case.history) if n not in pair))
        if fails(tried):
            return _with_fewer(tried, fails)
    return case


def _with_one_key(case: Case, fails: _Fails) -> Case:
    """Rename the key in all events at once."""
    keys = {str(getattr(event, name)) for event in case.events if (name := contract_of(type(event)).key)}
    for key in sorted(keys):
        ids = {_id_of(case, event, key): _id_of(case, event, _KEY) for event in case.events}
        renamed = [with_values(event, {**ids, key: _KEY}) for event in case.events]
        if None not in renamed:
            tried = case.with_events([each for each in renamed if each is not None])
            case = tried if fails(tried) else case
    return case


def _id_of(case: Case, event: Event, key: str) -> str:
    """Return the id that an event of a key has in a test."""
    return derived_id(type(event).__name__, case.decider.name, key, 0)


def _with_simpler(case: Case, fails: _Fails) -> Case:
    """Make each field as simple as it may be."""
    for index in range(len(case.events)):
        for path, simpler in _simplifications(case.events[index].model_dump()):
            event = changed_event(case.events[index], _put(case.events[index].model_dump(), path, simpler))
            if event is not None and event != case.events[index]:
                tried = case.with_events([*case.events[:index], event, *case.events[index + 1 :]])
                case = tried if fails(tried) else case
    return case


_Path = tuple[str | int, ...]


def _simplifications(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield what a value and its parts may be instead, the simplest last: it is kept if it does."""
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
        yield from ((path, [*value[:count]]) for count in range(len(value) - 1, -1, -1))
    for name, part in parts:
        yield from _simplifications(part, (*path, name))
    if path:
        yield from ((path, each) for each in (*_simpler(value), None))


def _simpler(value: Any) -> tuple[Any, ...]:
    """Return simpler values of the same type."""
    match value:
        case bool():
            return (False,)
        case int():
            return tuple(each for each in (value // 10, 10, 1, 0) if abs(each) < abs(value))
        case str():
            return value[: len(value) // 2], value[:1], "x", ""
        case datetime():
            return (DEFAULT_TIME,)
        case _:
            return ()


def _put(value: Any, path: _Path, instead: Any) -> Any:
    if not path:
        return instead
    try:
        if isinstance(value, dict):
            return {**value, path[0]: _put(value[path[0]], path[1:], instead)}
        changed = [*value]
        changed[path[0]] = _put(changed[path[0]], path[1:], instead)  # type: ignore[index]
    except (IndexError, KeyError, TypeError):
        return value  # that part is gone by now
    return changed
