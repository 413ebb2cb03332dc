"""Draws the packages of the library from its code: `python -m tests.house` writes docs/explanation/house.md and its picture."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from xml.sax.saxutils import escape

from tests.api_names import renewed

ROOT = Path(__file__).parents[1] / "eventlib"
PAGE = ROOT.parent / "docs/explanation/house.md"
PICTURE = PAGE.with_suffix(".svg")
_WIDTH, _STOREY, _BOX, _GAP = 840, 36, 26, 8


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the modules that code imports, late imports too; those for type checkers alone do not count."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for other in node.orelse:
            yield from imports_of(other)
        return
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from [node.module] if node.module != "eventlib" else [f"eventlib.{name.name}" for name in node.names]
    elif isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child)


@cache
def packages() -> Mapping[str, frozenset[str]]:
    """Return the packages and single modules at the top of the library, each with those that it imports."""
    needs = dict[str, set[str]]()
    for file in ROOT.rglob("*.py"):
        package = file.relative_to(ROOT).parts[0].removesuffix(".py")
        if package.startswith("__"):
            continue
        names = [name.split(".") for name in imports_of(ast.parse(file.read_text(encoding="utf-8")))]
        needs.setdefault(package, set()).update(name[1] for name in names if name[0] == "eventlib" and len(name) > 1)
    return {package: frozenset(needed & needs.keys() - {package}) for package, needed in needs.items()}


def cycle_of(needs: Mapping[str, frozenset[str]]) -> str:
    """Return a cycle as `a → b → a`, or an empty text."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def storeys() -> list[list[str]]:
    """Return the packages by storeys, the lowest first: each imports only packages of storeys below its own."""
    sorter, found = TopologicalSorter(packages()), list[list[str]]()
    sorter.prepare()
    while ready := sorter.get_ready():
        found.append(sorted(ready))
        sorter.done(*ready)
    return found


def docstring(package: str) -> str:
    """Return what a package says of itself."""
    home = ROOT / package / "__init__.py"
    file = home if home.exists() else ROOT / f"{package}.py"
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def picture() -> str:
    """Return the storeys as SVG, which follows the colours of the page that shows it."""
    floors = storeys()
    height = len(floors) * _STOREY + _GAP
    shapes = list[str]()
    for number, names in enumerate(reversed(floors)):
        top = _GAP + number * _STOREY
        width = (_WIDTH - _GAP) / len(names) - _GAP
        for place, name in enumerate(names):
            left = _GAP + place * (width + _GAP)
            shapes += [
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BOX}" rx="4" />',
                f'<text x="{left + width / 2:.1f}" y="{top + 18}">{escape(name)}</text>',
            ]
    style = (
        "rect{fill:#e8eaf6;stroke:#3f51b5}text{font:13px sans-serif;text-anchor:middle;fill:#1a237e}"
        "@media(prefers-color-scheme:dark){rect{fill:#1f2347;stroke:#9fa8da}text{fill:#e8eaf6}}"
    )
    title = "The packages of eventlib: each imports only packages of storeys below its own."
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{style}</style>",
        *shapes,
        "</svg>\n",
    ])  # fmt: skip


def table() -> str:
    """Return what each package is for, from the top storey down, as Markdown."""
    lines = ["| package | what it is for, what it knows, and where to begin |", "|---|---|"]
    for names in reversed(storeys()):
        for name in names:
            text = " ".join(docstring(name).split()).replace("|", "\\|")
            lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with its table as the code has it now."""
    return renewed(PAGE.read_text(encoding="utf-8"), {"packages": table()})


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
