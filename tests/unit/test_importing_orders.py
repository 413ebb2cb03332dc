"""What an order file's line may say, and which reason counts when it says something else."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.importing.files import MAX_LINE_BYTES, Source
from services.importing.intake import Intake, content_of
from services.importing.orders import MOST_CENTS, MOST_UNITS, Reason, Refusal
from services.order.events import OrderSubmitted

LINE: dict[str, Any] = {"sku": "A", "description": "A MUG", "quantity": 2, "unit_price": "2.55"}
ORDER: dict[str, Any] = {
    "order_id": "1",
    "placed_at": "2010-12-01T08:26:00Z",
    "customer_id": "17850",
    "country": "United Kingdom",
    "cancels": None,
    "lines": [LINE],
}


def read(tmp_path: Path, *lines: bytes | str | dict[str, Any]) -> list[OrderSubmitted | Refusal]:
    path = tmp_path / "orders.ndjson"
    encoded = [json.dumps(each) if isinstance(each, dict) else each for each in lines]
    path.write_bytes(b"\n".join(each.encode() if isinstance(each, str) else each for each in encoded))
    with Intake(Source(path)) as intake:
        intake.take_in(lambda _: None)
        return [found for _, _, found in intake.results()]


def refusal(tmp_path: Path, line: bytes | str | dict[str, Any]) -> tuple[str, str]:
    """Return why a line is refused, and check that the next one is read all the same."""
    refused, good = read(tmp_path, line, ORDER | {"order_id": "next"})
    assert isinstance(refused, Refusal)
    assert isinstance(good, OrderSubmitted)
    return refused.reason, refused.detail


def with_line(**changed: object) -> dict[str, Any]:
    return ORDER | {"lines": [LINE, LINE | changed]}


def test_an_order(tmp_path: Path) -> None:
    (order,) = read(tmp_path, ORDER)
    assert isinstance(order, OrderSubmitted)
    assert order.placed_at == datetime(2010, 12, 1, 8, 26, tzinfo=UTC)
    assert (order.customer_id, order.currency, order.lines[0].quantity) == ("17850", "GBP", 2)
    assert order.lines[0].unit_price_cents == 255


@pytest.mark.parametrize("customer", [{"customer_id": None}, {"customer_id": ""}])
def test_a_missing_customer_is_a_guest(tmp_path: Path, customer: dict[str, Any]) -> None:
    (order,) = read(tmp_path, ORDER | customer)
    assert isinstance(order, OrderSubmitted)
    assert order.customer_id is None


def test_no_customer_field_is_a_guest_too(tmp_path: Path) -> None:
    (order,) = read(tmp_path, {name: value for name, value in ORDER.items() if name != "customer_id"})
    assert isinstance(order, OrderSubmitted)
    assert order.customer_id is None


def test_an_order_may_name_its_currency(tmp_path: Path) -> None:
    (order,) = read(tmp_path, ORDER | {"currency": "EUR"})
    assert isinstance(order, OrderSubmitted)
    assert order.currency == "EUR"


@pytest.mark.parametrize(
    ("currency", "written", "cents"),
    [
        ("JPY", "1000", 1000),
        ("JPY", "1000.00", 1000),
        ("KWD", "1.234", 1234),
        ("KWD", "1.2340", 1234),
        ("EUR", "2.5500", 255),
    ],
)
def test_a_price_is_in_the_minor_unit_of_its_currency(tmp_path: Path, currency: str, written: str, cents: int) -> None:
    (order,) = read(tmp_path, ORDER | {"currency": currency, "lines": [LINE | {"unit_price": written}]})
    assert isinstance(order, OrderSubmitted)
    assert order.lines[0].unit_price_cents == cents


@pytest.mark.parametrize(
    ("currency", "written", "says"),
    [
        ("JPY", "10.5", "has more decimals than JPY: 0"),
        ("KWD", "1.2345", "than KWD: 3"),
        ("GBP", "2.555", "than GBP: 2"),
    ],
)
def test_a_price_below_the_minor_unit_is_refused(tmp_path: Path, currency: str, written: str, says: str) -> None:
    reason, detail = refusal(tmp_path, ORDER | {"currency": currency, "lines": [LINE | {"unit_price": written}]})
    assert reason is Reason.UNIT_PRICE
    assert says in detail


def test_empty_lines_and_a_byte_order_mark_are_passed_over(tmp_path: Path) -> None:
    first, second = read(tmp_path, b"\xef\xbb\xbf" + json.dumps(ORDER).encode(), "", "  ", ORDER | {"order_id": "2"})
    assert isinstance(first, OrderSubmitted)
    assert isinstance(second, OrderSubmitted)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "not JSON: Expecting value at column 1"),
        ('{"order_id": "1"', "not JSON"),
        (b'{"order_id": "\xff"}', "not UTF-8: byte 0xff at 15"),
        ("[" * 100_000, "nested too deep"),
        ('{"order_id": NaN}', "NaN"),
        ('{"order_id": Infinity}', "Infinity"),
        ('{"quantity": ' + "9" * 5_000 + "}", "too many digits"),
        ('{"order_id": "1", "order_id": "2"}', "field 'order_id' is there twice"),
        ("[]", "expected an object with an order's fields, not a list"),
        ("null", "not null"),
        (ORDER | {"gift": 1}, 'unknown field "gift"'),
        ({"order_id": "1"}, "field placed_at is missing"),
        (ORDER | {"order_id": 1}, "order_id: expected text, not 1"),
        (ORDER | {"order_id": " "}, "order_id: is empty"),
        (ORDER | {"order_id": "x" * 201}, "order_id: has 201 characters"),
        (ORDER | {"order_id": "a\x1b[31m"}, "order_id: has a control character, U+001B at 2"),
        (ORDER | {"order_id": "\ud800"}, "order_id: has a control character, U+D800 at 1"),
        (ORDER | {"country": "a\u202eb"}, "country: has a control character, U+202E at 2"),
        (
            ORDER | {"placed_at": "9999-12-31T23:59:59Z"},
            'placed_at: "9999-12-31T23:59:59Z" is out of bounds: from 1970 to before 2200',
        ),
        (ORDER | {"placed_at": "0001-01-01T00:00:00Z"}, "is out of bounds"),
        (ORDER | {"placed_at": "yesterday"}, 'placed_at: "yesterday" is not a time'),
        (ORDER | {"placed_at": "2010-12-01T08:26:00"}, "has no offset from UTC"),
        (ORDER | {"placed_at": "0001-01-01T00:00:00+14:00"}, "is not a time"),
        (ORDER | {"placed_at": 5}, "placed_at: expected a time as text"),
        (ORDER | {"customer_id": []}, "customer_id: expected text, not a list"),
        (ORDER | {"country": None}, "country: expected text, not null"),
        (ORDER | {"cancels": 1}, "cancels: expected true, false or null, not 1"),
        (ORDER | {"currency": "£"}, "currency: expected an ISO 4217 code"),
        (ORDER | {"lines": []}, "lines: the order has none"),
        (ORDER | {"lines": {}}, "lines: expected a list"),
        (ORDER | {"lines": [LINE] * 5_001}, "lines: the order has 5001"),
        (ORDER | {"lines": ["A"]}, "line 1: expected an object"),
        (ORDER | {"lines": [{"sku": "A"}]}, "line 1: field description is missing"),
        (with_line(colour="red"), 'line 2: unknown field "colour"'),
        (with_line(sku=None), "line 2, sku: expected text"),
        (with_line(description=7), "line 2, description: expected text or null"),
        (with_line(description="x" * 1_001), "line 2, description: has 1001 characters"),
        (with_line(description="\x00"), "line 2, description: has a control character, U+0000 at 1"),
        (with_line(quantity="six"), 'line 2, quantity: expected a whole number, not "six"'),
        (with_line(quantity=True), "line 2, quantity: expected a whole number, not true"),
        (with_line(quantity=1.0), "line 2, quantity: expected a whole number, not 1.0"),
        (with_line(quantity=MOST_UNITS + 1), "line 2, quantity: 1000001 is out of bounds"),
        (with_line(quantity=-(2**63) - 1), "is out of bounds"),
        (with_line(quantity=10**30), "is out of bounds"),
        (with_line(unit_price=2.55), "line 2, unit_price: expected a decimal as text"),
        (with_line(unit_price="2,55"), 'line 2, unit_price: expected a decimal, such as "2.55", not "2,55"'),
        (with_line(unit_price="1e3"), "line 2, unit_price: expected a decimal"),
        (with_line(unit_price="10000000.01"), "line 2, unit_price: 10000000.01 is out of bounds"),
        (with_line(unit_price="9" * 5_000), "line 2, unit_price: expected a decimal"),
        (with_line(unit_price="\u0663.\u0665\u0660"), "line 2, unit_price: expected a decimal"),
    ],
)
def test_malformed_with_the_fields_name(tmp_path: Path, line: bytes | str | dict[str, Any], says: str) -> None:
    reason, detail = refusal(tmp_path, line)
    assert reason is Reason.MALFORMED
    assert says in detail
    assert len(detail) < 200


def test_a_line_of_ten_megabytes_is_refused_without_being_held(tmp_path: Path) -> None:
    reason, detail = refusal(tmp_path, json.dumps(ORDER | {"country": "x" * 10_000_000}))
    assert reason is Reason.MALFORMED
    assert detail.startswith("the line has 10,000,")


def test_the_longest_line_is_read(tmp_path: Path) -> None:
    padded = json.dumps(ORDER).ljust(MAX_LINE_BYTES - 1)
    first, second = read(tmp_path, padded, ORDER | {"order_id": "2"})
    assert isinstance(first, OrderSubmitted)
    assert isinstance(second, OrderSubmitted)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ORDER | {"cancels": True}, Reason.CREDIT_NOTE),
        (with_line(quantity=0), Reason.QUANTITY),
        (with_line(quantity=-(2**63)), Reason.QUANTITY),
        (with_line(unit_price="-0.01"), Reason.UNIT_PRICE),
        (with_line(unit_price="-0.001"), Reason.UNIT_PRICE),
        (with_line(unit_price="-99999999999.00"), Reason.UNIT_PRICE),
        (with_line(unit_price="0.001"), Reason.UNIT_PRICE),
        (with_line(unit_price="2.551"), Reason.UNIT_PRICE),
        (ORDER | {"lines": [LINE | {"unit_price": "0.00"}]}, Reason.NOTHING_TO_PAY),
        (ORDER | {"lines": [LINE | {"unit_price": "-0"}]}, Reason.NOTHING_TO_PAY),
    ],
)
def test_refused_for_what_it_says(tmp_path: Path, line: dict[str, Any], reason: Reason) -> None:
    assert refusal(tmp_path, line)[0] is reason


def test_the_first_reason_counts(tmp_path: Path) -> None:
    bad = LINE | {"quantity": -1, "unit_price": "0.001"}
    every = ORDER | {"cancels": True, "lines": [bad]}
    assert refusal(tmp_path, every | {"country": 1})[0] is Reason.MALFORMED
    assert refusal(tmp_path, every)[0] is Reason.CREDIT_NOTE
    assert refusal(tmp_path, every | {"cancels": False})[0] is Reason.QUANTITY
    assert refusal(tmp_path, ORDER | {"lines": [bad | {"quantity": 1}]})[0] is Reason.UNIT_PRICE


def test_a_price_of_zero_beside_another_is_fine(tmp_path: Path) -> None:
    (order,) = read(tmp_path, with_line(unit_price="0.00"))
    assert isinstance(order, OrderSubmitted)


def test_a_malformed_order_keeps_its_id_where_it_has_one(tmp_path: Path) -> None:
    found = read(tmp_path, ORDER | {"lines": []}, "nonsense", ORDER | {"order_id": "a\x07", "lines": []})
    assert [each.order_id for each in found] == ["1", None, None]


def test_what_a_file_may_hold_fits_the_event(tmp_path: Path) -> None:
    biggest = {
        "sku": "s" * 200,
        "description": None,
        "quantity": MOST_UNITS,
        "unit_price": f"{MOST_CENTS // 100}.00",
    }
    (order,) = read(tmp_path, ORDER | {"order_id": "o" * 200, "country": "c" * 200, "lines": [biggest]})
    assert isinstance(order, OrderSubmitted)
    assert order.lines[0].unit_price_cents == MOST_CENTS


def test_an_order_that_comes_again_with_other_content_is_refused(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"customer_id": None},
        {"country": "EIRE"},
        {"currency": "EUR"},
        {"placed_at": "2010-12-01T08:26:01Z"},
        with_line(quantity=3),
        with_line(unit_price="2.56"),
        with_line(sku="B"),
        with_line(),
    ]
    placed, *refused = read(tmp_path, ORDER, *(ORDER | change for change in changes))
    assert isinstance(placed, OrderSubmitted)
    again = Refusal("1", Reason.MALFORMED, "order 1 was in the file before, with other content")
    assert refused == [again] * len(changes)


def test_the_same_content_in_other_words_is_placed_once(tmp_path: Path) -> None:
    other_words = {**dict(reversed(ORDER.items())), "placed_at": "2010-12-01T09:26:00+01:00", "cancels": False}
    described = ORDER | {"lines": [LINE | {"description": None, "unit_price": "2.550"}]}
    (placed,) = read(tmp_path, ORDER, other_words, described)
    assert isinstance(placed, OrderSubmitted)
    assert content_of(placed) == "71fd28774697d189", "as earlier versions wrote it"


def test_a_line_of_thousands_of_unknown_fields_is_refused_at_once(tmp_path: Path) -> None:
    reason, detail = refusal(tmp_path, ORDER | {f"field {number}": number for number in range(50_000)})
    assert (reason, detail) == (Reason.MALFORMED, "50,000 fields are unknown or wrong")
