"""The attributes of a state as columns that SQLite compares."""

import logging
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any

from eventlib.errors import ContractError, WiringError
from eventlib.model.decider import Decider
from eventlib.model.personal import personal_fields
from eventlib.values import to_ms

_log = logging.getLogger(__name__)
_LARGEST = 2**63 - 1


def columns_of(decider: Decider[Any], indexes: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the attributes that need a column. Raises: WiringError."""
    for index in indexes:
        if not index or len({*index}) < len(index):
            raise WiringError(f"index {index!r} of {decider.name} has to name attributes, each of them once")
    names = list(dict.fromkeys(name for index in indexes for name in index))
    for name in names:
        if name in personal_fields(decider.state):
            raise WiringError(
                f"an index of {decider.name} names {name}, which is personal: its column would be in plain text"
            )
        if name.startswith("_") or not hasattr(decider.initial, name):
            raise WiringError(f"an index names {name!r}, which is no public attribute of {decider.state.__name__}")
        try:
            stored(getattr(decider.initial, name), name)
        except ContractError as error:
            raise WiringError(f"an index of {decider.name} cannot be made: {error}") from error
    return names


def column_of(state: object, name: str) -> str | int | float | None:
    """Return an attribute of a state as its column has it; None, with a warning, for a value that no column can have."""
    try:
        return stored(getattr(state, name), name)
    except ContractError as error:
        _log.warning("a state of %s is not found by %s: %s", type(state).__name__, name, error)
        return None


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return f'"{name}"'


def stored(value: object, name: str = "a value") -> str | int | float | None:
    """Return a value as its column has it: times in ms, dates as text, enums as their value. Raises: ContractError."""
    match value:
        case Enum():
            return stored(value.value, name)
        case datetime():
            return to_ms(value if value.tzinfo else value.replace(tzinfo=UTC))
        case date():
            return value.isoformat()
        case int() if -_LARGEST - 1 <= value <= _LARGEST:
            return int(value)
        case float() if not math.isnan(value):
            return value
        case str() | None:
            return value
        case _:
            raise ContractError(
                f"{name} is {type(value).__name__} {value!r:.40}, and no index compares that: text, numbers of 64 bits, "
                "times, dates and enums can be; give the state a property that is one of these"
            )
