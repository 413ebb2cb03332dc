"""Tables, audit and reconciliation of a log on which an operator has brought back a task whose time was set ahead."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.audit.decisions import decision_findings
from eventlib import EventLog, open_log
from tests.analytics.as_recorded import states_in, written_states
from tests.analytics.folded import Folded
from tests.analytics.sources import ROOT
from tests.apps.small_shop import Outside, settle
from tests.integration.pausing import ordered
from tests.integration.small_shop_app import app
from tests.integration.test_clock_reset import KEEPS, infected, keys_of, reset

NAMED = "tests.integration.small_shop_app:app"


def on(url: str, act: Callable[[EventLog], Awaitable[None]]) -> None:
    async def done() -> None:
        async with open_log(url, app) as log:
            await act(log)

    asyncio.run(done())


def test_tables_rebuilt_or_gone_on_with_equal_what_services_have_written_after_a_reset(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, partition = f"sqlite:///{tmp_path}/log.db", -1

    async def infect(log: EventLog) -> None:
        nonlocal partition
        await settle(log)
        partition = await infected(log, monkeypatch)

    async def go_on(log: EventLog) -> None:
        await reset(log)
        for key in keys_of(log, partition, 2):
            await ordered(log, key, 7)
        await settle(log, Outside(refuses=KEEPS))

    on(url, infect)
    grown = Folded(spark, url, NAMED, tmp_path / "grown").go_on()
    on(url, go_on)
    grown.go_on()
    whole = Folded(spark, url, NAMED, tmp_path / "whole").go_on()
    written = whole.on_log(written_states)
    assert len(written) > 3
    for each in (whole, grown):
        assert each.table("fold_errors") == []
        assert states_in(each) == written
    found = decision_findings(spark, url, Application(NAMED, str(ROOT))).collect()
    assert [row.asDict() for row in found if row["severity"] == "error"] == []
