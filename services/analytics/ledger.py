"""The simulated gateway's ledger compared with the table `payments`: every order that has ended, whose money is final."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from analytics.reconciling import Compared, Difference, Row, compared_of
from eventlib.errors import LogUnavailable

WHERE, TABLE = "gateway", "payments"
_BOOKS = """
SELECT c.order_id, sum(c.outcome = 'taken'), sum(iif(c.outcome = 'taken', c.amount_cents, 0)),
    sum(ifnull((SELECT sum(v.returned_cents) FROM voids v WHERE v.charge_key = c.key), 0)
      + ifnull((SELECT sum(r.amount_cents) FROM refunds r WHERE r.charge_key = c.key), 0))
FROM charges c GROUP BY c.order_id
"""


class Account(NamedTuple):
    """The gateway's account of an order: how often it was charged, what was taken and returned, in minor units."""

    charges: int
    taken_cents: int
    refunded_cents: int


_NOTHING = Account(0, 0, 0)


def ledger_findings(
    path: Path, before: Mapping[str, Account], logged: Mapping[str, Row]
) -> tuple[Compared, list[Difference]]:
    """Return the differences between a ledger and `logged`; `before` is the ledger, read before the log was.

    Raises: LogUnavailable.
    """
    books = accounts(path)
    position = "the orders' ends"
    differences, equal_keys = list[Difference](), 0
    for name, row in sorted(logged.items()):
        if row["ended_at"] is None:
            continue
        has = books.get(name, _NOTHING)
        charges = int(bool(row["taken_cents"]))
        said = Account(charges, int(str(row["taken_cents"])), int(str(row["refunded_cents"])))
        found = [
            Difference(WHERE, TABLE, name, field, str(live), str(log), position)
            for field, live, log in zip(Account._fields, has, said, strict=True)
            if live != log
        ]
        equal_keys += not found
        differences += found
    strange = [name for name, has in before.items() if has.taken_cents and name not in logged]
    differences += [
        Difference(WHERE, TABLE, name, "", f"took {before[name].taken_cents}", None, position) for name in strange
    ]
    return compared_of(WHERE, TABLE, equal_keys, differences), differences


def accounts(path: Path) -> dict[str, Account]:
    """Return a ledger's account of each order. Raises: LogUnavailable when it cannot be read."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as books:
            return {order: Account(*rest) for order, *rest in books.execute(_BOOKS)}
    except sqlite3.Error as error:
        raise LogUnavailable(f"the ledger {path} cannot be read: {error}") from error
