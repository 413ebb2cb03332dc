"""What differs between two values, field by field: for states before and after, and for events said and not said."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from pydantic import BaseModel


class Absent(Enum):
    """Stands where one side has no value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class Change(NamedTuple):
    """One field that differs: its path, such as `lines[2].quantity`, and its values; ABSENT where there is none.

    What entered or left a sequence stands under the sequence's own path.
    """

    path: str
    before: object
    after: object


def changes(before: object, after: object) -> tuple[Change, ...]:
    """Return what differs, in the order of the fields; nothing for values that are equal.

    A side that is None or ABSENT as a whole, such as the state of a key that is not known yet, has no fields.
    """
    return tuple(_changes("", before, after))


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    if before is after:
        return
    parts_before, parts_after = _parts(before), _parts(after)
    if parts_before is None and parts_after is None:
        if _is_sequence(before) and _is_sequence(after):
            yield from _moved(path, before, after)  # type: ignore[arg-type]  # both are sequences
        elif type(before) is not type(after) or before != after:
            yield Change(path, before, after)
        return
    if path and (parts_before is None or parts_after is None):
        yield Change(path, before, after)
        return
    old, new = parts_before or {}, parts_after or {}
    for name in {**old, **new}:
        yield from _changes(f"{path}.{name}" if path else name, old.get(name, ABSENT), new.get(name, ABSENT))


def _parts(value: object) -> Mapping[str, Any] | None:
    """Return a value's fields by name; None when it has none."""
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    return None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence | frozenset | set) and not isinstance(value, str | bytes)


def _moved(path: str, before: Sequence[object], after: Sequence[object]) -> Iterator[Change]:
    """Say what left a sequence and what entered it; the whole of it when only its order has changed."""
    if before == after:
        return
    if not all(isinstance(each, Hashable) for each in (*before, *after)):
        yield Change(path, before, after)
        return
    old, new = Counter(before), Counter(after)
    left, entered = old - new, new - old
    yield from (Change(path, each, ABSENT) for each in left.elements())
    yield from (Change(path, ABSENT, each) for each in entered.elements())
    if not left and not entered:
        yield Change(path, before, after)
