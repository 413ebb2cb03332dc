"""The order index: every order, its timeline and the catalogue, in SQLite, so that an answer costs what it says.

It holds what is on the log and nothing else, so each instance of the API has a full one of its own.
"""

import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from eventlib import EventlibError, EventLog
from eventlib.model.event import contract_of
from eventlib.queries import Projection, View, Waiters
from eventlib.runtime.records import POSITION_KEY, STATE, Positions, state_name
from eventlib.spi import Record, UnknownSchema
from services.order.events import PRODUCTS, OrderSubmitted, ProductListed
from services.order.state import Order, Status

_REQUESTED = contract_of(OrderSubmitted).topic
REQUESTS = _REQUESTED.name
FINGERPRINT = "http-body"
"""The header of a request that holds the hash of the HTTP body it came from (32 hex digits)."""

_CHUNK = 500
_CHANGELOG = "order.changelog"
_CATALOGUE = PRODUCTS.latest_topic.name
_TABLES = """
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, opened_at INTEGER NOT NULL, customer_id TEXT, status TEXT NOT NULL,
    saga TEXT NOT NULL, state BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX orders_by_time ON orders (opened_at, order_id);
CREATE INDEX orders_of_customer ON orders (customer_id, opened_at, order_id);
CREATE INDEX orders_in_status ON orders (status, opened_at, order_id);
CREATE INDEX orders_of_customer_in_status ON orders (customer_id, status, opened_at, order_id);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, saga TEXT NOT NULL, fingerprint TEXT,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, recorded_at INTEGER NOT NULL,
    key BLOB, value BLOB, id TEXT, type TEXT, source TEXT, subject TEXT, sequence INTEGER,
    correlation_id TEXT, causation_id TEXT
);
CREATE INDEX events_of_saga ON events (saga);
CREATE TABLE owners (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE products (
    sku TEXT PRIMARY KEY, description TEXT NOT NULL, unit_price_cents INTEGER NOT NULL, currency TEXT NOT NULL
) WITHOUT ROWID;
"""
_PUT_ORDER = """
INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET opened_at = excluded.opened_at, customer_id = excluded.customer_id, status = excluded.status,
    saga = excluded.saga, state = excluded.state
"""
_PUT_EVENT = "INSERT INTO events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROW = 'seq, topic, partition, "offset", recorded_at, key, value, id, type, source, subject, sequence, correlation_id, causation_id'


class Found(NamedTuple):
    """An order as its owner had it last."""

    order_id: str
    order: Order


class Submitted(NamedTuple):
    """The first request for an order: its HTTP body's hash (None: it did not come over HTTP), and where it stands."""

    fingerprint: str | None
    record: Record


class OrderIndex:
    """Follows the log: `async with OrderIndex(log) as index: ...`.

    Guarantee: an order's state is exactly its owner's, as of some transaction of the owner's; never an older one
    than was read before.
    """

    def __init__(self, log: EventLog, path: Path | str | None = None) -> None:
        self.log = log
        self.waiters = Waiters()
        self._by_order, self._by_saga = _saga_topics(log)
        timeline = [*self._by_order, *self._by_saga]
        view = View("order-index", [_CHANGELOG, _CATALOGUE], _TABLES, self._apply, undecoded=timeline)
        self.projection = Projection(log, view, path)
        self.projection.listeners.append(self._wake)
        self._touched: set[Hashable] = set()

    async def __aenter__(self) -> Self:
        """Open the index, and begin to follow the log."""
        await self.projection.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the index."""
        await self.projection.__aexit__(kind, error, traceback)

    # --- questions

    def order(self, order_id: str) -> Found | None:
        """Return an order that was placed."""
        row = self._row("SELECT order_id, state FROM orders WHERE order_id = ?", order_id)
        return None if row is None else self._found(row)

    def has_ended(self, order_id: str) -> bool:
        """Tell whether an order has ended."""
        row = self._row("SELECT status FROM orders WHERE order_id = ?", order_id)
        return row is not None and row[0] in {Status.COMPLETED, Status.CANCELLED}

    def orders(
        self, customer_id: str | None, status: Status | None, before: tuple[int, str] | None, limit: int
    ) -> list[Found]:
        """Return orders, the newest first, those before a place (opened_at in ms, order_id) if one is given."""
        conditions, values = ["1"], list[object]()
        if customer_id is not None:
            conditions.append("customer_id = ?")
            values.append(customer_id)
        if status is not None:
            conditions.append("status = ?")
            values.append(status.value)
        if before is not None:
            conditions.append("(opened_at, order_id) < (?, ?)")
            values += before
        query = (
            f"SELECT order_id, state FROM orders WHERE {' AND '.join(conditions)} "  # noqa: S608  conditions of this function only
            "ORDER BY opened_at DESC, order_id DESC LIMIT ?"
        )
        return [self._found(row) for row in self.projection.rows(query, (*values, limit))]

    def events(self, order_id: str, after: int = 0) -> list[tuple[int, Record]]:
        """Return the events of an order's saga after a number, in the order in which they came here, numbered."""
        rows = self.projection.rows(
            f"SELECT {_ROW} FROM events "  # noqa: S608  column names of this file only
            "WHERE saga IN (?1, (SELECT saga FROM orders WHERE order_id = ?1)) AND seq > ?2 ORDER BY seq",
            (order_id, after),
        )
        return [(row[0], Record(*row[1:])) for row in rows]

    def has_events(self, order_id: str, after: int) -> bool:
        """Tell whether there are events of an order after a number."""
        row = self._row("SELECT max(seq) FROM events WHERE saga = ?", order_id)
        return row is not None and row[0] is not None and row[0] > after

    def submitted(self, order_id: str) -> Submitted | None:
        """Return the first request for an order: the one that counts."""
        row = self._row(
            f"SELECT fingerprint, {_ROW} FROM events WHERE saga = ? AND type = ? ORDER BY seq LIMIT 1",  # noqa: S608  as above
            order_id,
            OrderSubmitted.__name__,
        )
        return None if row is None else Submitted(row[0], Record(*row[2:]))

    def request_in(self, submitted: Submitted) -> OrderSubmitted | None:
        """Return what a request says; None when it cannot be read (the timeline says why)."""
        try:
            event = self.log.decode(submitted.record)
        except (EventlibError, UnknownSchema):
            return None
        return event if isinstance(event, OrderSubmitted) else None

    async def first_submitted(self, order_id: str, end: int) -> Submitted | None:
        """Return the first request for an order before an offset of its partition, also where this index is behind.

        Cost: what the index has not read yet of that partition. Raises: LogUnavailable.
        """
        partition = _REQUESTED.partition_of(order_id.encode())
        offset = self.projection.positions.get((REQUESTS, partition), 0)  # read with the tables, so nothing is between
        found, key = self.submitted(order_id), order_id.encode()
        while found is None and offset < end:
            records = await self.log.port.read(REQUESTS, partition, offset, min(_CHUNK, end - offset))
            first = next((each for each in records if each.key == key and each.type == OrderSubmitted.__name__), None)
            found = None if first is None else Submitted(_fingerprint(first), first)
            offset = records[-1].offset + 1 if records else end
        return found

    async def knows_order(self, order_id: str, timeout_s: float) -> None:
        """Wait until this index knows an order's request, or knows that there is none. Raises: ProjectionBehind."""
        if self.submitted(order_id) is None:
            await self.projection.up_to_date([(REQUESTS, _REQUESTED.partition_of(order_id.encode()))], timeout_s)

    async def knows_products(self, skus: Iterable[str], timeout_s: float) -> None:
        """Wait until this index knows whether these products are for sale now. Raises: ProjectionBehind."""
        partitions = {PRODUCTS.latest_topic.partition_of(sku.encode()) for sku in skus}
        await self.projection.up_to_date([(_CATALOGUE, partition) for partition in sorted(partitions)], timeout_s)

    def product(self, sku: str) -> ProductListed | None:
        """Return a product that is for sale."""
        row = self._row("SELECT * FROM products WHERE sku = ?", sku)
        return None if row is None else _product(row)

    def products(self, after: str, limit: int) -> list[ProductListed]:
        """Return products that are for sale, those after a SKU."""
        rows = self.projection.rows("SELECT * FROM products WHERE sku > ? ORDER BY sku LIMIT ?", (after, limit))
        return [_product(row) for row in rows]

    def handled(self, partition: int) -> int:
        """Return the offset in `order.requests` up to which the owner of a partition has decided."""
        row = self._row("SELECT next FROM owners WHERE partition = ?", partition)
        return 0 if row is None else int(row[0])

    def all_handled(self) -> dict[int, int]:
        """Return what `handled` says of each partition that has an owner."""
        return {row[0]: row[1] for row in self.projection.rows("SELECT partition, next FROM owners")}

    def is_decided(self, partition: int, offset: int) -> bool:
        """Tell whether the owner has decided a request, and this index has both the request and the decision."""
        read = self.projection.positions.get((REQUESTS, partition), 0)
        return read > offset and self.handled(partition) > offset

    def seen_of(self, order_id: str) -> tuple[int, int, int]:
        """Return how far this index is with an order: its partition, its owner's last request, and its changelog."""
        partition = _REQUESTED.partition_of(order_id.encode())
        changes = self.projection.positions.get((_CHANGELOG, partition), 0)
        return partition, self.handled(partition) - 1, changes

    async def changelog_end(self, partition: int) -> int:
        """Return where the changelog of a partition's owner ends. Raises: LogUnavailable."""
        return await self.log.port.decided_end(_CHANGELOG, partition)

    async def has_seen(self, partition: int, changes: int, timeout_s: float) -> bool:
        """Wait until the index is as far with a changelog; False when it was not in time."""
        return changes == 0 or await self.projection.reached(_CHANGELOG, partition, changes - 1, timeout_s)

    async def decided(self, partition: int, offset: int, timeout_s: float) -> bool:
        """Wait until a request is decided; False when it was not in time."""
        return await self.waiters.until(partition, lambda: self.is_decided(partition, offset), timeout_s)

    # --- what each record means

    def _row(self, question: str, *values: object) -> tuple[Any, ...] | None:
        return next(iter(self.projection.rows(question, values)), None)

    def _found(self, row: Sequence[Any]) -> Found:
        return Found(row[0], self.log.codec.decode(Order, row[1]))

    def _apply(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        if record.topic == _CHANGELOG:
            self._changed(db, record, value)
        elif record.topic == _CATALOGUE:
            _listed(db, record, value)
        else:
            self._happened(db, record)

    def _changed(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        key = _text(record.key)
        if isinstance(value, Positions):
            handled = value.next.get(REQUESTS, 0)
            db.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (record.partition, handled))
            self._touched.add(record.partition)
        elif key is not None and key != POSITION_KEY and key.startswith(STATE):
            order_id = state_name(key)[1]
            self._touched.add(order_id)
            if isinstance(value, Order) and value.opened_at is not None:
                opened_ms = int(value.opened_at.timestamp() * 1000)
                saga = record.correlation_id or order_id
                row = (order_id, opened_ms, value.customer_id, value.status.value, saga, record.value)
                db.execute(_PUT_ORDER, row)
            elif record.value is None:
                db.execute("DELETE FROM orders WHERE order_id = ?", (order_id,))

    def _happened(self, db: sqlite3.Connection, record: Record) -> None:
        if record.topic in self._by_order:
            saga = _text(record.key)
        else:
            saga = record.correlation_id if record.type in self._by_saga[record.topic] else None
        if record.topic == REQUESTS:
            self._touched.add(record.partition)
        if saga is not None:
            db.execute(_PUT_EVENT, (saga, _fingerprint(record), *record[:13]))
            self._touched.add(saga)

    def _wake(self) -> None:
        touched, self._touched = self._touched, set()
        self.waiters.wake(touched)


def _saga_topics(log: EventLog) -> tuple[set[str], dict[str, set[str]]]:
    """Return the topics keyed by an order, and those keyed otherwise with the event types in them that name an order."""
    by_order, by_saga = set[str](), dict[str, set[str]]()
    for event in log.choreography.events:
        contract = contract_of(event)
        if contract.key == "order_id":
            by_order.add(contract.topic.name)
        elif "order_id" in event.model_fields:
            by_saga.setdefault(contract.topic.name, set()).add(contract.type)
    return by_order, by_saga


def _listed(db: sqlite3.Connection, record: Record, value: Any) -> None:
    if isinstance(value, ProductListed):
        row = (value.sku, value.description, value.unit_price_cents, value.currency)
        db.execute("INSERT OR REPLACE INTO products VALUES (?, ?, ?, ?)", row)
    elif record.value is None:
        db.execute("DELETE FROM products WHERE sku = ?", (_text(record.key),))


def _fingerprint(record: Record) -> str | None:
    return next((text.decode() for name, text in record.headers if name == FINGERPRINT), None)


def _product(row: Sequence[Any]) -> ProductListed:
    return ProductListed(sku=row[0], description=row[1], unit_price_cents=row[2], currency=row[3])


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
