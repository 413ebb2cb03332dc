"""Decimals without declared digits, and microseconds, come through a rebuild and its SQL with all of their digits."""

import json
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
from tests.integration.test_sql_values import DIGITS, PAID, url

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
