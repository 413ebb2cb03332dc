"""Packages and modules of the library form no cycle; each package says what it is for; the picture of them is current."""

import ast
import re
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from tests.house import PAGE, PICTURE, ROOT, cycle_of, docstring, imports_of, packages, page, picture


def test_packages_form_no_cycle() -> None:
    assert len(packages()) > 20
    assert cycle_of(packages()) == ""


def test_a_cycle_is_found_and_printed() -> None:
    needs = {"model": frozenset({"log"}), "log": frozenset({"ground", "model"})}
    assert cycle_of(needs) in {"model → log → model", "log → model → log"}


def test_an_import_within_a_function_counts_and_one_for_type_checkers_does_not() -> None:
    code = "if TYPE_CHECKING:\n    from eventlib.log import open\ndef f():\n    from eventlib.runtime.task import Task"
    assert [*imports_of(ast.parse(code))] == ["eventlib.runtime.task"]


@pytest.mark.parametrize("package", sorted(home.parent.name for home in ROOT.glob("*/__init__.py")))
def test_a_package_says_what_it_is_for_what_it_knows_and_where_to_begin(package: str) -> None:
    text = docstring(package)
    assert re.search(r"\bknows\b", text), text
    begin = text.partition("Begin with ")[2]
    names = re.findall(r"`([a-z_]+)`", begin)
    assert names
    for name in names:
        assert (ROOT / package / f"{name}.py").exists() or (ROOT / package / name).is_dir(), name


def test_the_picture_of_the_house_is_as_the_code_has_it() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "python -m tests.house renews it"
    assert picture() == PICTURE.read_text(encoding="utf-8"), "python -m tests.house renews it"


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("eventlib", cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
