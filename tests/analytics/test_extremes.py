"""Values at their limits, and damage, end no command; decimals and microseconds keep all their digits."""

import json
import sqlite3
from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.cli import run
from analytics.columns import value_of
from analytics.rebuilding import How, rebuild
from eventlib.model.schema.types import Exact
from services.analytics.parts import sales_over_time
from tests.analytics.damages import as_if_written_so, copied, orders_ended
from tests.integration.test_sql_values import DIGITS, PAID, url

TIMES = ("0001-01-01 00:00:00", "2011-05-03 10:00:00", "2011-05-03 11:00:00", "9999-12-31 23:59:59.999")


def test_a_report_has_orders_of_any_time(spark: SparkSession) -> None:
    rows = [(at, "completed", 250, "GBP") for at in TIMES]
    orders = spark.createDataFrame(rows, "placed string, status string, total_cents long, currency string")
    part = sales_over_time({"orders": orders.selectExpr("*", "CAST(placed AS timestamp) AS placed_at")})
    found = {row["period"]: row["orders"] for row in part.rows}
    assert found == {"before 1970": 1, "2011-05-03 10:00": 1, "2011-05-03 11:00": 1, "from 2200": 1}
    assert part.plot() is not None
    assert "from 2200" in part._repr_html_()


def test_sql_tells_any_time(
    spark: SparkSession, shop_log: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    monkeypatch.setenv("COLUMNS", "200")
    times = ", ".join(f"timestamp'{at}' AS a" for at in TIMES[:1] + TIMES[3:])
    assert run(["sql", f"SELECT {times}, 1 AS b, timestamp_micros(9223372036854775807) AS c", "--log", shop_log]) == 0
    assert b"0001-01-01T00:00:00.000Z  9999-12-31T23:59:59.999Z" in capfdbinary.readouterr().out
    assert run(["sql", f"SELECT timestamp'{TIMES[0]}' AS at", "--log", shop_log, "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"at": "0001-01-01T00:00:00.000Z"}


# What one flipped bit makes of a column of the first record of a type about an order of its own: bytes that are no
# UTF-8, a key of another order, JSON that is none, a number beyond all.
FLIPS: Mapping[str, tuple[str, str]] = {
    "a key that is no text": ("OrderPlaced", "key = CAST(x'C4' || substr(key, 2) AS BLOB)"),
    "a key that is no text elsewhere": (
        "PaymentTaken",
        "key = CAST(substr(key, 1, 3) || x'B1' || substr(key, 5) AS BLOB)",
    ),
    "a key of another order": ("OrderCompleted", "key = CAST('E' || substr(CAST(key AS TEXT), 2) AS BLOB)"),
    "an id that is no text": ("StockReserved", "id = CAST(x'E1' || CAST(substr(id, 2) AS BLOB) AS TEXT)"),
    "a source that is no text": ("ChargeRequested", "source = CAST(x'F3' || CAST(substr(source, 2) AS BLOB) AS TEXT)"),
    "a subject that is no text": (
        "DispatchRequested",
        "subject = CAST(x'C4' || CAST(substr(subject, 2) AS BLOB) AS TEXT)",
    ),
    "a type that is no text": ("OrderDispatched", "type = CAST(x'CF' || CAST(substr(type, 2) AS BLOB) AS TEXT)"),
    "headers that are no JSON": ("StockShipped", 'headers = \'[["h", "v"}\''),
    "a time beyond all": ("OrderCompleted", "recorded_at = recorded_at | 4611686018427387904"),
    "a sequence that is none": ("PaymentTaken", "sequence = -sequence"),
}


@pytest.mark.extended
def test_flipped_bits_are_named_and_end_no_audit(
    spark: SparkSession, shop_log: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    del spark
    path = copied(shop_log, tmp_path)
    orders = dict(zip(FLIPS, reversed(orders_ended(path, "OrderCompleted")), strict=False))
    own = "position >> 40 NOT IN (SELECT number FROM partitions WHERE topic GLOB '*.*log' OR topic GLOB '*.journal')"
    with sqlite3.connect(path) as connection:
        for name, (kind, change) in FLIPS.items():
            about = (kind, orders[name].encode())
            sql = f"UPDATE records SET {change} WHERE type = ? AND key = ? AND {own}"  # noqa: S608  constants of this file
            assert connection.execute(sql, about).rowcount == 1, name
        for topic in ("order.changelog", "stock.journal"):
            sql = "UPDATE records SET value = substr(value, 1, 7) WHERE position = (SELECT max(position) FROM records WHERE position >> 40 = (SELECT number FROM partitions WHERE topic = ? AND partition = 1))"
            assert connection.execute(sql, (topic,)).rowcount == 1
        as_if_written_so(connection)
    assert run(["audit", "--log", f"sqlite:///{path}", "--json"]) == 1
    (told,) = map(json.loads, capfdbinary.readouterr().out.splitlines())
    named = [f"{each['rule']} {each['order']} {each['about']} {each['sentence']}" for each in told["findings"]]
    for name, order in orders.items():
        assert [each for each in named if order in each], name
    keys = [each for each in named if each.startswith("key-differs")]
    for name in list(FLIPS)[:3]:
        assert [each for each in keys if orders[name] in each], name


__all__ = ["url"]

APP = "tests.integration.test_sql_values:APP"


@pytest.mark.parametrize("digits", DIGITS)
def test_a_column_takes_every_decimal_that_its_field_has(digits: str) -> None:
    assert value_of(Exact(38, 18))(Decimal(digits)) == Decimal(digits)


def test_a_rebuild_has_all_digits(
    spark: SparkSession, url: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rebuild(spark, url, tmp_path / "out", application=Application(APP), how=How(select=("event_paid", "state_account")))

    def rows(question: str) -> list[Any]:
        capfdbinary.readouterr()
        assert run(["sql", question, "--out", str(tmp_path / "out"), "--app", APP, "--json"]) == 0
        return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    found = {row["payment_id"]: row for row in rows("SELECT payment_id, amount, at FROM event_paid")}
    assert {key: Decimal(row["amount"]) for key, row in found.items()} == {
        each.payment_id: each.amount for each in PAID
    }
    assert not [row for row in found.values() if "E" in row["amount"]]
    assert found["02"]["amount"] == "0"
    assert {row["at"] for row in found.values()} == {
        f"2026-01-01T00:00:00.{rest}Z" for rest in ("000", "000250", "001", "001001", "999999")
    }
    with localcontext(Context(prec=100)):
        total = sum((each.amount for each in PAID), Decimal(0))
    assert Decimal(rows("SELECT sum(amount) AS s FROM event_paid")[0]["s"]) == total
