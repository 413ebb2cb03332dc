"""A bank's payments, and a view that sums them by customer."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Publication, Service, open_log
from eventlib.model.record import Record
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View


class Paid(Event, topic="payments", key="customer", request=True):
    customer: str
    cents: int


@dataclass(frozen=True)
class Account:
    cents: int = 0


accounts = Decider("account", state=Account, key="customer")


@accounts.on(Paid)
def take_note(_account: Account, _paid: Paid) -> list[Never]:
    return []


class Transferred(Event, topic="transfers", key="customer", request=True):
    customer: str
    cents: int


transfers = Decider("transfer", state=Account, key="customer")


@transfers.on(Transferred)
def take_note_of_transfer(_account: Account, _transferred: Transferred) -> list[Never]:
    return []


BANK = Choreography("bank", [Service("bank", deciders=[accounts])])
TABLES = "CREATE TABLE totals (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL, n INTEGER NOT NULL) WITHOUT ROWID"


def add(db: sqlite3.Connection, _record: Record, event: Any) -> None:
    """Sum what each customer has paid."""
    if isinstance(event, Paid | Transferred):
        db.execute(
            "INSERT INTO totals VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents, n = n + 1",
            (event.customer, event.cents),
        )


TOTALS = View("totals", topics=["payments"], tables=TABLES, apply=add)
Rows = list[tuple[str, int, int]]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", BANK) as opened:
        yield opened


async def pay(log: EventLog, payments: int) -> None:
    await log.publish_many([Publication(Paid(customer=f"c{n % 7}", cents=n)) for n in range(payments)])


def rows(projection: Projection) -> Rows:
    return projection.db.execute("SELECT * FROM totals ORDER BY customer").fetchall()


def expected(*payments: int) -> Rows:
    totals: dict[str, tuple[int, int]] = {}
    for count in payments:
        for n in range(count):
            cents, times = totals.get(f"c{n % 7}", (0, 0))
            totals[f"c{n % 7}"] = cents + n, times + 1
    return [(customer, *total) for customer, total in sorted(totals.items())]
