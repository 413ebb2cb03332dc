"""Deadlines in what would have been: those that passed pass again, and others by their rules."""

import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.whatif import Hypothesis, what_if
from services.order.events import OrderPlaced
from tests import forked
from tests.analytics.supposing import COMPLETED, FIGURES, by_saga, recorded, then_by_order
from tests.saga.shop_runs import EVENTLIB, ROOT, ShopLog, order_file


@pytest.fixture(scope="module")
def hasty_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log of orders that become overdue after a moment: its deadlines have passed, or just not."""
    directory = tmp_path_factory.mktemp("hasty")
    log, hasty = ShopLog(directory), "tests.analytics.tomorrow:hasty"
    command = [EVENTLIB, "run", "--app", hasty, "--log", log.url]
    with forked.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as services:
        log.run_import(order_file(directory, 40), "--place-only")
        until = time.monotonic() + 60
        while len(then_by_order(recorded(log.url))) < len({o.order_id for o in recorded(log.url).of(OrderPlaced)}):
            assert time.monotonic() < until, "the orders have not ended"
            time.sleep(0.5)
        time.sleep(1)
        services.terminate()
    return log.url


def test_deadlines_that_passed_pass_again_and_others_by_their_rules(
    spark: SparkSession, hasty_log: str, tmp_path: Path
) -> None:
    hasty = "tests.analytics.tomorrow:hasty"
    then = then_by_order(recorded(hasty_log))
    assert "overdue" in {ended.reason for ended in then.values()}
    same = what_if(spark, hasty_log, Hypothesis(Application(hasty), Application(hasty)), tmp_path / "same")
    assert same.events.where("difference != 'unchanged'").collect() == []
    model = "tests.analytics.tomorrow:generous"
    patient = Hypothesis(Application(hasty), Application(), figures=FIGURES, model=model)
    now = by_saga(what_if(spark, hasty_log, patient, tmp_path / "patient"))
    assert {now[order].outcome for order, ended in then.items() if ended.reason == "overdue"} == {COMPLETED}


@pytest.mark.extended
def test_a_deadline_that_passed_passes_again_for_orders_that_are_otherwise_changed(
    spark: SparkSession, hasty_log: str, tmp_path: Path
) -> None:
    hasty = Application("tests.analytics.tomorrow:hasty")
    elsewhere = Hypothesis(hasty, hasty, change="tests.analytics.tomorrow:elsewhere")
    moved = what_if(spark, hasty_log, elsewhere, tmp_path).events.where("type_then = 'OrderCancelRequested'")
    assert {row["difference"] for row in moved.collect()} == {"unchanged"}
