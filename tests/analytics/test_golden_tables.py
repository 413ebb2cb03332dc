"""Tables and findings of earlier logs are what they were; losses are gone past, and a damaged file is named."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.audit.decisions import decision_findings
from analytics.cli import run
from analytics.rebuilding import log_pass
from eventlib.errors import LogCorrupt
from tests.analytics.as_recorded import states_in, written_states
from tests.analytics.folded import Folded
from tests.analytics.sources import ROOT, rebuild_shop
from tests.analytics.sources import rebuild_shop as rebuild
from tests.commands import ended
from tests.golden.losses.record import unpacked
from tests.golden.shops.shops import EMBEDDED, KAFKA, golden_log, holds, printed
from tests.integration.test_golden_losses import WHY

WRONG = "nothing_stays_set_aside"
"""Holds of a product when nothing is in flight; it was judged while orders of the product were."""

SINCE = "submitted_orders_are_placed"
"""A rule that there was not: an operator skipped the request of an order."""


@pytest.mark.parametrize("name", [EMBEDDED, pytest.param(KAFKA, marks=pytest.mark.slow)])
def test_tables_and_findings_are_what_they_were(spark: SparkSession, name: str, tmp_path: Path) -> None:
    then = printed(name)
    with golden_log(name, tmp_path) as url:
        rebuild(spark, url, tmp_path / "tables")
        audited = json.loads(ended("audit", "--json", "--log", url, by=run).stdout)
    for command in then:
        if command.startswith("table "):
            files = sorted((tmp_path / "tables").glob(f"versions/*/{command.removeprefix('table ')}/*.parquet"))
            rows = [row for file in files for row in pq.read_table(file).to_pylist()]
            assert sorted(map(repr, rows)) == then[command].splitlines(), command
    before = json.loads(then["audit --json"])
    assert holds(before["read"], audited["read"])
    rules = {rule["rule"]: rule for rule in audited["rules"]}
    for rule in before["rules"]:
        del rule["says"]  # a rule's sentence may be put better
        assert holds(rule, rules[rule["rule"]]) or rule["rule"] == WRONG
    found = audited["findings"]
    assert [each for each in found if each["rule"] != SINCE] == [
        each for each in before["findings"] if each["rule"] != WRONG
    ]
    assert [each["order"] for each in found if each["rule"] == SINCE] == ["G-skipped"]


NAMED = "tests.integration.test_losses:APP"


def test_tables_and_audit_of_a_log_with_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    url = unpacked(tmp_path)
    whole = Folded(spark, url, NAMED, tmp_path / "whole").go_on()
    (named,) = whole.table("fold_errors")
    assert (named["service"], WHY in str(named)) == ("hears", True)
    assert states_in(whole) == whole.on_log(written_states)
    found = decision_findings(spark, url, Application(NAMED, str(ROOT))).collect()
    assert [row.asDict() for row in found if row["severity"] == "error"] == []


@pytest.mark.parametrize("few_records", [0, 1 << 30], ids=["in Spark's workers", "here"])
def test_a_damaged_file_is_named_and_nothing_is_published(
    spark: SparkSession, archive: str, tmp_path: Path, few_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pass, "FEW_RECORDS", few_records)
    copy = Path(shutil.copytree(archive.removeprefix("archive:"), tmp_path / "archive"))
    (damaged,) = copy.glob("data/topic=orders/date=*/*.parquet")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 3] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(LogCorrupt, match=rf"{damaged}.*bring it back"):
        rebuild_shop(spark, f"archive:{copy}", tmp_path / "out")
    assert not (tmp_path / "out" / "orders").exists()
