"""The Online Retail rows as they were published: one row per line, an invoice's rows in sequence.

Source: Chen, D. (2015), Online Retail, UCI Machine Learning Repository, doi 10.24432/C5BW33.
"""

import csv
from collections.abc import Iterator
from datetime import datetime

from services.fields import MOST_LINES
from services.importing.orders import Order, order_id_of, order_of
from services.importing.refusals import Malformed, Reason, Refusal
from services.importing.source import MAX_LINE_BYTES, Source, UnreadableFile

COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")
_TIMES = ("%m/%d/%Y %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%m/%d/%Y %H:%M:%S")
_CREDIT = "C"
_MOST_DIGITS = 18


def read_csv(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each invoice's order, or its refusal, with the number of its first line in the file.

    Times have no offset in these files, and are read as UTC. Invoice numbers that begin with C are credit notes.
    Raises: UnreadableFile when a column is missing.
    """
    rows = _rows(source)
    _, header = next(rows, (0, None))
    if not isinstance(header, list):
        raise UnreadableFile(f"{source.path.name} is empty or has no header line")
    names = [name.strip() for name in header]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UnreadableFile(f"{source.path.name} has no column {', '.join(missing)}: expected {', '.join(COLUMNS)}")
    invoice: _Invoice | None = None
    for number, row in rows:
        if isinstance(row, str):
            yield number, Refusal(number, None, Reason.MALFORMED, row)
            continue
        order_id = row[names.index("InvoiceNo")].strip() if len(row) > names.index("InvoiceNo") else ""
        if invoice is None or order_id != invoice.order_id:
            if invoice is not None:
                yield invoice.number, invoice.read()
            invoice = _Invoice(order_id, number)
        invoice.add(dict(zip(names, row, strict=False)), len(row) - len(names), number)
    if invoice is not None:
        yield invoice.number, invoice.read()


class _Invoice:
    """The rows of one invoice so far."""

    def __init__(self, order_id: str, number: int) -> None:
        self.order_id = order_id
        self.number = number
        self._first: dict[str, str] = {}
        self._lines: list[object] = []
        self._fault = ""

    def add(self, row: dict[str, str], extra_columns: int, number: int) -> None:
        """Add a row; lines beyond the limit of an order are counted and not kept."""
        if extra_columns:
            what = "more" if extra_columns > 0 else "fewer"
            self._fault = self._fault or f"row {number} of the file has {what} columns than the header"
            return
        self._first = self._first or row
        if len(self._lines) <= MOST_LINES:
            self._lines.append(
                {
                    "sku": row["StockCode"].strip(),
                    "description": row["Description"] or None,
                    "quantity": _number(row["Quantity"].strip()),
                    "unit_price": row["UnitPrice"].strip(),
                }
            )

    def read(self) -> Order | Refusal:
        """Return the order of the rows."""
        raw: dict[str, object] = {"order_id": self.order_id}
        if self._fault:
            return Refusal(self.number, order_id_of(raw), Reason.MALFORMED, self._fault)
        raw |= {
            "placed_at": _time(self._first["InvoiceDate"].strip()),
            "customer_id": self._first["CustomerID"].strip().removesuffix(".0"),
            "country": self._first["Country"].strip(),
            "cancels": self.order_id.startswith(_CREDIT),
            "lines": self._lines,
        }
        try:
            return order_of(raw)
        except Malformed as error:
            return Refusal(self.number, order_id_of(raw), Reason.MALFORMED, str(error))


def _rows(source: Source) -> Iterator[tuple[int, list[str] | str]]:
    """Yield rows with the number of their last line; for an unreadable row, the reason."""
    number = 0
    too_long: list[tuple[int, str]] = []

    def text() -> Iterator[str]:
        nonlocal number
        for line in source.lines():
            number = line.number
            if line.text is None:
                too_long.append((number, f"the line has {line.length:,} bytes, and {MAX_LINE_BYTES:,} is the most"))
            else:
                yield _decoded(line.text) + "\n"

    rows = csv.reader(text())
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield number, f"not a CSV row: {error}"
            continue
        yield from too_long
        too_long.clear()
        if row is None:
            return
        if row:
            yield number, row


def _decoded(line: bytes) -> str:
    """Return a line as text: UTF-8, or else Windows-1252 as in the original."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace")


def _number(text: str) -> object:
    """Return a whole number as such, and anything else unchanged, to be refused with its field's name."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else text


def _time(text: str) -> str:
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).isoformat() + "Z"  # noqa: DTZ007  the file has no offset: UTC is meant
        except ValueError:
            continue
    return text
