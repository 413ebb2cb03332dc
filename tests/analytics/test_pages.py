"""The documentation's pages and the notebook about the analytics run from top to end, and show what is true."""

import ast
import json
import shutil
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from analytics.cli import run
from tests.documented import read_page
from tests.integration.test_docs import DOCS, WITH_SPARK

Json = dict[str, Any]


def run_notebook(notebook: Json) -> list[list[Json]]:
    """Run the code cells one after the other, as a kernel does, and return each one's outputs."""
    names = dict[str, Any]()
    return [_run(_source(cell), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _source(cell: Json) -> str:
    return "".join(cell["source"])


def _run(source: str, names: dict[str, Any]) -> list[Json]:
    """Run one cell; the value of its last line is shown."""
    cell, printed, value = ast.parse(source), StringIO(), None
    last = cell.body.pop() if cell.body and isinstance(cell.body[-1], ast.Expr) else None
    with redirect_stdout(printed):
        exec(compile(cell, "<cell>", "exec"), names)  # noqa: S102  a notebook is code
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307  as above
    outputs = list[Json]()
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_") and (html := value._repr_html_()):
            shown["text/html"] = _lines(html)
        outputs.append({"data": shown, "metadata": {}, "output_type": "display_data"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write_outputs(path: Path) -> None:
    """Run a notebook, and put what its cells show into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, run_notebook(notebook), strict=True), 1):
        cell |= {"outputs": outputs, "execution_count": number}
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1]))


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
