"""The bench of the analytics measures every job from every source: figures that nobody can get again are none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.analytics.sources import ROOT

_REBUILDS = {"rebuild", "rebuild of every table"}
_JOBS = {"scan of all columns", "count by type", *_REBUILDS, "audit by rules", "differential audit"}


@pytest.mark.slow
def test_a_small_log_is_measured_from_every_source(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench.analytics_bench", "--events", "2000", "--minutes", "0"]
    subprocess.run([*command, "--report", str(report)], cwd=ROOT, check=True, timeout=900)
    written = json.loads(report.read_text())
    assert written["failures"] == []
    jobs = {(each["source"], each["job"]) for each in written["logs"]["2000"]}
    assert jobs == {(source, job) for source in ("sqlite", "archive", "kafka") for job in _JOBS}
