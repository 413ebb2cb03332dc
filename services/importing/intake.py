"""The orders of an import's file, on disk until the import has ended, and whether each is placed or refused."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple, Self, TextIO

from eventlib import Publication, TerminalError
from eventlib.spi import Codec, contract_of
from services.importing.files import Source, read_ndjson
from services.importing.orders import Order, Reason, Refusal
from services.importing.report import Report
from services.importing.retail_csv import DayFirst, read_csv
from services.order.events import OrderSubmitted

CONTENT_HEADER = "content"
"""The header that holds the digest of an order's content (16 hex digits), so that it is compared without decoding."""

_MOST_BYTES = contract_of(OrderSubmitted).topic.max_event_bytes - 1_000
"""Leaves room for what the order service adds when it emits OrderPlaced."""

_LINE_BYTES = 40
_CHARACTER_BYTES = 4
_SHOW_EVERY = 500
_TABLE = """
CREATE TABLE orders (
    line INTEGER PRIMARY KEY, order_id TEXT, reason TEXT, detail TEXT,
    request TEXT, content TEXT, units INTEGER, known TEXT DEFAULT ''
);
CREATE UNIQUE INDEX by_id ON orders (order_id) WHERE request IS NOT NULL;
BEGIN;
"""


class Known(StrEnum):
    """Whether the log has an order of the file."""

    NOTHING = ""
    PLACED = "placed"
    CONFLICT = "conflict"
    """The log has another order under this id."""
    ENDED = "ended"


class Kept(NamedTuple):
    """An order that can be placed: the digest of its content, its units, and whether the log has it."""

    content: str
    units: int
    known: Known


@dataclass(slots=True)
class Product:
    """A product in the file: its first price above 0, and its first description that is not empty."""

    description: str = ""
    unit_price_cents: int = 0
    currency: str = ""


class Intake:
    """A file's orders and refusals, in a temporary SQLite database: memory grows with the file's products alone.

    `report` counts them.

    Raises: TerminalError when the directory of temporary files has no room.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._begin()

    def _begin(self) -> None:
        self.report = Report(file=self.source.path.name)
        self.products = dict[str, Product]()
        self._db = sqlite3.connect("", isolation_level=None)  # a file that SQLite itself removes
        self._db.executescript(_TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget all of it."""
        self._db.close()

    def take_in(self, show: Callable[[int], None]) -> None:
        """Read the file, and once more from its start if its dates turn out to be day first; `show` gets how many.

        Raises: UnreadableFile.
        """
        try:
            self._read(show, day_first=False)
        except DayFirst:
            self._db.close()
            self._begin()
            self._read(show, day_first=True)

    def _read(self, show: Callable[[int], None], *, day_first: bool) -> None:
        source = self.source
        for line, read in read_csv(source, day_first=day_first) if source.is_csv else read_ndjson(source):
            self._add(line, read)
            if self.report.read % _SHOW_EVERY == 0:
                show(self.report.read)
        show(self.report.read)

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise TerminalError(
                f"the orders of a file are kept in a temporary file, and {error}: set TMPDIR to a directory that has room"
            ) from error

    def _add(self, line: int, read: Order | Refusal) -> None:
        self.report.read += 1
        if isinstance(read, Order):
            self._learn(read)
            read = read.fault() or read
        refusal = self._place(line, read.request()) if isinstance(read, Order) else read
        if refusal is not None:
            row = (line, refusal.order_id, refusal.reason, refusal.detail)
            self._execute("INSERT INTO orders (line, order_id, reason, detail) VALUES (?, ?, ?, ?)", row)

    def _place(self, line: int, request: OrderSubmitted) -> Refusal | None:
        content, found = content_of(request), self.kept(request.order_id)
        if found is None:
            units = sum(each.quantity for each in request.lines)
            row = (line, request.order_id, request.model_dump_json(), content, units)
            self._execute("INSERT INTO orders (line, order_id, request, content, units) VALUES (?, ?, ?, ?, ?)", row)
            self.report.placeable += 1
        elif found.content == content:
            self.report.repeated += 1
        else:
            detail = f"order {request.order_id} was in the file before, with other content"
            return Refusal(request.order_id, Reason.MALFORMED, detail)
        return None

    def _learn(self, order: Order) -> None:
        """Take an order's products in; a write-off at price 0 does not give a product's price."""
        for line, cents in zip(order.lines, order.prices, strict=True):
            product = self.products.setdefault(line.sku, Product())
            if cents and not product.unit_price_cents:
                product.unit_price_cents, product.currency = cents, order.currency
            product.description = product.description or line.description or ""
            product.currency = product.currency or order.currency

    def kept(self, order_id: str) -> Kept | None:
        """Return what is kept of an order that can be placed; None for one that is not in the file."""
        query = "SELECT content, units, known FROM orders WHERE order_id = ? AND request IS NOT NULL"
        found = self._execute(query, (order_id,)).fetchone()
        return None if found is None else Kept(found[0], found[1], Known(found[2]))

    def learn(self, order_id: str, known: Known) -> None:
        """Keep whether the log has an order."""
        self._execute("UPDATE orders SET known = ? WHERE order_id = ? AND request IS NOT NULL", (known, order_id))

    def results(self) -> Iterator[tuple[int, Known, OrderSubmitted | Refusal]]:
        """Yield, in file order, each different order and each refusal, with its line, and whether the log has it."""
        query = "SELECT line, known, request, order_id, reason, detail FROM orders ORDER BY line"
        for line, known, request, order_id, reason, detail in self._execute(query):
            if request is None:
                yield line, Known.NOTHING, Refusal(order_id, Reason(reason), detail)
            else:
                yield line, Known(known), OrderSubmitted.model_validate_json(request)

    def to_place(self, codec: Codec, rejects: TextIO | None) -> Iterator[OrderSubmitted]:
        """Yield, in file order, each order that the log does not have yet, and count all of them.

        Each refusal is one JSON object a line in `rejects`: `order_id`, `reason`, `detail`.
        """
        for line, known, result in self.results():
            order = result if isinstance(result, Refusal) else _refused(result, known, codec) or result
            if isinstance(order, Refusal):
                self.report.refused[order.reason] += 1
                if rejects is not None:
                    detail = f"file line {line}: {order.detail}"
                    row = {"order_id": order.order_id, "reason": order.reason, "detail": detail}
                    rejects.write(json.dumps(row, ensure_ascii=False) + "\n")
            elif known is Known.NOTHING:
                self.report.placed += 1
                yield order
            else:
                self.report.placed_before += 1


def _refused(order: OrderSubmitted, known: Known, codec: Codec) -> Refusal | None:
    if known is Known.CONFLICT:
        detail = f"the log has an order {order.order_id} already, with other content"
        return Refusal(order.order_id, Reason.CONFLICT, detail)
    most = sum(_LINE_BYTES + _CHARACTER_BYTES * len(line.sku) for line in order.lines)
    if known is Known.NOTHING and most > _MOST_BYTES and (size := len(codec.encode(order))) > _MOST_BYTES:
        detail = f"the order takes {size:,} bytes, and {_MOST_BYTES:,} is the most"
        return Refusal(order.order_id, Reason.MALFORMED, detail)
    return None


def order_request(order: OrderSubmitted) -> Publication:
    """Return the request to place an order: a second import gives it the same id."""
    return Publication(order, f"import/{order.order_id}", headers={CONTENT_HEADER: content_of(order)})


def content_of(request: OrderSubmitted) -> str:
    """Return a digest of a request's content, from any publisher (16 hex digits)."""
    lines = [(line.sku, line.quantity, line.unit_price_cents) for line in request.lines]
    placed_at = "" if request.placed_at is None else request.placed_at.isoformat()
    content = (request.order_id, placed_at, request.customer_id, request.country, request.currency, lines)
    return blake2b(repr(content).encode(), digest_size=8).hexdigest()
