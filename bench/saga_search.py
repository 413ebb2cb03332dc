"""How fast pages of sagas are found: `python -m bench.saga_search [COUNT …]`, by default 10,000 and 1,000,000.

The index is that of the shop, in a file, filled with COUNT sagas by SQL: 95 of 100 have ended, a fifth of the open ones
wait for the gateway, a tenth is parked, countries are skewed as in a shop, amounts are log-normal. Each query is followed for up to 20
pages of 50 through `SagaSearch.page`, in two rounds; all is in one process, with the file in the system's cache.
Prints a JSON object for each COUNT: seconds to fill, bytes, and for each query its pages, the sagas found, and
milliseconds a page (p50, p99, the slowest), as a clock sees them and as CPU time, which other work on the machine changes
less; `all` has every page of every query.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from typing import Any

from eventlib import open_log
from eventlib.search import SagaQuery, SagaSearch
from eventlib.values import now_ms
from services import shop

_PAGES, _LIMIT, _ROUNDS = 20, 50, 2
_DAY_MS = 86_400_000
_COUNTRIES = ["United Kingdom"] * 80 + ["Germany"] * 8 + ["France"] * 7 + ["EIRE"] * 3 + ["Malta"] * 2
QUERIES = [
    ("", "started_at desc"),
    ("", "amount_cents desc"),
    ("", "duration"),
    ("status = 'open'", "started_at desc"),
    ("status = 'open'", "amount_cents desc"),
    ("status = 'overdue'", "started_at"),
    ("country = 'France'", "started_at desc"),
    ("country = 'France' and status = 'open' and amount_cents > 10000 and waiting_for = 'gateway'", "started_at desc"),
    ("country = 'Malta' and amount_cents > 100000", "amount_cents desc"),
    ("amount_cents between 5000 and 5010", "last_at desc"),
    ("customer_id = 'c17'", "started_at desc"),
    ("saga = 'o5000'", "started_at desc"),
    ("saga like 'o99%'", "started_at desc"),
    ("parked_reason like '%KeyError%'", "started_at desc"),
    ("outcome = 'order_cancelled' and reason = 'declined'", "ended_at desc"),
    ("not (country = 'United Kingdom' or currency = 'GBP') and age > 30d", "age desc"),
    ("steps > 1000", "started_at desc"),
    ("reason is null and country like '%nce'", "customer_id"),
]
_SAGAS = """
INSERT INTO _sagas (saga, open, state, is_overdue, outcome, _ending_reason, started_at, last_at, ended_at,
steps, failures, customer_id, country, currency, amount_cents) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_WAITS = """
INSERT INTO _waits (origin, name, saga, service, decider, kind, since, due_at, reason, partition)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
"""


def sagas(count: int, now: int, chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Yield rows of sagas."""
    for number in range(count):
        started = now - chance.randrange(90 * _DAY_MS)
        took = int(chance.lognormvariate(6, 1.5))
        is_open, is_bad = chance.random() < 0.05, chance.random() < 0.1
        ended = None if is_open else started + took
        outcome = "open" if is_open else "order_cancelled" if is_bad else "order_completed"
        reason = chance.choice(["declined", "out of stock"]) if is_bad else None
        yield (
            f"o{number}", is_open, "placed" if is_open else None, is_open and chance.random() < 0.2, outcome, reason,
            started, started + took, ended, chance.randrange(7, 40), int(is_bad), f"c{chance.randrange(1 + count // 5)}",
            chance.choice(_COUNTRIES), chance.choice(["GBP", "EUR"]), int(chance.lognormvariate(9, 1.2)),
        )  # fmt: skip


def waits(rows: Iterator[tuple[str, int]], chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Yield rows of what open sagas wait for."""
    for saga, at in rows:
        luck = chance.random()
        if luck < 0.2:
            yield f"effect/{saga}", "gateway", saga, "payment", "payment", "effect", at, None, None
        elif luck < 0.3:
            reason = chance.choice(["KeyError: 'MT'", "ValueError: tax"])
            yield f"parked/{saga}", "payment", saga, "payment", "payment", "parked", at, None, reason
        else:
            yield f"state/order/{saga}", "order.late_at", saga, "order", "order", "deadline", at, at + _DAY_MS, None


def fill(search: SagaSearch, count: int) -> None:
    """Write the rows of sagas to an index."""
    chance, db = random.Random(count), search.db
    db.execute("BEGIN IMMEDIATE")
    db.executemany(_SAGAS, sagas(count, now_ms(), chance))
    opened = db.execute("SELECT saga, started_at FROM _sagas WHERE open").fetchall()
    db.executemany(_WAITS, waits(iter(opened), chance))
    db.execute("COMMIT")


Times = list[tuple[float, float]]


async def walk(search: SagaSearch, where: str, order_by: str) -> tuple[Times, int]:
    """Return the ms and the CPU ms of each page of a query, and how many sagas these have."""
    times, found, after = Times(), 0, None
    for _ in range(_PAGES):
        begun = perf_counter(), process_time()
        page = await search.page(SagaQuery(where, order_by, _LIMIT, after))
        times.append(((perf_counter() - begun[0]) * 1000, (process_time() - begun[1]) * 1000))
        found, after = found + len(page.sagas), page.next
        if after is None:
            break
    return times, found


def summary(times: Times) -> dict[str, dict[str, float]]:
    """Return what is told of times."""
    return {name: _cuts([each[place] for each in times]) for place, name in enumerate(("ms", "cpu_ms"))}


def _cuts(times: list[float]) -> dict[str, float]:
    cuts = quantiles(times, n=100, method="inclusive")
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "slowest": round(max(times), 2)}


async def measured(count: int) -> dict[str, Any]:
    """Return the figures for one number of sagas."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "sagas.db")
        async with open_log("memory://", shop) as log, SagaSearch(log, path=path) as search:
            assert await search.caught_up(60)
            begun = perf_counter()
            fill(search, count)
            filled_s = perf_counter() - begun
            every, queries = Times(), list[dict[str, Any]]()
            for where, order_by in QUERIES:
                rounds = [await walk(search, where, order_by) for _ in range(_ROUNDS)]
                times = [each for of_round, _ in rounds for each in of_round]
                every += times
                pages = len(rounds[0][0])
                about = {"where": where, "order_by": order_by, "pages": pages, "sagas": rounds[0][1]}
                queries.append({**about, **summary(times)})
            ((size,),) = search.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    return {"sagas": count, "fill_s": round(filled_s, 1), "bytes": size, "all": summary(every), "queries": queries}


if __name__ == "__main__":
    for asked in [int(each) for each in sys.argv[1:]] or [10_000, 1_000_000]:
        print(json.dumps(asyncio.run(measured(asked)), indent=1))
