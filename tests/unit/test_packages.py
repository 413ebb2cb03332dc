"""Packages of the library form no cycle, late imports included; and each says what it is for."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "eventlib"


def cycle_of(needs: Mapping[str, set[str]]) -> str:
    """Return a cycle as `a → b → a`, or an empty text."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return " → ".join(reversed(error.args[1]))
    return ""


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the modules that code imports, wherever it does, but for type checkers alone."""
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


def packages() -> dict[str, set[str]]:
    """Return the packages and single modules at the top of the library, and those that each one imports."""
    needs = dict[str, set[str]]()
    for file in ROOT.rglob("*.py"):
        package = file.relative_to(ROOT).parts[0].removesuffix(".py")
        names = [name.split(".") for name in imports_of(ast.parse(file.read_text(encoding="utf-8")))]
        needs.setdefault(package, set()).update(
            name[1] for name in names if name[0] == "eventlib" and len(name) > 1 and name[1] != package
        )
    return needs


def test_packages_form_no_cycle() -> None:
    needs = packages()
    assert len(needs) > 20
    assert cycle_of({name: needed & needs.keys() for name, needed in needs.items() if name != "__init__"}) == ""


def test_a_cycle_is_found_and_printed() -> None:
    assert cycle_of({"model": {"log"}, "log": {"ground", "model"}}) in {"model → log → model", "log → model → log"}


def test_an_import_within_a_function_counts_and_one_for_type_checkers_does_not() -> None:
    code = "if TYPE_CHECKING:\n    from eventlib.log import open\ndef f():\n    from eventlib.runtime.task import Task"
    assert [*imports_of(ast.parse(code))] == ["eventlib.runtime.task"]


@pytest.mark.parametrize("package", sorted(path.parent.name for path in ROOT.glob("*/__init__.py")))
def test_a_package_says_what_it_is_for(package: str) -> None:
    said = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert said, f"eventlib/{package}/__init__.py has no docstring"
