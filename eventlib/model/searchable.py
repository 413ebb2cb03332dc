"""Searchable fields: those of events and states by which sagas are found."""

import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from pydantic.fields import FieldInfo

from eventlib.errors import WiringError
from eventlib.model.personal import declared_fields, marks_in, personal_fields
from eventlib.values import to_ms

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_MOST_DIGITS = 18
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Searchable:
    """Marks a field by which sagas are found: `country: Annotated[str, Searchable]`.

    The field is text, a number, a Decimal with its digits, a bool, a time, a date, or an enum of texts; or one of these
    or None. `name` is what searches call it, by default the field's name. A saga has the value of its newest event, or of
    its state as long as the service keeps that. With `many`, which only events have, it has every value: those of all its
    lines, for instance. Of an amount, `money` names the searchable field of the same class that has its currency (ISO
    4217): the console then shows it as money. An int is in the currency's minor units, a Decimal in whole ones.
    """

    name: str = ""
    many: bool = False
    money: str = ""


ValueType = Literal["text", "integer", "decimal", "number", "boolean", "time", "date", "duration"]


@dataclass(frozen=True, slots=True)
class Kind:
    """The values of an attribute: their type, the texts of an enum (none: any text), a decimal's places."""

    type: ValueType
    choices: tuple[str, ...] = ()
    places: int = 0

    def stored(self, value: object) -> str | int | float | None:  # noqa: PLR0911  one answer for each type
        """Return a value as indexes compare it: a time in ms, a decimal in units of its last place, an enum as its text.

        None for what no index holds: a number that is not one, and integers beyond 64 bits.
        """
        match value:
            case Enum():
                return self.stored(value.value)
            case datetime():
                return to_ms(value if value.tzinfo else value.replace(tzinfo=UTC))
            case date():
                return value.isoformat()
            case Decimal():
                return self.stored(int(value.scaleb(self.places))) if value.is_finite() else None
            case int() if -_LARGEST - 1 <= value <= _LARGEST:
                return int(value)
            case float() if not math.isnan(value):
                return value
            case str():
                return value
            case _:
                return None

    def shown(self, stored: str | int | float | None) -> object:
        """Return a value that an index has, as it was."""
        if not isinstance(stored, int):
            return stored
        if self.type == "decimal":
            return Decimal(stored).scaleb(-self.places)
        return bool(stored) if self.type == "boolean" else stored


class SearchField(NamedTuple):
    """A searchable field: of which class, what it is called there and in searches, and its values."""

    cls: type[Any]
    field: str
    name: str
    kind: Kind
    many: bool
    currency: str = ""
    """The search attribute that has the currency of an amount."""

    @property
    def place(self) -> str:
        """The field, for messages."""
        return f"{self.cls.__name__}.{self.field}"


def searchable_fields(cls: type[Any]) -> Mapping[str, SearchField]:
    """Return a class's searchable fields, by the names that searches have for them.

    Raises: WiringError for a mark that could not be honoured; NameError for an annotation that is not defined yet.
    """
    known = _FOUND.get(cls)
    if known is None:
        known = _FOUND[cls] = MappingProxyType(_found(cls))
    return known


def check_searchable(cls: type[Any]) -> None:
    """Refuse marks on an event or a state that could not be honoured, when it is declared. Raises: WiringError."""
    try:
        searchable_fields(cls)
    except NameError:
        return  # its names are defined later: the index checks again


_FOUND: WeakKeyDictionary[type[Any], Mapping[str, SearchField]] = WeakKeyDictionary()


def _found(cls: type[Any]) -> dict[str, SearchField]:
    found = dict[str, SearchField]()
    for field, (annotation, metadata) in declared_fields(cls):
        place = f"{cls.__name__}.{field}"
        mark = _mark(metadata)
        if mark is None:
            if any(each is Searchable or isinstance(each, Searchable) for each in marks_in(annotation)):
                raise WiringError(
                    f"{place}: Searchable marks a whole field of an event or a state: write `Annotated[..., Searchable]` on "
                    "the field itself, not inside of its type or in a part of it"
                )
            continue
        if field in personal_fields(cls):
            raise WiringError(
                f"{place} is personal, so it cannot be searchable: an index would hold its text in plain, and keep it after "
                "the subject's key is destroyed. Mark the subject's id instead, or a field with its `pseudonym(...)`"
            )
        name = mark.name or field
        if not _NAME.fullmatch(name):
            raise WiringError(
                f"{place}: {name!r} cannot name a search attribute: these have small letters, digits and '_'; give another one, "
                'Searchable(name="...")'
            )
        if name in found:
            raise WiringError(f"{place} and {found[name].place} are both searchable as {name!r}: name one differently")
        found[name] = SearchField(cls, field, name, kind_of(annotation, metadata, place), mark.many, mark.money)
    return {name: each._replace(currency=_currency(each, found.values())) for name, each in found.items()}


def _currency(amount: SearchField, fields: Iterable[SearchField]) -> str:
    """Return the attribute that has an amount's currency. Raises: WiringError where none can."""
    if not amount.currency:
        return ""
    name = next((each.name for each in fields if each.field == amount.currency and each.kind.type == "text"), "")
    if not name or amount.many or amount.kind.type not in {"integer", "decimal"}:
        raise WiringError(
            f"{amount.place} is money in {amount.currency!r}: mark an int or a Decimal so, and the text field of "
            f"{amount.cls.__name__} with its currency as Searchable, too"
        )
    return name


def _mark(metadata: Sequence[Any]) -> Searchable | None:
    for each in metadata:
        if each is Searchable or isinstance(each, Searchable):
            return each if isinstance(each, Searchable) else Searchable()
    return None


def kind_of(annotation: Any, metadata: Iterable[Any], place: str) -> Kind:
    """Return what values of a field are. Raises: WiringError for a type that searches do not compare."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *more = typing.get_args(annotation)
        metadata = [*metadata, *more]
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        branches = [each for each in typing.get_args(annotation) if each is not type(None)]
        if len(branches) == 1:
            return kind_of(branches[0], metadata, place)
    if isinstance(annotation, typing.NewType):
        return kind_of(annotation.__supertype__, metadata, place)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        values = tuple(member.value for member in annotation)
        if all(isinstance(each, str) for each in values):
            return Kind("text", values)
    elif annotation is Decimal:
        return Kind("decimal", places=_places(metadata, place))
    elif annotation in _TYPES:
        return Kind(_TYPES[annotation])
    shown = getattr(annotation, "__name__", str(annotation))
    raise WiringError(
        f"{place}: searches do not compare {shown}: mark text, int, float, Decimal, bool, datetime, date, or an enum of "
        "texts, or one of these or None"
    )


_TYPES: Mapping[Any, ValueType] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "time",
    date: "date",
}


def _places(metadata: Iterable[Any], place: str) -> int:
    found = dict[str, int]()
    for each in metadata:
        for part in each.metadata if isinstance(each, FieldInfo) else [each]:
            for name in ("max_digits", "decimal_places"):
                if (value := getattr(part, name, None)) is not None:
                    found[name] = value
    if len(found) != 2 or found["max_digits"] > _MOST_DIGITS:  # noqa: PLR2004  both of them
        raise WiringError(
            f"{place}: a Decimal is searchable with its digits, up to {_MOST_DIGITS}: "
            "`Annotated[Decimal, Field(max_digits=18, decimal_places=2), Searchable]`"
        )
    return found["decimal_places"]
