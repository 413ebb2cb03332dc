"""The Online Retail rows as they were published: grouped by invoice, in whatever encoding they come."""

from pathlib import Path

import pytest

from services.importing.orders import Order
from services.importing.reading import read_orders
from services.importing.refusals import Reason, Refusal
from services.importing.source import Source, UnreadableFile

HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
FIRST = "536365,85123A,WHITE HANGING HEART T-LIGHT HOLDER,6,12/1/2010 8:26,2.55,17850,United Kingdom"
SECOND = '536365,71053,"LANTERN, WHITE",6,12/1/2010 8:26,3.39,17850,United Kingdom'
NEXT = "536366,22633,HAND WARMER,6,12/1/2010 8:28,1.85,,EIRE"


def read(tmp_path: Path, *rows: str, encoding: str = "utf-8") -> list[tuple[int, Order | Refusal]]:
    path = tmp_path / "orders.csv"
    path.write_bytes("\r\n".join([HEADER, *rows]).encode(encoding))
    return list(read_orders(Source(path)))


def test_rows_are_grouped_by_invoice_in_order(tmp_path: Path) -> None:
    (number, first), (next_number, second) = read(tmp_path, FIRST, SECOND, NEXT)
    assert isinstance(first, Order)
    assert isinstance(second, Order)
    assert (number, first.order_id, second.order_id, next_number) == (2, "536365", "536366", 4)
    assert [(line.sku, line.description) for line in first.lines] == [
        ("85123A", "WHITE HANGING HEART T-LIGHT HOLDER"),
        ("71053", "LANTERN, WHITE"),
    ]
    assert first.placed_at.isoformat() == "2010-12-01T08:26:00+00:00"
    assert (first.customer_id, second.customer_id) == ("17850", None)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-8-sig"])
def test_either_encoding(tmp_path: Path, encoding: str) -> None:
    ((_, order),) = read(tmp_path, FIRST.replace("WHITE", "£1 CAFÉ"), encoding=encoding)
    assert isinstance(order, Order)
    assert order.lines[0].description == "£1 CAFÉ HANGING HEART T-LIGHT HOLDER"


@pytest.mark.parametrize("written", ["2010-12-01 08:26:00", "2010-12-01 08:26", "12/01/2010 08:26:00"])
def test_other_spellings_of_time_and_customer(tmp_path: Path, written: str) -> None:
    ((_, order),) = read(tmp_path, FIRST.replace("12/1/2010 8:26", written).replace("17850", "17850.0"))
    assert isinstance(order, Order)
    assert (order.placed_at.isoformat(), order.customer_id) == ("2010-12-01T08:26:00+00:00", "17850")


@pytest.mark.parametrize(
    ("row", "reason", "says"),
    [
        (FIRST.replace("536365", "C536365"), Reason.CREDIT_NOTE, "cancels is true"),
        (FIRST.replace(",6,", ",-6,"), Reason.QUANTITY, "quantity is -6"),
        (FIRST.replace("2.55", "0.001"), Reason.UNIT_PRICE, "0.001"),
        (FIRST.replace("2.55", "0"), Reason.NOTHING_TO_PAY, "total"),
        (FIRST.replace(",6,", ",six,"), Reason.MALFORMED, 'line 1, quantity: expected a whole number, not "six"'),
        (FIRST.replace(",6,", ",²,"), Reason.MALFORMED, "line 1, quantity"),
        (FIRST.replace(",6,", f",{'9' * 5_000},"), Reason.MALFORMED, "line 1, quantity"),
        (FIRST.replace("12/1/2010 8:26", "then"), Reason.MALFORMED, 'placed_at: "then" is not a time'),
        (FIRST.replace("536365", ""), Reason.MALFORMED, "order_id: is empty"),
        (FIRST + ",more", Reason.MALFORMED, "row 2 of the file has more columns than the header"),
        ("536365,85123A", Reason.MALFORMED, "row 2 of the file has fewer columns than the header"),
        (FIRST.replace("WHITE", "W" * 200_000), Reason.MALFORMED, "not a CSV row: field larger than field limit"),
        (FIRST.replace("WHITE", "W" * 10_000_000), Reason.MALFORMED, "the line has 10,000,"),
    ],
)
def test_refused_and_the_next_goes_on(tmp_path: Path, row: str, reason: Reason, says: str) -> None:
    (_, refused), (_, order) = read(tmp_path, row, NEXT)
    assert isinstance(refused, Refusal)
    assert refused.reason is reason
    assert says in refused.detail
    assert isinstance(order, Order)


def test_a_missing_column_is_told_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("InvoiceNo,StockCode\n1,2\n")
    with pytest.raises(UnreadableFile, match="has no column Description, Quantity"):
        list(read_orders(Source(path)))


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("")
    with pytest.raises(UnreadableFile, match="has no header line"):
        list(read_orders(Source(tmp_path / "orders.csv")))
