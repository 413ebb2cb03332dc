"""The documentation's pages and the notebook about the analytics run from top to end, and show what is true."""

import json
import shutil
from pathlib import Path

import pytest

from analytics.cli import run
from tests.documented import read_page
from tests.integration.test_docs import DOCS, WITH_SPARK
from tests.notebooks import run_notebook


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", WITH_SPARK)
def test_a_page_runs_from_its_top_to_its_end(page: str, tmp_path: Path) -> None:
    read_page(DOCS / page, tmp_path, {"python -m analytics ": run})


ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "docs/notebooks/what-sagas-wait-for.ipynb").read_text(encoding="utf-8"))


@pytest.mark.extended
@pytest.mark.usefixtures("spark")
def test_it_shows_what_open_sagas_wait_for(shop_log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "var").mkdir()
    shutil.copy(shop_log.removeprefix("sqlite:///"), tmp_path / "var" / "shop.db")
    for part in ("pyproject.toml", "services"):
        (tmp_path / part).symlink_to(ROOT / part)
    monkeypatch.chdir(tmp_path)
    cells = run_notebook(NOTEBOOK)
    assert len(cells) == 10
    (waiting,) = cells[5]
    assert "<svg" in "".join(waiting["data"]["text/html"])
    assert "effect:" in "".join(waiting["data"]["text/html"])
    assert "OrderSubmitted" in "".join(cells[-1][0]["data"]["text/html"])
