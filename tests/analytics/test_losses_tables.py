"""Spark goes on behind inputs that were gone before a service had read them, as the service did."""

from pathlib import Path

from pyspark.sql import SparkSession

from analytics.audit.application import Application
from analytics.audit.decisions import decision_findings
from tests.analytics.as_recorded import states_in, written_states
from tests.analytics.folded import Folded
from tests.analytics.sources import ROOT
from tests.golden.losses.record import unpacked
from tests.integration.test_golden_losses import WHY

NAMED = "tests.integration.test_losses:APP"


def test_tables_and_audit_of_a_log_with_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    url = unpacked(tmp_path)
    whole = Folded(spark, url, NAMED, tmp_path / "whole").go_on()
    (named,) = whole.table("fold_errors")
    assert (named["service"], WHY in str(named)) == ("hears", True)
    assert states_in(whole) == whole.on_log(written_states)
    found = decision_findings(spark, url, Application(NAMED, str(ROOT))).collect()
    assert [row.asDict() for row in found if row["severity"] == "error"] == []
