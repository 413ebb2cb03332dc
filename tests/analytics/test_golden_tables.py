"""Tables and findings of logs that commit b0c4a11 wrote are those that it made of them.

The log on Kafka is read, replayed and gone on with in `tests/integration/test_golden_shops.py`; what Spark makes of it
differs by Kafka's source alone, which other tests have, and is longer.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.cli import run
from tests.analytics.sources import rebuild_shop as rebuild
from tests.commands import ended
from tests.golden.shops.shops import EMBEDDED, KAFKA, golden_log, holds, printed

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
