"""The shop's log compared with the outside world: with the order API, and with the simulated gateway's ledger."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from analytics.reconciling import ApiClient, Compared, Difference, LiveApi, LiveBooks, Outside, Row, compared_of
from eventlib import ContractError
from eventlib.errors import LogUnavailable
from services.analytics.expected import expected_orders
from services.order import service as order_service
from services.order.events import OrderSubmitted

_PAGE = 200

FIELDS = (
    *("status", "reason", "customer_id", "country", "amount_cents", "currency", "line_count", "placed_at", "ended_at"),
    *("taken_cents", "refunded_cents", "tracking"),
)
"""The API's fields of an order that the tables have, too."""

_TIMES = ("placed_at", "ended_at")

WHERE, TABLE = "gateway", "payments"
_BOOKS = """
SELECT c.order_id, sum(c.outcome = 'taken'), sum(iif(c.outcome = 'taken', c.amount_cents, 0)),
    sum(ifnull((SELECT sum(v.returned_cents) FROM voids v WHERE v.charge_key = c.key), 0)
      + ifnull((SELECT sum(r.amount_cents) FROM refunds r WHERE r.charge_key = c.key), 0))
FROM charges c GROUP BY c.order_id
"""


class OrdersApi(ApiClient):
    """Queries an order API over HTTP."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "the order API")

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield every order of the list, page by page. Raises: as `row` does."""
        cursor: str | None = None
        while True:
            page = self.get("/orders", {"limit": str(_PAGE), **({"cursor": cursor} if cursor else {})}).json()
            for each in page["orders"]:
                yield each["order_id"], _order(each)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def row(self, key: str, min_position: str | None) -> tuple[Row | None, str]:
        """Return an order at or after a position, None if there is none, and the position in the answer.

        Raises: LogUnavailable when the API does not answer; ContractError when it is another one.
        """
        asked = {} if min_position is None else {"min_position": min_position}
        answer = self.get(f"/orders/{quote(key, safe='')}", asked, may_lack=True)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None, ""
        order = answer.json()
        return (None if order["status"] == "submitted" else _order(order)), order["position"] or ""


def _order(order: Mapping[str, Any]) -> Row:
    try:
        found = {name: order[name] for name in FIELDS}
    except KeyError as error:
        raise ContractError(f"an answer of the order API has no {error.args[0]}: is it another release?") from error
    return found | {name: datetime.fromisoformat(found[name]) if found[name] else None for name in _TIMES}


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
        logged_account = Account(charges, int(str(row["taken_cents"])), int(str(row["refunded_cents"])))
        found = [
            Difference(WHERE, TABLE, name, field, str(live), str(log), position)
            for field, live, log in zip(Account._fields, has, logged_account, strict=True)
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


def _is_final(order: Row) -> bool:
    return order["ended_at"] is not None


def _seen(field: str, order: Row) -> object:
    """Return the compared value: while an order is open, only whether there is a reason against it.

    Which of several is the first depends on the order in which they were consumed, and is decided at the end.
    """
    value = order[field]
    return value is not None if field == "reason" and not _is_final(order) else value


def _shown(order: Row) -> str:
    return f"{order['status']}, {order['amount_cents']} {order['currency']}"


OUTSIDE = Outside(
    expected_orders,
    api=LiveApi(
        table="orders",
        service=order_service.name,
        request=OrderSubmitted,
        fields=FIELDS,
        connect=OrdersApi,
        is_final=_is_final,
        seen=_seen,
        shown=_shown,
    ),
    ledger=LiveBooks(accounts, ledger_findings),
)
