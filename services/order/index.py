"""The order index: every order, its events and the catalogue, in SQLite, so that an answer costs what it says.

It holds what is on the log and nothing else, so each instance of the API has a full one of its own.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventlib import EventLog
from eventlib.queries import SagaIndex, StateRow, View
from eventlib.spi import Record
from services.order.decider import orders
from services.order.events import PRODUCTS, ProductListed
from services.order.state import Order, Status

_CATALOGUE = PRODUCTS.latest_topic.name
_INDEXES = [
    ("opened_at",),
    ("customer_id", "opened_at"),
    ("status", "opened_at"),
    ("customer_id", "status", "opened_at"),
]
_TABLES = """
CREATE TABLE products (
    sku TEXT PRIMARY KEY, description TEXT NOT NULL, unit_price_cents INTEGER NOT NULL, currency TEXT NOT NULL
) WITHOUT ROWID
"""


class Found(NamedTuple):
    """An order as its owner had it last."""

    order_id: str
    order: Order


class OrderIndex(SagaIndex[Order]):
    """Follows the log: `async with OrderIndex(log) as index: ...`."""

    def __init__(self, log: EventLog, path: Path | str | None = None) -> None:
        products = View("products", [_CATALOGUE], _TABLES, _listed)
        super().__init__(log, orders, _INDEXES, beside=[products], path=path)

    def order(self, order_id: str) -> Found | None:
        """Return an order that was placed."""
        row = self.get(order_id)
        return None if row is None or row.state.opened_at is None else _found(row)

    def has_ended(self, order_id: str) -> bool:
        """Tell whether an order has ended."""
        row = self.get(order_id)
        return row is not None and row.state.ended_at is not None

    def orders(
        self, customer_id: str | None, status: Status | None, before: tuple[int, str] | None, limit: int
    ) -> list[Found]:
        """Return orders, the newest first, those before a place (opened_at in ms, order_id) if one is given."""
        wanted = {"customer_id": customer_id, "status": status}
        equal = {name: value for name, value in wanted.items() if value is not None}
        rows = self.where(equal, order_by="opened_at", descending=True, after=before, limit=limit)
        return [_found(row) for row in rows]

    async def knows_products(self, skus: Iterable[str], timeout_s: float) -> None:
        """Wait until this index knows whether these products are for sale now. Raises: ProjectionBehind."""
        partitions = {PRODUCTS.latest_topic.partition_of(sku.encode()) for sku in skus}
        await self.up_to_date([(_CATALOGUE, partition) for partition in sorted(partitions)], timeout_s)

    def product(self, sku: str) -> ProductListed | None:
        """Return a product that is for sale."""
        return next((_product(row) for row in self.rows("SELECT * FROM products WHERE sku = ?", (sku,))), None)

    def products(self, after: str, limit: int) -> list[ProductListed]:
        """Return products that are for sale, those after a SKU."""
        rows = self.rows("SELECT * FROM products WHERE sku > ? ORDER BY sku LIMIT ?", (after, limit))
        return [_product(row) for row in rows]


def _found(row: StateRow[Order]) -> Found:
    return Found(row.key, row.state)


def _listed(db: sqlite3.Connection, record: Record, value: Any) -> None:
    if isinstance(value, ProductListed):
        row = (value.sku, value.description, value.unit_price_cents, value.currency)
        db.execute("INSERT OR REPLACE INTO products VALUES (?, ?, ?, ?)", row)
    elif record.value is None and record.key is not None:
        db.execute("DELETE FROM products WHERE sku = ?", (record.key.decode("utf-8", "replace"),))


def _product(row: Sequence[Any]) -> ProductListed:
    return ProductListed(sku=row[0], description=row[1], unit_price_cents=row[2], currency=row[3])
