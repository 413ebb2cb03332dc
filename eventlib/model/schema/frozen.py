"""Containers of events and states that cannot be changed in place.

They are subclasses of the built-in ones, so annotations, `==`, JSON and `isinstance` hold for them as before. An operator
such as `+=` binds a name to a new, plain container, as it does for a tuple.
"""

from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
V = TypeVar("V")


def _refusing(name: str, kind: str, remedy: str) -> Any:
    def refuse(_self: object, *_arguments: object, **_named: object) -> NoReturn:
        raise TypeError(f"{name}: a {kind} of an event or state cannot be changed in place: make a new one, {remedy}")

    return refuse


class FrozenList(list[T]):
    """A list that cannot be changed in place; `copy()` gives one that can."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it, and copy it, whole: not item by item."""
        return FrozenList, (list(self),)

    def __iadd__(self, other: Iterable[Any]) -> Any:  # type: ignore[misc]  # not in place, and so plain
        """Return a new list."""
        return [*self, *other]

    def __imul__(self, times: Any) -> Any:  # type: ignore[misc]  # not in place, and so plain
        """Return a new list."""
        return [*self] * times


class FrozenDict(dict[str, V]):
    """A dict that cannot be changed in place; `copy()` gives one that can."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it, and copy it, whole: not item by item."""
        return FrozenDict, (dict(self),)

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]  # not in place, and so plain
        """Return a new dict."""
        return {**self, **dict(other)}


class FrozenSet(set[T]):
    """A set that cannot be changed in place; `copy()` gives one that can."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it, and copy it, whole: not item by item."""
        return FrozenSet, (list(self),)

    def copy(self) -> set[T]:
        """Return a plain set."""
        return set(self)

    __ior__, __iand__, __isub__, __ixor__ = set.__or__, set.__and__, set.__sub__, set.__xor__  # type: ignore[assignment]  # new sets


_CHANGES: dict[type, tuple[str, str, str]] = {
    FrozenList: (
        "list",
        "[*before, item]",
        "append clear extend insert pop remove reverse sort __delitem__ __setitem__",
    ),
    FrozenDict: ("dict", "{**before, key: value}", "clear pop popitem setdefault update __delitem__ __setitem__"),
    FrozenSet: (
        "set",
        "before | {item}",
        "add clear discard pop remove update difference_update intersection_update symmetric_difference_update",
    ),
}
for _frozen, (_kind, _remedy, _names) in _CHANGES.items():
    for _name in _names.split():
        setattr(_frozen, _name, _refusing(_name, _kind, _remedy))
