"""The compiled core: which modules `make wheel` compiles, and whether this process runs it (`make test-wheel` does)."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def sources() -> list[Path]:
    """Return the modules that are compiled."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [
        ROOT / name.lstrip("/")
        for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
    ]


def runs() -> bool:
    """Return whether this process runs the compiled core."""
    from eventlib.runtime import task

    return not task.__file__.endswith(".py")
