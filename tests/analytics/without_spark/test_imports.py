"""Importing the analytics loads no drawing, no pandas and no other engine: these are imported where they are used."""

import subprocess
import sys

from tests.analytics.sources import ROOT

_SLOW = ("adbc_driver_sqlite", "boto3", "deltalake", "duckdb", "matplotlib", "pandas", "polars", "pyiceberg")


def test_slow_packages_are_not_imported_with_the_analytics() -> None:
    jobs = "analytics, analytics.audit, analytics.rebuilding, analytics.report, analytics.whatif"
    code = f"import sys, {jobs}, services.analytics.parts, tests.analytics.engines; print(*{{*{_SLOW}}} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
