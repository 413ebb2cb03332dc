"""The log's times: whole milliseconds since 1970-01-01 UTC, as Kafka stamps them."""

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from eventlib.errors import ContractError

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""From the first, and before the second, are times from outside: others are slips, and not every reader has a form for them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@lru_cache(maxsize=1_024)  # all that one transaction says has one time
def from_ms(milliseconds: int) -> datetime:
    """Return the UTC time of a record's timestamp; the first or the last that there is for one beyond these."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _FIRST if milliseconds < 0 else _LAST


def to_ms(at: datetime) -> int:
    """Return a time as a record's timestamp, rounded down to the millisecond."""
    return (at - _EPOCH) // _MILLISECOND


def time_of(text: str) -> datetime:
    """Read a time from ISO 8601 text; without an offset from UTC it is UTC. Raises: ContractError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ContractError(f"{text!r} is no time: write it such as 2026-01-31T12:00:00Z") from error
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def now_ms() -> int:
    """Return the clock's time, for runtimes and adapters; deciders take theirs from Meta."""
    return time.time_ns() // 1_000_000
