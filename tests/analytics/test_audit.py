"""A log that is right gives no finding; each damage is found, at the order that it was done to, by the rules that should."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from analytics.audit import header_doubts, packs, rules
from analytics.audit.application import Application
from analytics.audit.auditing import rule_findings
from analytics.audit.headers import header_findings
from analytics.cli import run
from tests.analytics.damages import DAMAGES, Damage, copied, damage_all
from tests.analytics.sources import archived


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory, shop_log: str) -> tuple[str, Mapping[str, str]]:
    """A log with each damage done to an order of its own, and which order that is."""
    path = copied(shop_log, tmp_path_factory.mktemp("damaged"))
    return f"sqlite:///{path}", asyncio.run(damage_all(path, DAMAGES))


@pytest.fixture(scope="module")
def found(
    spark: SparkSession,
    damaged: tuple[str, Mapping[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, list[Row]]:
    """What the command writes about the damaged log's archive, by order."""
    out = tmp_path_factory.mktemp("found")
    assert run(["audit", "--log", archived(damaged[0], out / "archive"), "--out", str(out)]) == 1
    by_order = defaultdict[str, list[Row]](list)
    for row in spark.read.parquet(str(out / "findings")).collect():
        by_order[row["order"]].append(row)
    return by_order


@pytest.mark.usefixtures("spark")
def test_a_log_that_is_right_gives_no_finding(shop_log: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["audit", "--log", shop_log, "--json"]) == 0
    told = json.loads(capfdbinary.readouterr().out.splitlines()[-1])
    assert told["findings"] == []
    assert {rule["rule"] for rule in told["rules"]} == {rule.name for rule in rules(Application())}
    assert told["read"]["orders"]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damage_is_named_by_the_rules_that_should(
    damage: Damage, damaged: tuple[str, Mapping[str, str]], found: Mapping[str, list[Row]]
) -> None:
    rows = found[damaged[1][damage.name]]
    assert {damage.or_else.get(row["rule"], row["rule"]) for row in rows} == damage.rules
    assert all(row["evidence"] and row["sentence"] for row in rows)


def test_no_other_order_is_named(damaged: tuple[str, Mapping[str, str]], found: Mapping[str, list[Row]]) -> None:
    others = [row for order, rows in found.items() if order not in damaged[1].values() for row in rows]
    about = {(row["rule"], row["about"].split()[0]) for row in others}
    shelf_of_the_dropped_line = {("nothing_stays_set_aside", "sku"), ("shelves_hold_what_the_log_says", "sku")}
    assert about - shelf_of_the_dropped_line - {("sequence", "stock/shelf")} == {("said-count", "task")}


def test_a_log_whose_size_is_not_known_is_not_sent_to_every_worker(
    spark: SparkSession, shop_log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten million causes filled the JVM: a file is planned like that, however little this one has.
    monkeypatch.setattr(header_doubts, "_MOST", -1)
    rule_findings(spark, shop_log, Application()).explain()
    plan = capsys.readouterr().out
    assert "Exchange" in plan
    assert "Join" not in plan
    assert "Broadcast" not in plan


def test_only_ids_in_doubt_are_looked_up(
    spark: SparkSession,
    damaged: tuple[str, Mapping[str, str]],
    found: Mapping[str, list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command looked up ids in doubt: looking up every id finds the same."""
    monkeypatch.setattr(header_doubts, "_MOST", -1)
    rows = header_findings(spark, damaged[0], Application()).collect()
    of_every_id = {(row["rule"], row["sentence"]) for row in rows}
    named = {rule for rule, _ in of_every_id}
    assert named >= {"id-twice", "cause-missing", "conformance"}
    assert of_every_id == {
        (row["rule"], row["sentence"]) for rows in found.values() for row in rows if row["rule"] in named
    }


def test_each_group_of_packs_has_a_partition_of_its_own(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(place, n, 0, bytearray()) for n, place in enumerate(packs.places_of(7))], packs.PACK)
    placed = packs.gathered(rows, 7).select(f.spark_partition_id().alias("at"), "group").collect()
    assert len({row["at"] for row in placed}) == len(placed) == 7


def test_every_rule_says_what_it_is_for() -> None:
    declared = rules(Application())
    assert len({rule.name for rule in declared}) == len(declared)
    assert all(rule.sentence.endswith(".") for rule in declared)
