"""Counts by hour: how many sagas started and ended, how long they took, and what was parked.

Of sagas they follow from the rows of `_sagas` alone, by triggers: a saga whose start or end turns out to be another one moves.
So they are the same in whichever order records are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOUR_MS = 3_600_000
_DIGITS = 100
_LONGEST = 10**13


def _rounded(column: str) -> str:
    """Return an expression for a duration with two significant digits."""
    cases, unit = f"WHEN {column} < {_DIGITS} THEN {column} ", 10
    while unit * _DIGITS <= _LONGEST:
        cases += f"WHEN {column} < {unit * _DIGITS - unit // 2} THEN ({column} + {unit // 2}) / {unit} * {unit} "
        unit *= 10
    return f"CASE {cases}ELSE {_LONGEST} END"


_START = f"""
INSERT INTO _hours (hour, started) VALUES (NEW.started_at / {HOUR_MS}, 1) ON CONFLICT (hour) DO UPDATE SET started = started + 1;
"""  # noqa: S608  of this file
HOURS = f"""
CREATE TABLE _hours (
    hour INTEGER PRIMARY KEY, started INTEGER NOT NULL DEFAULT 0, completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0, compensated INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE _hour_durations (hour INTEGER, ms INTEGER, count INTEGER NOT NULL, PRIMARY KEY (hour, ms)) WITHOUT ROWID;
CREATE TRIGGER _hours_begun AFTER INSERT ON _sagas WHEN NEW.steps BEGIN {_START} END;
CREATE TRIGGER _hours_begun_anew AFTER UPDATE OF started_at ON _sagas
WHEN OLD.steps = 0 OR OLD.started_at / {HOUR_MS} != NEW.started_at / {HOUR_MS} BEGIN
UPDATE _hours SET started = started - 1 WHERE OLD.steps AND hour = OLD.started_at / {HOUR_MS};
{_START} END;
CREATE TRIGGER _hours_ended AFTER UPDATE OF ended_at, started_at ON _sagas WHEN NEW.ended_at IS NOT NULL AND (
    OLD.ended_at IS NOT NEW.ended_at OR OLD._is_good != NEW._is_good OR OLD.started_at != NEW.started_at
    OR (OLD.compensations = 0) != (NEW.compensations = 0)
) BEGIN
UPDATE _hours SET completed = completed - OLD._is_good, failed = failed - 1 + OLD._is_good,
compensated = compensated - (OLD.compensations > 0) WHERE hour = OLD.ended_at / {HOUR_MS};
UPDATE _hour_durations SET count = count - 1 WHERE hour = OLD.ended_at / {HOUR_MS} AND ms = {_rounded("OLD.duration_ms")};
INSERT INTO _hours (hour, completed, failed, compensated)
VALUES (NEW.ended_at / {HOUR_MS}, NEW._is_good, 1 - NEW._is_good, NEW.compensations > 0) ON CONFLICT (hour) DO UPDATE SET
completed = completed + NEW._is_good, failed = failed + 1 - NEW._is_good, compensated = compensated + (NEW.compensations > 0);
INSERT INTO _hour_durations VALUES (NEW.ended_at / {HOUR_MS}, {_rounded("NEW.duration_ms")}, 1)
ON CONFLICT (hour, ms) DO UPDATE SET count = count + 1;
END
"""  # noqa: S608  of this file
"""Tables and triggers; an hour is counted since 1970, a duration has two significant digits."""
_PARKED = f"""
SELECT at_ms / {HOUR_MS}, service, decider, kind, count(*) FROM _failed WHERE at_ms >= ? AND at_ms < ? GROUP BY 1, 2, 3, 4
"""  # noqa: S608  of this file


class Counts(NamedTuple):
    """How many sagas started in an hour, counted since 1970, and how many ended: `completed` or `failed`, by what ended them.

    `compensated` counts the ended ones that have a compensation.
    """

    hour: int
    started: int = 0
    completed: int = 0
    failed: int = 0
    compensated: int = 0


@dataclass(frozen=True, slots=True)
class Hour:
    """What happened in one hour.

    `p50_ms` and `p99_ms` are of the durations of sagas that ended then, with two significant digits; None where none did.
    `parked` has counts by service, decider and kind of reason.
    """

    sagas: Counts
    p50_ms: int | None = None
    p99_ms: int | None = None
    parked: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


Rows = Callable[[str, Sequence[object]], Iterable[tuple[Any, ...]]]


def hours_of(rows: Rows, first: int, last: int) -> list[Hour]:
    """Return the hours from `first` to `last`, by an index's `rows`; those without anything, too."""
    span = first, last
    counts = {row[0]: Counts(*row) for row in rows("SELECT * FROM _hours WHERE hour BETWEEN ? AND ?", span)}
    took = dict[int, list[tuple[int, int]]]()
    for hour, ms, count in rows("SELECT * FROM _hour_durations WHERE hour BETWEEN ? AND ? AND count", span):
        took.setdefault(hour, []).append((ms, count))
    parked = dict[int, dict[tuple[str, str, str], int]]()
    for hour, *cause, count in rows(_PARKED, (first * HOUR_MS, (last + 1) * HOUR_MS)):
        parked.setdefault(hour, {})[cause[0], cause[1], cause[2]] = count
    quantiles = {hour: (_quantile(each, 0.5), _quantile(each, 0.99)) for hour, each in took.items()}
    return [
        Hour(counts.get(each, Counts(each)), *quantiles.get(each, (None, None)), parked.get(each, {}))
        for each in range(first, last + 1)
    ]


def _quantile(took: Sequence[tuple[int, int]], part: float) -> int | None:
    """Return the shortest duration that this part of all does not exceed; `took` has durations in order, and how often each."""
    left = part * sum(count for _, count in took)
    for ms, count in took:
        left -= count
        if left <= 0:
            return ms
    return None
