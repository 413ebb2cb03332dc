"""The Online Retail rows as they were published: grouped by invoice, in whatever encoding they come."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.importing.files import Source, UnreadableFile
from services.importing.intake import Intake
from services.importing.orders import Reason, Refusal
from services.order.events import OrderSubmitted

HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
FIRST = "536365,85123A,WHITE HANGING HEART T-LIGHT HOLDER,6,12/1/2010 8:26,2.55,17850,United Kingdom"
SECOND = '536365,71053,"LANTERN, WHITE",6,12/1/2010 8:26,3.39,17850,United Kingdom'
NEXT = "536366,22633,HAND WARMER,6,12/1/2010 8:28,1.85,,EIRE"


def read(tmp_path: Path, *rows: str, encoding: str = "utf-8") -> list[tuple[int, OrderSubmitted | Refusal]]:
    return list(taken_in(tmp_path, "\r\n".join([HEADER, *rows]).encode(encoding)))


def taken_in(tmp_path: Path, whole: bytes) -> Iterator[tuple[int, OrderSubmitted | Refusal]]:
    path = tmp_path / "orders.csv"
    path.write_bytes(whole)
    with Intake(Source(path)) as intake:
        intake.take_in(lambda _: None)
        yield from ((line, result) for line, _, result in intake.results())


def described(tmp_path: Path) -> dict[str, str]:
    with Intake(Source(tmp_path / "orders.csv")) as intake:
        intake.take_in(lambda _: None)
        return {sku: product.description for sku, product in intake.products.items()}


def test_rows_are_grouped_by_invoice_in_order(tmp_path: Path) -> None:
    (number, first), (next_number, second) = read(tmp_path, FIRST, SECOND, NEXT)
    assert isinstance(first, OrderSubmitted)
    assert isinstance(second, OrderSubmitted)
    assert (number, first.order_id, second.order_id, next_number) == (2, "536365", "536366", 4)
    assert [line.sku for line in first.lines] == ["85123A", "71053"]
    assert described(tmp_path) == {
        "85123A": "WHITE HANGING HEART T-LIGHT HOLDER",
        "71053": "LANTERN, WHITE",
        "22633": "HAND WARMER",
    }
    assert str(first.placed_at) == "2010-12-01 08:26:00+00:00"
    assert (first.customer_id, second.customer_id) == ("17850", None)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-8-sig"])
def test_either_encoding(tmp_path: Path, encoding: str) -> None:
    read(tmp_path, FIRST.replace("WHITE", "£1 CAFÉ"), encoding=encoding)
    assert described(tmp_path) == {"85123A": "£1 CAFÉ HANGING HEART T-LIGHT HOLDER"}


@pytest.mark.parametrize("written", ["2010-12-01 08:26:00", "2010-12-01 08:26", "12/01/2010 08:26:00"])
def test_other_spellings_of_time_and_customer(tmp_path: Path, written: str) -> None:
    ((_, order),) = read(tmp_path, FIRST.replace("12/1/2010 8:26", written).replace("17850", "17850.0"))
    assert isinstance(order, OrderSubmitted)
    assert (str(order.placed_at), order.customer_id) == ("2010-12-01 08:26:00+00:00", "17850")


@pytest.mark.parametrize(
    ("day_first", "placed_at"), [(True, "2010-01-12 08:26:00+00:00"), (False, "2010-12-01 08:26:00+00:00")]
)
def test_dates_are_in_one_order_in_the_whole_file(tmp_path: Path, placed_at: str, *, day_first: bool) -> None:
    decided = NEXT.replace("12/1/2010", "31/1/2010" if day_first else "1/31/2010")
    for (_, order), *_ in (read(tmp_path, FIRST, decided), read(tmp_path, FIRST.replace("536365", "1"), decided)):
        assert isinstance(order, OrderSubmitted)
        assert str(order.placed_at) == placed_at


@pytest.mark.parametrize(("written", "cents"), [("2.5500", 255), ("2.5", 250), ("3", 300), ("2.50000000000000", 250)])
def test_a_price_is_what_it_is_worth_and_not_how_it_is_written(tmp_path: Path, written: str, cents: int) -> None:
    ((_, order),) = read(tmp_path, FIRST.replace("2.55", written))
    assert isinstance(order, OrderSubmitted)
    assert order.lines[0].unit_price_cents == cents


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([FIRST.replace("HOLDER", 'HOLDER 12"'), NEXT], None),
        ([FIRST.replace("WHITE", '"WHITE'), SECOND, NEXT], "line 2: .*quote"),
        ([FIRST.replace(",WHITE", ',"WHITE'), NEXT], "line 2: .*quote"),
        (
            [FIRST.replace(",WHITE", ',"WHITE'), NEXT, FIRST.replace("HOLDER", 'HOLDER"')],
            "line 2: a quote is open at its end",
        ),
        ([FIRST.replace(",WHITE HANGING", ',"WHITE" HANGING'), NEXT], "line 2: not a CSV row"),
        ([FIRST, NEXT, SECOND], "line 4: invoice 536365 goes on after other invoices"),
        ([FIRST, FIRST.replace("536365", ""), SECOND], "line 4: invoice 536365 goes on"),
        ([NEXT.replace("12/1/", "13/1/"), FIRST.replace("12/1/", "1/13/")], "line 2 .*its day first.*line 3 "),
        ([FIRST.replace("WHITE", "W" * 10_000_000), NEXT], "line 2: it has 10,000,"),
    ],
)
def test_what_is_not_certain_is_refused_as_a_whole(tmp_path: Path, rows: list[str], says: str | None) -> None:
    if says is None:
        assert len(read(tmp_path, *rows)) == 2, "a quote within a text opens nothing"
        return
    with pytest.raises(UnreadableFile, match=says):
        read(tmp_path, *rows)


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        (f"{HEADER}\n{FIRST}".encode("utf-16"), "is UTF-16"),
        (f"{HEADER}\n{FIRST}".encode("utf-16-le"), "is UTF-16"),
        (f"{HEADER}\n{FIRST}".replace(",", ";").encode(), "divided by semicolons: save it with commas"),
        (f"{HEADER}\n{FIRST}".replace(",", "\t").encode(), "divided by tabs"),
        (f"{HEADER},UnitPrice\n{FIRST},9.99".encode(), r"column UnitPrice is there 2 times \(columns 6, 9\)"),
        (f"{HEADER},quantity \n{FIRST},9".encode(), r"column Quantity is there 2 times \(columns 4, 9\)"),
        (
            f"{HEADER}\n{FIRST.replace('WHITE', 'É')}\n".encode() + NEXT.replace("HAND", "É").encode("cp1252"),
            "line 3 is not",
        ),
        (f"{HEADER}\n".encode() + FIRST.encode().replace(b"WHITE", b"\x81"), "byte 0x81 is neither UTF-8 nor"),
        (f"{HEADER}\r{FIRST}\r{NEXT}".encode(), "line 1: a carriage return .*: end lines with LF"),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path: Path, whole: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile, match=says):
        list(taken_in(tmp_path, whole))


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
        (FIRST.replace("WHITE", "W" * 200_000), Reason.MALFORMED, "line 1, description: has 200029 characters"),
        (
            f"{FIRST}\r\n{SECOND.replace('17850', '17851')}",
            Reason.MALFORMED,
            "row 3 of the file has another CustomerID",
        ),
        (
            f"{FIRST}\r\n{SECOND.replace('United Kingdom', 'EIRE')}",
            Reason.MALFORMED,
            "row 3 of the file has another Country",
        ),
    ],
)
def test_refused_and_the_next_goes_on(tmp_path: Path, row: str, reason: Reason, says: str) -> None:
    (_, refused), (_, order) = read(tmp_path, row, NEXT)
    assert isinstance(refused, Refusal)
    assert refused.reason is reason
    assert says in refused.detail
    assert isinstance(order, OrderSubmitted)


def test_a_missing_column_is_told_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="has no column Description, Quantity"):
        list(taken_in(tmp_path, b"InvoiceNo,StockCode\n1,2\n"))


def test_an_empty_file_has_no_header(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="has no header line"):
        list(taken_in(tmp_path, b""))
