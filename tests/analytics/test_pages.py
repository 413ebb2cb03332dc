"""What the documentation shows of the analytics' tables is true; the commands share the tests' session of Spark."""

from pathlib import Path

import pytest

from analytics.cli import run
from tests.documented import read_page
from tests.integration.test_docs import DOCS, WITH_SPARK


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", [pytest.param(WITH_SPARK[0], marks=pytest.mark.extended), WITH_SPARK[1]])
def test_a_page_runs_from_its_top_to_its_end(page: str, tmp_path: Path) -> None:
    read_page(DOCS / page, tmp_path, {"python -m analytics ": run})
