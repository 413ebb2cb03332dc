"""Counts by hour are what the tables of sagas say, in whichever order their records come; a clock that is reset leaves nothing behind."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from eventlib.index.code import code_schema, fold_failures
from eventlib.index.columns import COLLATIONS
from eventlib.index.fold import _END, _STATE, _STEP
from eventlib.index.hours import HOUR_MS, hours_of
from eventlib.index.schema import core_schema
from eventlib.index.tables import Declared
from eventlib.runtime.parking.parked import PAUSED, WAITS_BEHIND
from eventlib.runtime.records import JournalEntry, Step
from services import shop


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        for name in COLLATIONS.values():
            db.create_collation(name, lambda one, other: (one > other) - (one < other))
        db.executescript(f"{core_schema(Declared(shop), ())};{code_schema(shop)}")
        yield db


def counted(db: sqlite3.Connection) -> list[tuple[int, ...]]:
    """Count by hour what the rows of sagas say."""
    found = Counter[tuple[int, int]]()
    for started, ended, good, compensations in db.execute(
        "SELECT started_at, ended_at, _is_good, compensations FROM _sagas WHERE steps"
    ):
        found[started // HOUR_MS, 0] += 1
        if ended is not None:
            found[ended // HOUR_MS, 1 if good else 2] += 1
            found[ended // HOUR_MS, 3] += compensations > 0
    hours = sorted({hour for hour, _ in +found})
    return [(hour, *(found[hour, kind] for kind in range(4))) for hour in hours]


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_the_rows_whatever_comes_late(db: sqlite3.Connection, seed: int) -> None:
    random = Random(seed)
    for _ in range(300):
        saga, at_ms = f"S{random.randrange(12)}", random.randrange(20 * HOUR_MS)
        match random.randrange(3):
            case 0:
                db.execute(_STEP, (saga, at_ms, random.random() < 0.2, random.random() < 0.1))
            case 1:
                place, good = f"{at_ms:015d}", random.random() < 0.5
                db.execute(_STEP, (saga, at_ms, not good, False))
                db.execute(_END, (saga, place, at_ms, "ended", None, good))
            case _:
                db.execute(_STATE, (saga, "charged", False, None, at_ms))
    found = hours_of(db.execute, 0, 20)
    assert [(*each.sagas,) for each in found if any(each.sagas[1:])] == counted(db) != []
    durations = Counter(
        ms for (ms,) in db.execute("SELECT duration_ms FROM _sagas WHERE ended_at IS NOT NULL AND steps")
    )
    kept = Counter(dict(db.execute("SELECT ms, sum(count) FROM _hour_durations GROUP BY ms HAVING sum(count)")))
    rounded = Counter[int]()
    for ms, count in durations.items():
        rounded[int(float(f"{ms + 1e-9:.2g}")) if ms >= 100 else ms] += count
    assert kept == rounded


def test_quantiles_have_two_digits_and_are_of_the_hour_in_which_sagas_ended(db: sqlite3.Connection) -> None:
    for number, ms in enumerate([1_234] * 98 + [98_765, 7]):
        db.execute(_STEP, (f"S{number}", HOUR_MS - 1, False, False))
        db.execute(_END, (f"S{number}", "", HOUR_MS - 1 + ms, "ended", None, True))
    before, after = hours_of(db.execute, 0, 1)
    assert (before.sagas.started, before.p50_ms) == (100, None)
    assert (after.sagas.completed, after.p50_ms, after.p99_ms) == (100, 1_200, 1_200)
    db.execute("UPDATE _sagas SET ended_at = ended_at + 1000 WHERE saga = 'S0'")
    assert dict(db.execute("SELECT ms, count FROM _hour_durations")) == {1_200: 97, 2_200: 1, 99_000: 1, 7: 1}


def parked(at_ms: int, *reasons: str) -> JournalEntry:
    return JournalEntry(
        at_ms=at_ms, steps=tuple(Step("park", decider="quotes", key="MT", detail=each) for each in reasons)
    )


def reset(at_ms: int, first_ms: int, last_ms: int) -> JournalEntry:
    return JournalEntry(at_ms=at_ms, steps=(Step("clock", first=first_ms, last=last_ms),))


def test_what_is_parked_is_counted_by_kind_and_a_reset_clock_moves_it(db: sqlite3.Connection) -> None:
    task, now, ahead = ("rates", 3), 10 * HOUR_MS, 900 * HOUR_MS
    fold_failures(db, task, 0, parked(now, "KeyError: 'MT'", "KeyError: 'IS'", WAITS_BEHIND, f"{PAUSED}eve: a call"))
    for number, at_ms in enumerate((ahead, ahead + 2 * HOUR_MS)):
        fold_failures(db, task, 1 + number, parked(at_ms, "KeyError: 'FO'"))
    fold_failures(db, ("rates", 4), 0, parked(ahead, "TypeError: 7 of 9"))  # another task has a clock of its own
    fold_failures(db, task, 3, reset(now + 5, ahead - 1, ahead + 3 * HOUR_MS))
    rows = hours_of(db.execute, 0, 1_000)
    assert {each.sagas.hour: each.parked for each in rows if each.parked} == {
        10: {("rates", "quotes", "KeyError: …"): 4},
        900: {("rates", "quotes", "TypeError: … of …"): 1},
    }


def test_a_clock_that_was_ahead_within_one_hour_counts_each_once(db: sqlite3.Connection) -> None:
    fold_failures(db, ("rates", 0), 0, parked(20, "KeyError: 'MT'"))
    fold_failures(db, ("rates", 0), 1, reset(10, 15, 30))
    ((count,),) = db.execute("SELECT count(*) FROM _failed")
    assert count == 1
