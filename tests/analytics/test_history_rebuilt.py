"""`rebuild` makes the history tables beside all others, and an increment makes what a full rebuild makes."""

import asyncio
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.cli import run
from analytics.rebuilding import rebuild, tables
from analytics.rebuilding.rebuild import How
from eventlib import open_log
from eventlib.personal.secret_file import create_secret
from tests.analytics.enquiries import app, enquire, settle, write_everything
from tests.analytics.sources import ROOT
from tests.commands import said

ENQUIRIES = "tests.analytics.enquiries:app"
HISTORY = (
    *("state_enquiry", "state_enquiry_history", "state_account", "state_account_history", "effects", "parked"),
    *("deadlines", "fold_errors"),
)


@pytest.mark.extended
def test_increments_make_what_a_full_rebuild_makes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_secret(tmp_path / "master.key")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path}/master.key")
    url, whose, how = f"sqlite:///{tmp_path}/log.db", Application(ENQUIRIES, str(ROOT)), How(select=HISTORY)

    async def go_on() -> None:
        async with open_log(url, app) as log:
            await enquire(log, "later", 4, 5)
            await enquire(log, "plain-3", 6)
            await settle(log)

    asyncio.run(write_everything(url))
    rebuild(spark, url, tmp_path / "tables", application=whose, how=how)
    asyncio.run(go_on())
    again = rebuild(spark, url, tmp_path / "tables", application=whose, how=how)
    assert not again.full
    rebuild(spark, url, tmp_path / "full", application=whose, how=how)
    made, whole = tables(spark, tmp_path / "tables"), tables(spark, tmp_path / "full")
    assert made.keys() == whole.keys() == {*HISTORY}
    for name, rows in whole.items():
        assert sorted(map(repr, made[name].collect())) == sorted(map(repr, rows.collect())), name
    query = "SELECT outcome, count(*) AS n FROM effects WHERE key = 'later' GROUP BY 1"
    asked = json.loads(said("sql", query, "--out", str(tmp_path / "tables"), "--json", by=run))
    assert asked == {"outcome": "Priced", "n": 2}
