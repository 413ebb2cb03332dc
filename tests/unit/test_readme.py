"""What README shows is true: its Python runs, and its service is the example that is tested."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


LOYALTY = next(block for block in BLOCKS if block.startswith('"""Loyalty'))


def test_the_service_is_the_example() -> None:
    assert (ROOT / "examples" / "loyalty.py").read_text() == LOYALTY


def test_the_code_runs() -> None:
    for block in BLOCKS:
        if block == LOYALTY:
            continue
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102  our own text, as a reader would run it
