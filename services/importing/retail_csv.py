"""The Online Retail rows as they were published: one row per line, an invoice's rows in sequence.

A file that is not certain is refused with its line, not guessed; all of it is read before an order is placed.
Source: Chen, D. (2015), Online Retail, UCI Machine Learning Repository, doi 10.24432/C5BW33.
"""

import csv
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

from services.fields import MOST_LINES
from services.importing.files import MAX_LINE_BYTES, Source, UnreadableFile
from services.importing.orders import Order, Refusal, malformed, order_of

COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_SLASHED = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/[0-9]{4} ")
_MOST_MONTHS = 12
_MOST_DIGITS = 18
_CREDIT = "C"

_Row = tuple[int, list[str]]


class DayFirst(Exception):
    """A date can only be day first, and the file was read as if its months came first."""


def read_csv(source: Source, *, day_first: bool) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each invoice's order, or its refusal, with the number of its first line in the file.

    Times have no offset in these files, and are read as UTC. Invoice numbers that begin with C are credit notes.
    Raises: UnreadableFile when a column is missing or there twice, a quote is left open, an invoice continues after
    another one, and when encoding, delimiter or dates are not certain; DayFirst.
    """
    file = source.path.name
    rows = _rows(source)
    _, header = next(rows, (0, []))
    names = _names(file, header)
    column, dates, finished = names.index("InvoiceNo"), _Dates(file, day_first=day_first), set[str]()
    for order_id, group in groupby(rows, lambda row: row[1][column].strip() if len(row[1]) > column else ""):
        number, order = _invoice(order_id, names, group, dates)
        if order_id in finished:
            raise UnreadableFile(
                f"{file}, line {number}: invoice {order_id} goes on after other invoices, and would be placed in parts: sort "
                "the file by InvoiceNo"
            )
        if order_id:
            finished.add(order_id)
        yield number, order


def _invoice(order_id: str, names: list[str], rows: Iterator[_Row], dates: "_Dates") -> tuple[int, Order | Refusal]:
    """Return an invoice's first line and its order; order lines beyond the limit are counted and not kept."""
    begin, fault, lines, first = 0, "", list[dict[str, object]](), dict[str, str]()
    for number, cells in rows:
        begin = begin or number
        row = dict(zip(names, cells, strict=False))
        dates.see(row.get("InvoiceDate", "").strip(), number)
        if len(cells) != len(names):
            what = "more" if len(cells) > len(names) else "fewer"
            fault = fault or f"row {number} of the file has {what} columns than the header"
            continue
        first = first or row
        for name in ("CustomerID", "Country"):
            if row[name].strip() != first[name].strip():
                fault = fault or f"row {number} of the file has another {name} than row {begin}"
        if len(lines) <= MOST_LINES:
            lines.append(
                {
                    "sku": row["StockCode"].strip(),
                    "description": row["Description"] or None,
                    "quantity": _number(row["Quantity"].strip()),
                    "unit_price": row["UnitPrice"].strip(),
                }
            )
    if fault:
        return begin, malformed(fault, order_id)
    return begin, order_of(
        {
            "order_id": order_id,
            "placed_at": dates.iso(first["InvoiceDate"].strip()),
            "customer_id": first["CustomerID"].strip().removesuffix(".0"),
            "country": first["Country"].strip(),
            "cancels": order_id.startswith(_CREDIT),
            "lines": lines,
        }
    )


def _number(text: str) -> object:
    """Return a whole number as such, and anything else unchanged, to be refused with its field's name."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else text


class _Dates:
    """A file's dates: day first in all of it, or month first, as published."""

    def __init__(self, file: str, *, day_first: bool) -> None:
        self._file = file
        self._day_first = day_first
        self._certain: dict[bool, str] = {}
        slashed = "%d/%m/%Y" if day_first else "%m/%d/%Y"
        self._forms = [f"{date} {time}" for date in ("%Y-%m-%d", slashed) for time in ("%H:%M", "%H:%M:%S")]

    def see(self, text: str, number: int) -> None:
        """Take a date into account that may be day first, or month first, alone. Raises: UnreadableFile; DayFirst."""
        found = _SLASHED.match(text)
        if found is None or (int(found[1]) > _MOST_MONTHS) == (int(found[2]) > _MOST_MONTHS):
            return
        self._certain.setdefault(int(found[1]) > _MOST_MONTHS, f"line {number} ({text})")
        if len(self._certain) > 1:
            raise UnreadableFile(
                f"{self._file}: the date in {self._certain[True]} has its day first, the one in {self._certain[False]} its "
                "month: write dates as 2010-12-01 08:26"
            )
        if True in self._certain and not self._day_first:
            raise DayFirst

    def iso(self, text: str) -> str:
        """Return a date as ISO 8601 text; other text unchanged, to be refused with its field's name."""
        for form in self._forms:
            try:
                return datetime.strptime(text, form).isoformat() + "Z"  # noqa: DTZ007  the file has no offset: UTC is meant
            except ValueError:
                continue
        return text


def _names(file: str, header: list[str]) -> list[str]:
    """Return the names of the columns. Raises: UnreadableFile."""
    names = [name.strip() for name in header]
    if not any(names):
        raise UnreadableFile(f"{file} is empty or has no header line")
    if missing := [name for name in COLUMNS if name not in names]:
        for delimiter, called in _OTHER_DELIMITERS.items():
            if delimiter in ",".join(header):
                raise UnreadableFile(f"{file}: its columns seem to be divided by {called}: save it with commas")
        raise UnreadableFile(f"{file} has no column {', '.join(missing)}: expected {', '.join(COLUMNS)}")
    folded = [name.casefold() for name in names]
    for name in filter(None, folded):
        if folded.count(name) > 1:
            numbers = [number for number, each in enumerate(folded, start=1) if each == name]
            raise UnreadableFile(
                f"{file}: column {names[numbers[0] - 1]} is there {len(numbers)} times (columns "
                f"{', '.join(map(str, numbers))}): keep one"
            )
    return names


def _rows(source: Source) -> Iterator[_Row]:
    """Yield rows with their lines' numbers, without empty ones. Raises: UnreadableFile, for a quote left open too."""
    csv.field_size_limit(MAX_LINE_BYTES)  # a row that a line can hold is read, and refused by the name of its field
    rows, before = csv.reader(_decoded(source), strict=True), 0
    where = f"{source.path.name}, line"
    try:
        for row in rows:
            if rows.line_num > before + 1:
                raise UnreadableFile(
                    f"{where} {before + 1}: a quote is open at its end, and would swallow what is behind it: close it, or "
                    "double it where it belongs to the text"
                )
            before = rows.line_num
            if row:
                yield before, row
    except csv.Error as error:
        raise UnreadableFile(
            f"{where} {before + 1}: not a CSV row ({error}): close the quote, and double one that belongs to the text"
        ) from None


def _decoded(source: Source) -> Iterator[str]:
    """Yield lines as text: UTF-8, or else Windows-1252 as in the original, all in one. Raises: UnreadableFile."""
    file, utf8, other = source.path.name, 0, 0
    for number, line, length in source.lines():
        if line is None:
            raise UnreadableFile(
                f"{file}, line {number}: it has {length:,} bytes, and {MAX_LINE_BYTES:,} is the most: look for a line break that "
                "is missing"
            )
        try:
            text = line.decode()
            utf8 = utf8 or (0 if line.isascii() else number)
        except UnicodeDecodeError:
            other = other or number
            try:
                text = line.decode("cp1252")
            except UnicodeDecodeError as error:
                raise UnreadableFile(
                    f"{file}, line {number}: byte 0x{line[error.start]:02x} is neither UTF-8 nor Windows-1252: save the file as "
                    "UTF-8"
                ) from None
        if utf8 and other:
            raise UnreadableFile(
                f"{file}: line {utf8} is UTF-8, and line {other} is not: save the file in one encoding, best UTF-8"
            )
        if "\r" in text:
            raise UnreadableFile(
                f"{file}, line {number}: a carriage return is within it: end lines with LF, or with CR and LF"
            )
        yield f"{text}\n"
