"""SQL over a log has every value whole: 38 digits, microseconds, the ends of integers, and numbers that are none."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Context, Decimal, localcontext
from math import inf, nan
from typing import Any

import pytest

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from tests.commands import ended, said

DIGITS = [
    *("12345678901234567890.123456789012345678", "-99999999999999999999.999999999999999999", "0", "1E-18", "2.5", "10"),
    *("-0.000000000000000002", "9999999999", "12345678901.5", "100000000000000000.5"),
]
MOMENTS = [datetime(2026, 1, 1, 0, 0, 0, micros, UTC) for micros in (0, 250, 1_000, 1_001, 999_999)]


class Paid(Event, topic="paid", key="payment_id", request=True):
    payment_id: str
    amount: Decimal
    at: datetime
    ratio: float = 0.0
    ratios: tuple[float, ...] = ()
    count: int = 0
    amounts: tuple[Decimal, ...] = ()


@dataclass(frozen=True)
class Account:
    amount: Decimal = Decimal(0)


class Booked(Event, topic="booked", key="payment_id", final=True):
    payment_id: str


accounts = Decider("account", state=Account, key="payment_id")


@accounts.evolve
def evolve(account: Account, event: Event) -> Account:
    return replace(account, amount=event.amount) if isinstance(event, Paid) else account


@accounts.on(Paid)
def book(_: Account, paid: Paid) -> list[Booked]:
    return [Booked(payment_id=paid.payment_id)]


APP = Choreography("payments", [Service("payments", deciders=[accounts])])
PAID = [
    Paid(
        payment_id=f"{n:02}",
        amount=Decimal(digits),
        amounts=(Decimal(digits),),
        at=MOMENTS[n % len(MOMENTS)],
        ratio=(nan, inf, -inf, 1.5)[n % 4],
        ratios=(nan, 1.5),
        count=(2**63 - 1, -(2**63), 1)[n % 3],
    )
    for n, digits in enumerate(DIGITS)
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = f"sqlite:///{tmp_path_factory.mktemp('paid')}/log.db"

    async def filled() -> None:
        async with open_log(found, APP) as log, Runtime(log) as running:
            await log.publish_many(PAID)
            await running.idle()

    asyncio.run(filled())
    return found


def rows(url: str, question: str) -> list[dict[str, Any]]:
    text = said("sql", question, "--log", url, "--app", "tests.integration.test_sql_values:APP", "--json")
    found: list[dict[str, Any]] = json.loads(text, parse_constant=_refuse)["rows"]
    return found


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("question", [
    "SELECT payment_id AS id, amount FROM event_paid", "SELECT key AS id, amount FROM state_account",
    "SELECT payment_id AS id, amounts ->> 0 AS amount FROM event_paid",
    "SELECT payment_id AS id, max(amount) AS amount FROM event_paid GROUP BY payment_id",
])  # fmt: skip
def test_decimals_come_through_with_all_their_digits(url: str, question: str) -> None:
    found = {row["id"]: row["amount"] for row in rows(url, question)}
    assert {id_: Decimal(text) for id_, text in found.items()} == {each.payment_id: each.amount for each in PAID}
    assert not [text for text in found.values() if "E" in text]
    assert found["02"] == "0"
    assert found["03"] == "0.000000000000000001"


def test_sums_of_decimals_are_exact(url: str) -> None:
    with localcontext(Context(prec=100)):
        total = sum((each.amount for each in PAID), Decimal(0))
    assert Decimal(rows(url, "SELECT sum(amount) AS s FROM event_paid")[0]["s"]) == total
    assert rows(url, "SELECT sum(amount) AS s FROM event_paid WHERE amount IN (2.5, 10)") == [{"s": 12.5}]
    (row,) = rows(url, "SELECT sum(amount) OVER (ORDER BY amount ROWS 1 PRECEDING) AS s FROM event_paid ORDER BY amount DESC LIMIT 1")  # fmt: skip
    assert row == {"s": "12445678901234567890.623456789012345678"}
    assert rows(url, "SELECT sum(amount) AS s FROM event_paid WHERE 0") == [{"s": None}]


@pytest.mark.parametrize(
    ("condition", "is_meant"),
    [
        ("amount > 9.5", lambda each: each.amount > Decimal("9.5")),
        ("amount < 0", lambda each: each.amount < 0),
        ("amount = 2.5", lambda each: each.amount == Decimal("2.5")),
        ("amount > '12345678901234567890.1'", lambda each: each.amount > Decimal("12345678901234567890.1")),
        ("amount BETWEEN 0 AND 1", lambda each: 0 <= each.amount <= 1),
        ("at > '2026-01-01T00:00:00.001Z'", lambda each: each.at > MOMENTS[2]),
        ("at <= '2026-01-01T00:00:00.000250Z'", lambda each: each.at <= MOMENTS[1]),
    ],
)
def test_decimals_and_times_compare_as_what_they_are(url: str, condition: str, is_meant: Any) -> None:
    found = rows(url, f"SELECT payment_id FROM event_paid WHERE {condition} ORDER BY payment_id")  # noqa: S608
    assert [row["payment_id"] for row in found] == [each.payment_id for each in PAID if is_meant(each)]


@pytest.mark.parametrize("order", ["amount", "at"])
def test_decimals_and_times_sort_as_what_they_are(url: str, order: str) -> None:
    found = rows(url, f"SELECT payment_id FROM event_paid ORDER BY {order}, payment_id")  # noqa: S608
    assert [row["payment_id"] for row in found] == [
        each.payment_id for each in sorted(PAID, key=lambda each: (getattr(each, order), each.payment_id))
    ]


def test_times_keep_their_microseconds(url: str) -> None:
    found = {row["at"] for row in rows(url, "SELECT at FROM event_paid")}
    assert found == {f"2026-01-01T00:00:00.{rest}Z" for rest in ("000", "000250", "001", "001001", "999999")}


def test_floats_that_json_has_no_numbers_for(url: str) -> None:
    found = rows(url, "SELECT ratio, ratios, count FROM event_paid ORDER BY payment_id")
    assert [row["ratio"] for row in found[:4]] == [None, "Infinity", "-Infinity", 1.5]
    assert found[0]["ratios"] == ["NaN", 1.5]
    assert [row["count"] for row in found[:3]] == [2**63 - 1, -(2**63), 1]


@pytest.mark.parametrize(
    "question", ["SELECT sum(count) FROM event_paid WHERE count > 0", "SELECT abs(min(count)) FROM event_paid"]
)
def test_an_integer_that_is_too_large_is_named_with_the_remedy(url: str, question: str) -> None:
    done = ended("sql", question, "--log", url, "--app", "tests.integration.test_sql_values:APP")
    assert done.returncode == 1
    assert "more than 64 bits (a sum, abs): write total(column)" in done.stderr
