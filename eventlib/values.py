"""Times and texts as events hold them: whole milliseconds since 1970-01-01 UTC, and text without control characters."""

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from eventlib.errors import ContractError

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""The first time that an external event may have."""
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
"""External events are before this time: later ones are slips, and some readers have no form for them."""

__all__ = [
    "EARLIEST",
    "LATEST",
    "decimals_of",
    "escaped",
    "escaped_lines",
    "from_ms",
    "minor_units",
    "now_ms",
    "time_of",
    "to_ms",
    "unsafe_in",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@lru_cache(maxsize=1_024)  # all that one transaction emits has one time
def from_ms(milliseconds: int) -> datetime:
    """Return the UTC time of a record's timestamp; the first or the last that there is for one beyond these."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _FIRST if milliseconds < 0 else _LAST


def to_ms(at: datetime) -> int:
    """Return a time as a record's timestamp, rounded down to the millisecond. Raises: ContractError for one without a zone."""
    try:
        return (at - _EPOCH) // _MILLISECOND
    except TypeError as error:
        raise ContractError(f"{at!r} is no time with a time zone: give `datetime.now(UTC)`, for example") from error


def time_of(text: str) -> datetime:
    """Read a time from ISO 8601 text; without an offset from UTC it is UTC. Raises: ContractError."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise ContractError(f"{text!r} is no time: write it such as 2026-01-31T12:00:00Z") from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def snake_case(name: str) -> str:
    """Return a name in small letters: `OrderPlaced` is `order_placed`, `shop.OrderPlaced` is `shop_order_placed`."""
    return re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def now_ms() -> int:
    """Return the clock's time, for runtimes and adapters; deciders take theirs from Meta."""
    return time.time_ns() // 1_000_000


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unsafe_in(text: str) -> str | None:
    """Return what a text has that no text from outside may have, such as `U+001B at 3`; None for plain text.

    These are control characters (line breaks and NUL among them), Unicode's line separators, characters that change
    the direction of what follows, and halves of surrogate pairs: they steer terminals, split lines of logs, or make
    one text look like another.

    Source: Unicode Technical Report 36, section 3; the directional characters are those of CVE-2021-42574.
    """
    found = _UNSAFE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X} at {found.start() + 1}"


def escaped(text: str) -> str:
    """Return a text with an escape in place of each character that `unsafe_in` names, so that it stays on one line.

    Valid JSON on one line stays valid, and means the same: such characters are only in strings there.
    """
    return _UNSAFE.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """Return text of several lines as `escaped` does, with its line breaks and tabs."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


@lru_cache(maxsize=1_024)
def minor_units(currency: str) -> int | None:
    """Return how many decimals a currency's minor unit is behind the point: 2 for GBP, 0 for JPY, 3 for KWD.

    None for what ISO 4217 does not list as a currency, and for what has no minor unit there, as gold (XAU).
    Source: ISO 4217, list one.
    """
    from iso4217 import Currency  # it reads its table when it is imported

    try:
        exponent = Currency(currency).exponent
    except ValueError:
        return None
    return exponent if isinstance(exponent, int) else None


def decimals_of(currency: str) -> int:
    """Return how many decimals an amount has in a currency: `minor_units`, and 2 where ISO 4217 has none."""
    decimals = minor_units(currency)
    return 2 if decimals is None else decimals


def iso(at: datetime) -> str:
    """Return a time in the log's format: ISO 8601, UTC, milliseconds."""
    return iso_ms(to_ms(at))


def iso_ms(milliseconds: int) -> str:
    """Return a record's timestamp as ISO 8601, UTC, milliseconds."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03}Z"


def iso_or_none(at: datetime | None) -> str | None:
    """Return a time in the log's format, or None."""
    return None if at is None else iso(at)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return from_ms(seconds * 1_000).isoformat(timespec="seconds").removesuffix("+00:00")
