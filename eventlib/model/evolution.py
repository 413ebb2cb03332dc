"""How a contract changes while what was written under it is still read: names of before, defaults, upcasters.

| change | how |
|---|---|
| a field is new | give it a default |
| a field has another name | `units: Annotated[int, Aliases("quantity")]` |
| a type is wider | int to float, X to X or None, one more branch of a union: nothing to say |
| an enum has one more symbol | `@unknown_is("OTHER")` on the enum, one version before: then older code can read it |
| the class has another name | `@wire_name("Shelf")` on a state, a part of one, or an enum |
| anything else | an upcaster, and a new version of the contract: `@upcasts(OrderPlaced, version=1)` |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from eventlib.errors import WiringError

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
C = TypeVar("C", bound=type[Any])
N = TypeVar("N", bound=type[Enum])
U = TypeVar("U", bound=Upcaster)


@dataclass(frozen=True, slots=True, init=False)
class Aliases:
    """The names that a field had before: `units: Annotated[int, Aliases("quantity")]`, in a model or a dataclass."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


def wire_name(name: str) -> Callable[[C], C]:
    """Declare what a state's, record's or enum's class is called on the log, whatever the class is called.

    It names the class's records and schemas, so that a class can be renamed while logs keep the name that they have.
    Raises: WiringError for an event, whose type is its class's name.
    """

    def declare(cls: C) -> C:
        if hasattr(cls, "__contract__"):
            raise WiringError(
                f"wire_name on event {cls.__name__}: an event's type is its class's name; drop the decorator"
            )
        _WIRE_NAMES[cls] = name
        return cls

    return declare


def wire_name_of(cls: type[Any]) -> str:
    """Return what a class is called on the log: what `wire_name` declares, else the class's own name."""
    return _WIRE_NAMES.get(cls, cls.__name__)


def unknown_is(symbol: str) -> Callable[[N], N]:
    """Declare what an enum's unknown symbols are read as: those that a newer version of it has written.

    Raises: WiringError at import, when the enum has no such symbol.
    """

    def declare(enum: N) -> N:
        if symbol not in enum.__members__ and symbol not in {member.value for member in enum}:
            raise WiringError(
                f"{enum.__name__} has no {symbol!r}, so nothing can be read as it; add it, or name another"
            )
        _UNKNOWN[enum] = symbol
        return enum

    return declare


def unknown_symbol(enum: type[Enum]) -> str | None:
    """Return what an enum's unknown symbols are read as; None when they are refused."""
    return _UNKNOWN.get(enum)


def upcasts(cls: type[Any], *, version: int) -> Callable[[U], U]:
    """Declare how what version `version` of an event's or state's contract has written becomes the next version's.

    The function is pure. It is given the fields as they were written, by their names in the schema that wrote them: a
    record is a dict, an enum its symbol, a date a date. It returns the fields of the next version, in the same form;
    what the class does not name is refused there. Versions begin with 1, and a class with an upcaster for version n is
    version n+1 of its contract: what it writes is not meant for older code, which `eventlib schemas epoch` has to allow.
    Raises: WiringError at import, for a version below 1, or one that has an upcaster.
    """
    if version < 1:
        raise WiringError(f"upcaster of {cls.__name__}: version={version}; the first version of a contract is 1")

    def declare(upcaster: U) -> U:
        known = _UPCASTERS.setdefault(cls, {})
        if version in known:
            raise WiringError(f"{cls.__name__} has two upcasters for version {version}: keep one of them")
        known[version] = upcaster
        return upcaster

    return declare


def upcasters_of(cls: type[Any]) -> Mapping[int, Upcaster]:
    """Return a class's upcasters, by the version that each of them reads."""
    return _UPCASTERS.get(cls, {})


def version_of(cls: type[Any]) -> int:
    """Return which version of its contract a class is. Raises: WiringError when an upcaster is missing in between."""
    known = upcasters_of(cls)
    newest = max(known, default=0)
    missing = [str(version) for version in range(1, newest) if version not in known]
    if missing:
        raise WiringError(
            f"{cls.__name__} has an upcaster for version {newest}, but none for {', '.join(missing)}: what those have "
            "written could not be read; add them"
        )
    return newest + 1


_WIRE_NAMES: dict[type[Any], str] = {}
_UNKNOWN: dict[type[Enum], str] = {}
_UPCASTERS: dict[type[Any], dict[int, Upcaster]] = {}
