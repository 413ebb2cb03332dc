"""Single values as their bytes give them back, where that is exact.

Each function returns the value itself where it is so already, and what does not fit at all: that is refused when it is written.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

from eventlib.errors import ContractError
from eventlib.model.schema.types import Choice, Exact, Plain, Symbols

Normal = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation])


class LossyValue(ContractError, ValueError):
    """Bytes would not give a value back. It is a ValueError so that Pydantic reports it as one of an event's errors."""


def leaf(node: Plain | Exact | Choice | Symbols) -> tuple[str, Normal] | None:
    """Return the test of a value `{0}` that may not be normal, and what makes it so; an empty test is always true."""
    match node:
        case Plain(python=kind):
            return _LEAVES.get(kind)
        case Exact(precision=precision, scale=scale):
            return "", _exact(precision, scale)
        case Choice(values=values):
            return _LEAVES[type(values[0])]
        case Symbols():
            return None  # a member is what it is, and anything else is refused


def _text(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else value


def _integer(value: Any) -> Any:
    return int.__int__(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _floating(value: Any) -> Any:
    if isinstance(value, float):
        return float.__float__(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        made = float(value)
    except OverflowError as error:
        raise LossyValue(f"{value:.3e} is larger than a float can be") from error
    if made != value:
        raise LossyValue(f"{value} is not exactly a float: the nearest one is {int(made)}")
    return made


def _blob(value: Any) -> Any:
    return bytes(memoryview(value)) if isinstance(value, bytes | bytearray) else value


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return value
    try:
        return _EPOCH + (value - _EPOCH)
    except OverflowError as error:
        raise LossyValue(f"{value!s:.60} is outside the years that UTC has here") from error


def _day(value: Any) -> Any:
    return date(value.year, value.month, value.day) if _is_a(date, value) else value


def _clock(value: Any) -> Any:
    if not isinstance(value, time) or value.tzinfo is not None:
        return value
    return time(value.hour, value.minute, value.second, value.microsecond)


def _uuid(value: Any) -> Any:
    return UUID(int=value.int) if isinstance(value, UUID) else value


def _is_a(kind: type[date], value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, datetime)


def _exact(precision: int, scale: int) -> Normal:
    one, room = Decimal(1).scaleb(-scale), precision - scale
    nothing = Decimal(0).scaleb(-scale)

    def normal(value: Any) -> Any:
        if value.__class__ is not Decimal:
            if not isinstance(value, Decimal):
                return value
            value = Decimal(value)
        if not value:
            return nothing if value.is_finite() and (value.is_signed() or not value.same_quantum(one)) else value
        if value.same_quantum(one) or not value.is_finite() or value.adjusted() >= room:
            return value
        try:
            return value.quantize(one, context=_EXACT)
        except (Inexact, InvalidOperation):
            return value  # more digits than its field has: the writer refuses them, with the field's name

    return normal


_CLASS = "type({{0}}) is not {}"  # not `__class__`, which is looked up as any attribute is
_LEAVES: dict[type, tuple[str, Normal]] = {
    str: (_CLASS.format("str"), _text),
    int: (_CLASS.format("int"), _integer),
    float: (_CLASS.format("float"), _floating),
    bytes: (_CLASS.format("bytes"), _blob),
    datetime: ("type({0}) is not datetime or {0}.tzinfo is not UTC or {0}.fold", _moment),
    date: (_CLASS.format("date"), _day),
    time: ("type({0}) is not time or {0}.fold", _clock),
    UUID: (_CLASS.format("UUID"), _uuid),
}
NAMES: dict[str, Any] = {"date": date, "datetime": datetime, "time": time, "UTC": UTC, "UUID": UUID}
"""What the tests name."""

CHECKED = frozenset({str, int, float, bool, type(None)})
"""Of these Pydantic makes the class itself."""
