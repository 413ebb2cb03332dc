"""The log's times: whole milliseconds since 1970-01-01 UTC, as Kafka stamps them."""

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from eventlib.errors import ContractError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@lru_cache(maxsize=1_024)  # all that one transaction says has one time
def from_ms(milliseconds: int) -> datetime:
    """Return the UTC time of a record's timestamp."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


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
