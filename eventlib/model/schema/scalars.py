"""Single values, and their form on the wire."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from enum import Enum
from keyword import iskeyword
from typing import Any
from uuid import UUID

from eventlib.model.schema.types import Choice, Exact, Plain, Symbols

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()


def scalar_writer(node: Plain | Exact | Choice | Symbols) -> Convert | None:
    """Return the converter of a single value, or None where fastavro takes it as it is and checks its type itself."""
    match node:
        case Plain(python=kind):
            return _WRITERS.get(kind)
        case Exact(precision=precision, scale=scale):
            return _exact_writer(precision, scale)
        case Choice(values=values):
            return _choice_writer(frozenset(values))
        case Symbols(cls=cls, members=members):
            return _symbol_writer(cls, {member: symbol for symbol, member in members.items()})


def exact_reader(precision: int, scale: int) -> Convert:
    """Return the converter of a decimal's bytes; `precision` is what limits how many there may be."""
    context = Context(prec=max(precision, 1), Emax=MAX_EMAX, Emin=MIN_EMIN)
    most_bytes = precision // 2 + 2  # a digit needs 0.416 bytes; a megabyte of digits would take minutes to convert

    def read(value: bytes) -> Decimal:
        if len(value) > most_bytes:
            raise ValueError(f"a decimal of {precision} digits does not have {len(value)} bytes")
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, context)

    return read


def _exact_writer(precision: int, scale: int) -> Convert:
    room = precision - scale

    def write(value: Decimal) -> bytes:
        if value.__class__ is not Decimal or not value.is_finite():
            raise ValueError(f"{value!r:.60} is not a finite Decimal")
        if value and value.adjusted() >= room:
            raise ValueError(f"{value!s:.60} has more than {room} digits before the point")
        scaled = value.scaleb(scale, _EXACT)
        number = int(scaled)
        if number != scaled:
            raise ValueError(f"{value!s:.60} has more than {scale} digits after the point")
        return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)

    return write


_EXACT = Context(prec=1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _choice_writer(values: frozenset[Any]) -> Convert:
    def write(value: object) -> object:
        if value not in values:
            raise ValueError(f"{value!r:.60} is not one of {sorted(values)}")
        return value

    return write


def _symbol_writer(cls: type[Enum], symbols: dict[Enum, str]) -> Convert:
    # By identity, since hashing a member is a call into Python; members live as long as their class.
    by_identity = {id(member): symbol for member, symbol in symbols.items()}

    def write(value: Enum) -> str:
        symbol = by_identity.get(id(value))
        if symbol is None:
            raise ValueError(f"{value!r:.60} is not a member of {cls.__name__}")
        return symbol

    return write


def _integer(value: int) -> int:
    if value.__class__ is int:
        return value
    # fastavro would cut 1.5 down to 1.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r:.60} is not an int")
    return int(value)


def _floating(value: float) -> float:
    if value.__class__ is float:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.60} is not a float")
    return float(value)


def _boolean(value: bool) -> bool:
    if value is True or value is False:
        return value
    raise TypeError(f"{value!r:.60} is not a bool")


def _micros(value: datetime) -> int:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone; give it one, UTC for instance")
    since = value - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _days(value: date) -> int:
    if value.__class__ is not date:
        raise TypeError(f"{value!r:.60} is not a date")
    return value.toordinal() - _EPOCH_DAY


def _time_micros(value: time) -> int:
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone, which Avro's time does not; use a datetime")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _uuid(value: UUID) -> str:
    if not isinstance(value, UUID):
        raise TypeError(f"{value!r:.60} is not a UUID")
    return str(value)


_WRITERS: dict[type, Convert] = {
    int: _integer,
    float: _floating,
    bool: _boolean,
    datetime: _micros,
    date: _days,
    time: _time_micros,
    UUID: _uuid,
}


def attribute(name: str, of: str = "value") -> str:
    """Return the source that reads a field of a value; a field may be called as a keyword is."""
    return f"getattr({of}, {name!r})" if iskeyword(name) else f"{of}.{name}"
