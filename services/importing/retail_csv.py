"""The Online Retail rows as they were published: one row per line, an invoice's rows in sequence.

A file is checked as a whole before its first order is read: what it does not say for certain is refused, not guessed.
Source: Chen, D. (2015), Online Retail, UCI Machine Learning Repository, doi 10.24432/C5BW33.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from weakref import WeakKeyDictionary

from services.fields import MOST_LINES
from services.importing.orders import Order, order_id_of, order_of
from services.importing.refusals import Malformed, Reason, Refusal
from services.importing.source import MAX_LINE_BYTES, Source, UnreadableFile

COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_MONTH_FIRST = ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S")
_DAY_FIRST = ("%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S")
_YEAR_FIRST = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")
_SLASHED = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/[0-9]{4} ")
_MOST_MONTHS = 12
_CREDIT = "C"
_MOST_DIGITS = 18


@dataclass(slots=True)
class _Layout:
    """How a file is to be read: what its columns are called, its encoding, and the forms of its dates."""

    names: list[str] = field(default_factory=list)
    encoding: str = "utf-8"
    times: tuple[str, ...] = _YEAR_FIRST + _MONTH_FIRST


_layouts: WeakKeyDictionary[Source, _Layout] = WeakKeyDictionary()
"""What the check of a file has found, for later passes."""


def read_csv(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each invoice's order, or its refusal, with the number of its first line in the file.

    Times have no offset in these files, and are read as UTC. Dates with slashes are day first where one of the file can be
    nothing else, month first otherwise, as published. Invoice numbers that begin with C are credit notes.
    Raises: UnreadableFile before the first order, when a column is missing or there twice, a quote is left open, an
    invoice goes on after another one, and when encoding, delimiter or dates are not certain.
    """
    layout = _layouts.get(source)
    if layout is None:
        layout = _layouts[source] = _checked(source)
    rows = _rows(source, layout.encoding)
    next(rows)
    invoice: _Invoice | None = None
    for number, row in rows:
        order_id = _invoice_of(layout, row)
        if invoice is None or order_id != invoice.order_id:
            if invoice is not None:
                yield invoice.number, invoice.read(layout)
            invoice = _Invoice(order_id, number)
        invoice.add(dict(zip(layout.names, row, strict=False)), len(row) - len(layout.names), number)
    if invoice is not None:
        yield invoice.number, invoice.read(layout)


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
        for name in ("CustomerID", "Country"):
            if row[name].strip() != self._first[name].strip():
                self._fault = self._fault or f"row {number} of the file has another {name} than row {self.number}"
        if len(self._lines) <= MOST_LINES:
            self._lines.append(
                {
                    "sku": row["StockCode"].strip(),
                    "description": row["Description"] or None,
                    "quantity": _number(row["Quantity"].strip()),
                    "unit_price": row["UnitPrice"].strip(),
                }
            )

    def read(self, layout: _Layout) -> Order | Refusal:
        """Return the order of the rows."""
        raw: dict[str, object] = {"order_id": self.order_id}
        if self._fault:
            return Refusal(self.number, order_id_of(raw), Reason.MALFORMED, self._fault)
        raw |= {
            "placed_at": _time(self._first["InvoiceDate"].strip(), layout.times),
            "customer_id": self._first["CustomerID"].strip().removesuffix(".0"),
            "country": self._first["Country"].strip(),
            "cancels": self.order_id.startswith(_CREDIT),
            "lines": self._lines,
        }
        try:
            return order_of(raw)
        except Malformed as error:
            return Refusal(self.number, order_id_of(raw), Reason.MALFORMED, str(error))


def _checked(source: Source) -> _Layout:
    """Read the file once, and return how to read it. Raises: UnreadableFile, with a line of the file and a remedy."""
    layout = _Layout(encoding=_encoding(source))
    rows = _rows(source, layout.encoding)
    _, header = next(rows, (0, []))
    layout.names = _names(source, header)
    column, dates = layout.names.index("InvoiceDate"), _Dates()
    last, finished = "", set[bytes]()
    for number, row in rows:
        if len(row) > column:
            dates.see(row[column], number)
        order_id = _invoice_of(layout, row)
        if order_id == last:
            continue
        finished.add(_digest(last))
        last = order_id
        if order_id and _digest(order_id) in finished:
            raise UnreadableFile(
                f"{source.path.name}, line {number}: invoice {order_id} goes on after other invoices, and would be placed in "
                "parts: sort the file by InvoiceNo"
            )
    layout.times = dates.forms(source)
    return layout


class _Dates:
    """The first dates of a file that can only be day first, or month first."""

    def __init__(self) -> None:
        self._day_first: tuple[int, str] | None = None
        self._month_first: tuple[int, str] | None = None

    def see(self, text: str, number: int) -> None:
        """Take a row's date into account."""
        found = _SLASHED.match(text.strip())
        if found is None:
            return
        first, second = int(found[1]), int(found[2])
        if first > _MOST_MONTHS >= second:
            self._day_first = self._day_first or (number, text.strip())
        elif second > _MOST_MONTHS >= first:
            self._month_first = self._month_first or (number, text.strip())

    def forms(self, source: Source) -> tuple[str, ...]:
        """Return the forms of the file's dates. Raises: UnreadableFile when they contradict each other."""
        if self._day_first and self._month_first:
            raise UnreadableFile(
                f"{source.path.name}: the date in line {self._day_first[0]} ({self._day_first[1]}) has its day first, the one "
                f"in line {self._month_first[0]} ({self._month_first[1]}) its month: write dates as 2010-12-01 08:26"
            )
        return _YEAR_FIRST + (_DAY_FIRST if self._day_first else _MONTH_FIRST)


def _names(source: Source, header: list[str]) -> list[str]:
    """Return the names of the columns. Raises: UnreadableFile."""
    file = source.path.name
    names = [name.strip() for name in header]
    if not any(names):
        raise UnreadableFile(f"{file} is empty or has no header line")
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        for delimiter, called in _OTHER_DELIMITERS.items():
            if delimiter in ",".join(header):
                raise UnreadableFile(f"{file}: its columns seem to be divided by {called}: save it with commas")
        raise UnreadableFile(f"{file} has no column {', '.join(missing)}: expected {', '.join(COLUMNS)}")
    for name, times in Counter(each.casefold() for each in names if each).items():
        if times > 1:
            numbers = [str(number) for number, each in enumerate(names, start=1) if each.casefold() == name]
            raise UnreadableFile(
                f"{file}: column {names[int(numbers[0]) - 1]} is there {times} times (columns {', '.join(numbers)}): keep one"
            )
    return names


def _encoding(source: Source) -> str:
    """Return the encoding of all lines: UTF-8, or else Windows-1252 as in the original. Raises: UnreadableFile."""
    utf8 = other = 0
    for line in source.lines():
        if line.text is None:
            raise UnreadableFile(
                f"{source.path.name}, line {line.number}: it has {line.length:,} bytes, and {MAX_LINE_BYTES:,} is the most: "
                "look for a line break that is missing"
            )
        if line.text.isascii():
            continue
        try:
            line.text.decode()
            utf8 = utf8 or line.number
        except UnicodeDecodeError:
            other = other or line.number
            try:
                line.text.decode("cp1252")
            except UnicodeDecodeError as error:
                raise UnreadableFile(
                    f"{source.path.name}, line {line.number}: byte 0x{line.text[error.start]:02x} is neither UTF-8 nor "
                    "Windows-1252: save the file as UTF-8"
                ) from None
    if utf8 and other:
        raise UnreadableFile(
            f"{source.path.name}: line {utf8} is UTF-8, and line {other} is not: save the file in one encoding, best UTF-8"
        )
    return "cp1252" if other else "utf-8"


def _rows(source: Source, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with their lines' numbers, without empty ones. Raises: UnreadableFile, for a quote left open too."""
    number = 0

    def text() -> Iterator[str]:
        nonlocal number
        for line in source.lines():
            number = line.number
            yield (line.text or b"").decode(encoding) + "\n"

    csv.field_size_limit(MAX_LINE_BYTES)  # a row that a line can hold is read, and refused by the name of its field
    rows = csv.reader(text(), strict=True)
    before = 0
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise UnreadableFile(
                f"{source.path.name}, line {before + 1}: not a CSV row ({error}): close the quote, and double one that belongs "
                "to the text"
            ) from None
        if row is None:
            return
        if number > before + 1:
            raise UnreadableFile(
                f"{source.path.name}, line {before + 1}: a quote is open at its end, and would swallow what is behind it: close "
                "it, or double it where it belongs to the text"
            )
        before = number
        if row:
            yield number, row


def _invoice_of(layout: _Layout, row: list[str]) -> str:
    column = layout.names.index("InvoiceNo")
    return row[column].strip() if len(row) > column else ""


def _digest(order_id: str) -> bytes:
    return blake2b(order_id.encode(), digest_size=12).digest()


def _number(text: str) -> object:
    """Return a whole number as such, and anything else unchanged, to be refused with its field's name."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else text


def _time(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        try:
            return datetime.strptime(text, form).isoformat() + "Z"  # noqa: DTZ007  the file has no offset: UTC is meant
        except ValueError:
            continue
    return text
