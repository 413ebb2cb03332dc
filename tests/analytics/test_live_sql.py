"""A question has the same answer from the tables that Spark makes of a log, and from `eventlib sql` on it."""

import asyncio
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.asking_tables import query
from analytics.audit.application import Application
from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild
from analytics.stores import current, read_manifest
from eventlib import Runtime, open_log
from eventlib.errors import WiringError
from examples.transfers.purchases import PurchaseSubmitted, TransferConfirmed
from tests.analytics import generated
from tests.analytics.sources import REPAIRS
from tests.commands import ended, said
from tests.integration.parcels_app import APP
from tests.integration.parcels_log import send

SHOP = Application("services:shop")
PARCELS = Application("tests.integration.parcels_app:APP")
TRANSFERS = Application("examples.transfers:app")
SAGA_TABLES = ("sagas", "saga_steps", "effects", "parked", "deadlines")
TABLES = (*SAGA_TABLES, "state_order", "state_shelf", "event_order_placed", "event_payment_taken")
QUESTIONS = (
    "SELECT outcome, reason, count(*) AS n, sum(steps) AS steps, sum(failures) AS failures FROM sagas GROUP BY outcome, reason",
    "SELECT country, sum(amount_cents) AS cents FROM event_order_placed GROUP BY country HAVING count(*) > 2",
    (
        "SELECT o.order_id, p.charge_key, unix_millis(p.recorded_at) - unix_millis(o.recorded_at) AS ms FROM event_order_placed o "
        "JOIN event_payment_taken p USING (order_id) WHERE o.placed_at > '2026-01-05T12:00:00Z' AND o.customer_id IS NOT NULL"
    ),
    "SELECT s.saga, o.stock, o.money FROM sagas s JOIN state_order o ON o.key = s.saga WHERE s.outcome = 'order_cancelled'",
    "SELECT cause_type, type, count(*) AS n, max(since_cause_ms) AS ms FROM saga_steps GROUP BY cause_type, type",
    "SELECT date_trunc('hour', recorded_at) AS hour, count(*) AS n FROM saga_steps GROUP BY date_trunc('hour', recorded_at)",
    "WITH late AS (SELECT key, on_hand FROM state_shelf WHERE on_hand < 5) SELECT count(*) AS n, sum(on_hand) AS units FROM late",
)

OPEN = {
    "parked": "released_at IS NULL",
    "deadlines": "passed_at IS NULL AND cancelled_at IS NULL",
    "event_repair_asked": "kind IN ('clock', 'radio') AND minutes >= 1",
}
"""What live tables have of those of the past: what is open, and what fits its contract."""


def rebuilt(out: Path, question: str) -> list[dict[str, Any]]:
    lines = said("sql", question, "--out", str(out), "--json", by=run).splitlines()
    return in_order(map(json.loads, lines))


def live(url: str, app: Application, question: str) -> list[dict[str, Any]]:
    return answered(url, app, question)[1]


def answered(url: str, app: Application, question: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and the rows of a live answer."""
    command = ("sql", question, "--log", url, "--app", str(app.named), "--limit", "100000", "--json")
    answer = json.loads(said(*command))
    assert not answer["is_cut"]
    return answer["columns"], in_order(answer["rows"])


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.extended
def test_the_same_question_has_the_same_answer(spark: SparkSession, shop_log: str, tmp_path: Path) -> None:
    rebuild(spark, shop_log, tmp_path, application=SHOP, how=How(select=TABLES))
    for table in TABLES:
        are_equal(shop_log, SHOP, tmp_path, table)
    for question in QUESTIONS:
        answer = live(shop_log, SHOP, question)
        assert answer == rebuilt(tmp_path, question), question
        assert answer, question


def are_equal(url: str, app: Application, out: Path, table: str) -> int:
    """Compare a whole table, as far as it exists live, row by row; return how many rows that is."""
    where = f"FROM {table} WHERE {OPEN.get(table, 'TRUE')}"
    columns, rows = answered(url, app, f"SELECT * {where}")
    named = ", ".join(f"`{name}`" for name in columns)
    assert rows == rebuilt(out, f"SELECT {named} {where}"), table
    return len(rows)


class AcceptingBank:
    """Accepts every transfer, except one whose answer it withholds; what came of them is reported by callbacks."""

    async def transfer(self, key: str, purchase_id: str, amount_cents: int) -> None:
        del key, amount_cents
        if purchase_id == "unanswered":
            await asyncio.sleep(3_600)


async def buy(url: str) -> None:
    async with open_log(url, TRANSFERS.choreography) as log, Runtime(log, ports={"bank": AcceptingBank()}) as runtime:
        for name in ("confirmed", "awaited"):
            await log.publish(PurchaseSubmitted(purchase_id=name, amount_cents=1))
        await runtime.idle()
        await log.publish(TransferConfirmed(purchase_id="confirmed"))
        await runtime.idle()
        await log.publish(PurchaseSubmitted(purchase_id="unanswered", amount_cents=1))
        while not any(row["waits_for"] == "effect:bank/transfer" for row in await asyncio.to_thread(waiting, url)):
            await asyncio.sleep(0.1)


def waiting(url: str) -> list[dict[str, Any]]:
    return live(url, TRANSFERS, "SELECT saga, outcome, waits_for FROM sagas")


def test_what_an_effect_awaits_is_shown_as_what_its_saga_waits_for(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/transfers.db"
    asyncio.run(buy(url))
    rebuild(spark, url, tmp_path / "tables", application=TRANSFERS, how=How(select=SAGA_TABLES))
    found = waiting(url)
    assert {row["saga"]: row["waits_for"] for row in found} == {
        "confirmed": None,
        "awaited": "awaited:TransferConfirmed or TransferDeclined",
        "unanswered": "effect:bank/transfer",
    }
    for table in SAGA_TABLES:
        are_equal(url, TRANSFERS, tmp_path / "tables", table)


@pytest.mark.extended
@pytest.mark.parametrize("name", generated.MADE)
def test_a_log_has_one_table_of_sagas(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """By the search, by SQL and by Spark, of choreographies that were made by chance."""
    url, app = f"sqlite:///{tmp_path}/log.db", Application(f"tests.analytics.generated:{name}")
    asyncio.run(generated.filled(name, url))
    rebuild(spark, url, tmp_path / "tables", application=app, how=How(select=SAGA_TABLES))
    for table in SAGA_TABLES:
        are_equal(url, app, tmp_path / "tables", table)
    found = {row["saga"]: row for row in live(url, app, "SELECT * FROM sagas")}
    listed = json.loads(said("sagas", "list", "--limit", "1000", "--json", "--log", url, "--app", str(app.named)))[
        "sagas"
    ]
    assert found
    assert {each["saga"] for each in listed} == found.keys()
    for each in listed:
        alike = each.keys() & found[each["saga"]].keys()
        assert {name: each[name] for name in alike} == {name: found[each["saga"]][name] for name in alike}


def test_what_waits_is_the_same(repair_log: str, repaired: tuple[Path, Rebuilt]) -> None:
    for table in (*SAGA_TABLES, "event_repair_asked"):
        assert are_equal(repair_log, REPAIRS, repaired[0], table) or table == "deadlines", table
    told = ended("sql", "SELECT 1 FROM sagas", "--log", repair_log, "--app", str(REPAIRS.named))
    assert "2 records of the log cannot be read" in told.stderr  # Spark has them, and notes them in `quarantine`


def test_values_of_every_type_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    url, tables = f"sqlite:///{tmp_path}/parcels.db", ("event_parcel_submitted", "event_parcel_taken", "state_parcel")

    async def filled() -> None:
        async with open_log(url, APP) as log:
            await send(log, 20)

    asyncio.run(filled())
    rebuild(spark, url, tmp_path / "out", application=PARCELS, how=How(select=tables))
    for table in tables:
        assert are_equal(url, PARCELS, tmp_path / "out", table), table


def test_tables_and_events_are_asked_by_name(
    spark: SparkSession,
    shop_log: str,
    shop_tables: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    version = current(shop_tables)
    assert version is not None
    text = "SELECT count(*), sum(o.total_cents - p.amount_cents) FROM orders o JOIN OrderPlaced p USING (order_id)"
    assert tuple(query(spark, text, shop_tables, shop_log).collect()[0]) == (read_manifest(version).rows["orders"], 0)
    with pytest.raises(WiringError, match="no_such_table"):
        query(spark, "SELECT * FROM no_such_table", shop_tables, shop_log)
    asked = "SELECT status, ended_at FROM orders WHERE ended_at IS NOT NULL LIMIT 1; SELECT nothing FROM orders"
    monkeypatch.setattr("sys.stdin", StringIO(asked))
    assert run(["sql", "--out", str(shop_tables), "--json"]) == 1
    said = capsys.readouterr()
    (row,) = map(json.loads, said.out.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["ended_at"])
    assert "nothing" in said.err
    assert "Py4JJavaError" not in said.err
