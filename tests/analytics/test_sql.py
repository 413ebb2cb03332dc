"""SQL over the rebuilt tables and the log's events, as a script asks it."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.asking_tables import query
from analytics.cli import run
from analytics.stores import current, read_manifest
from eventlib.errors import WiringError


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
