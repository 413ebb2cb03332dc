"""Tables of services that the analytics have never heard of: from contracts alone, and those that they add."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild
from analytics.rebuilding.quality import RowsRefused
from tests.analytics.independent import Row
from tests.analytics.sources import REPAIRS
from tests.analytics.test_rebuild import Rows

GENERIC = ("event_repair_asked", "event_part_sent", "event_repair_given_up", "saga_steps", "sagas")
OWN = ("intake", "bills", "endings", "kinds")


def rows_of(place: Path, *names: str) -> dict[str, Rows]:
    return {name: Rows.of(list(map(plain, rows_in(place / name)))) for name in names}


def plain(row: Row) -> Row:
    return {name: repr(value) if isinstance(value, list) else value for name, value in row.items()}


def rows_in(table: Path) -> list[dict[str, Any]]:
    import pyarrow.dataset  # which imports pandas

    found: list[dict[str, Any]] = pyarrow.dataset.dataset(str(table), format="parquet").to_table().to_pylist()
    return found


def test_they_are_there_from_contracts_alone(repaired: tuple[Path, Rebuilt]) -> None:
    out, done = repaired
    asked_rows = {row["repair_id"]: row for row in rows_in(out / "event_repair_asked")}
    assert len(asked_rows) == done.manifest.rows["event_repair_asked"] == 13
    assert (asked_rows["old1"]["minutes"], asked_rows["old1"]["event_offset"]) == (3, "")
    assert asked_rows["r3"]["event_offset"] == "xxx"
    assert asked_rows["r3"]["offset"] >= 0
    sagas = {row["saga"]: row for row in rows_in(out / "sagas")}
    assert {name: (row["outcome"], row["reason"], row["waits_for"]) for name, row in sagas.items()} == {
        **dict.fromkeys(("old1", "r2", "r5", "r8"), ("repair_done", None, None)),
        **dict.fromkeys(("old0", "lax"), ("open", None, "event")),  # they are parked
        **dict.fromkeys(("r1", "r4", "r7"), ("repair_given_up", "no part 2", None)),
        **dict.fromkeys(("r0", "r3", "r6", "r9"), ("open", None, "effect:supplier/order_part")),
    }
    assert {(row["steps"], row["failures"], row["compensations"]) for row in sagas.values()} == {
        *{(5, 0, 0), (5, 1, 1), (3, 0, 0), (1, 0, 0)}
    }
    steps = [row for row in rows_in(out / "saga_steps") if row["repair_id"] == "r1"]
    assert {(row["type"], row["cause_type"], row["minutes"], row["reason"]) for row in steps} == {
        ("RepairAsked", None, None, None),
        ("RepairTaken", "RepairAsked", 2, None),
        ("PartAsked", "RepairTaken", None, None),
        ("PartLacking", "PartAsked", None, "no part 2"),
        ("RepairGivenUp", "PartLacking", None, None),
    }


def test_increments_give_the_same(grown: tuple[Path, Rebuilt], repaired: tuple[Path, Rebuilt]) -> None:
    out, done = grown
    assert not done.full
    assert {*done.manifest.rows} == {*GENERIC, *OWN, "quarantine"}  # with what they are made of
    assert rows_of(out, *done.manifest.rows) == rows_of(repaired[0], *done.manifest.rows)


def test_own_tables_are_made_in_order_and_tested(
    repaired: tuple[Path, Rebuilt], grown: tuple[Path, Rebuilt], capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = repaired
    bills = {row["repair_id"]: (row["cents"], row["minutes"]) for row in rows_in(out / "bills")}
    assert bills == {**{f"r{n}": (250, n + 1) for n in (2, 5, 8)}, "old1": (250, 3)}
    assert {(row["kind"], row["outcome"], row["count"]) for row in rows_in(out / "endings")} == {
        *{("clock", "repair_done", 3), ("clock", "repair_given_up", 1), ("clock", "open", 3)},
        *{("radio", "repair_done", 1), ("radio", "repair_given_up", 2), ("radio", "open", 2), ("sofa", "open", 1)},
    }
    command = ["test", "--out", str(grown[0]), "--app", "tests.analytics.repairs:repairs", "--json"]
    assert run(command) == 1
    results = list(map(json.loads, capsys.readouterr().out.splitlines()))
    broken = {(each["table"], each["column"], each["rows"], each["example"]) for each in results if each["rows"]}
    assert broken == {("intake", "kind", 1, "sofa"), ("kinds", "kind", 1, "sofa")}
    tests = {(each["table"], each["column"], each["test"]) for each in results}
    assert ("bills", "repair_id", "relationships(intake.repair_id)") in tests
    assert ("intake", "repair_id", "unique") in tests


def test_rows_that_break_their_contract_are_noted_and_can_refuse_the_run(
    spark: SparkSession, repair_archive: str, repaired: tuple[Path, Rebuilt], tmp_path: Path
) -> None:
    out, done = repaired
    of_events = [each for each in done.broken if each.table.startswith("event_")]
    assert [(each.table, each.rule, each.is_older, each.rows) for each in of_events] == [
        ("event_repair_asked", "kind: one of clock, radio", False, 1),
        ("event_repair_asked", "minutes: ge=1", True, 1),
        ("event_repair_asked", "offset: pattern=^[a-z]*$", False, 1),
    ]
    noted = [row for row in rows_in(out / "quarantine") if row["table"].startswith("event_")]
    by_rule = {row["rule"].partition(":")[0]: row for row in noted}
    assert {name: row["value"] for name, row in by_rule.items()} == {
        "kind": "sofa",
        "minutes": "0",
        "offset": "NOT LOWER",
    }
    places = {
        row["repair_id"]: (row["topic"], row["partition"], row["offset"]) for row in rows_in(out / "event_repair_asked")
    }
    assert places["lax"] == tuple(by_rule["kind"][name] for name in ("topic", "partition", "offset"))
    how = How(enforce=True, select=("event_repair_asked", "quarantine"))
    with pytest.raises(RowsRefused, match="2 new rows break a rule, and nothing is published: 1 of event_repair_asked"):
        rebuild(spark, repair_archive, tmp_path, application=REPAIRS, how=how)
    assert not (tmp_path / "current").exists()
    assert not (tmp_path / "event_repair_asked").exists()


@pytest.mark.slow
def test_no_plan_of_all_tables_sends_one_to_every_task(
    spark: SparkSession, shop_log: str, tmp_path: Path, plans: list[str]
) -> None:
    rebuild(spark, shop_log, tmp_path)
    assert plans
    assert not [plan for plan in plans if "Broadcast" in plan]
