"""What README and the docs show is true: their Python runs, and README's service is the example that is tested."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
BLOCKS = PYTHON.findall((ROOT / "README.md").read_text())


LOYALTY = next(block for block in BLOCKS if block.startswith('"""Loyalty'))


def test_the_service_is_the_example() -> None:
    assert (ROOT / "examples" / "loyalty.py").read_text() == LOYALTY


def test_the_code_runs() -> None:
    for block in BLOCKS:
        if block == LOYALTY:
            continue
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102  our own text, as a reader would run it


def test_the_code_of_the_docs_runs() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert pages
    for page in pages:
        for block in PYTHON.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, page.name, "exec"), {"__name__": "docs"})  # noqa: S102  as above
