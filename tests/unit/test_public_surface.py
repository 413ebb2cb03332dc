"""What is public, and who may use more: a name that goes, or comes, is a decision."""

import ast
import importlib
from pathlib import Path

import pytest

import eventlib

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "eventlib": 30,
    "eventlib.command_line": 18,
    "eventlib.config": 6,
    "eventlib.external": 3,
    "eventlib.http": 37,
    "eventlib.identity": 15,
    "eventlib.invariants": 8,
    "eventlib.json_form": 3,
    "eventlib.limits": 1,
    "eventlib.live": 11,
    "eventlib.operations": 4,
    "eventlib.outbox": 4,
    "eventlib.personal": 6,
    "eventlib.queries": 13,
    "eventlib.search": 5,
    "eventlib.simulation": 4,
    "eventlib.sinks": 3,
    "eventlib.spi": 14,
    "eventlib.testing": 4,
    "eventlib.values": 11,
    "eventlib.webhooks": 10,
}
"""The public modules beside `eventlib.errors`, and how many names each has."""

PURE = {
    "Aliases", "Decider", "Event", "FOREVER", "Meta", "Money", "Retry", "SagaState", "SagaStates", "Service", "Topic", "replace",
    "Units", "unknown_is", "upcasts", "wire_name",
}  # fmt: skip
"""The names that decide and declare: what a decider's module may take from `eventlib`, since none does I/O."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_says_what_it_has(name: str) -> None:
    module = importlib.import_module(name)
    names = module.__all__
    assert len(names) == len(set(names)) == PUBLIC[name]
    assert sorted(names, key=lambda each: (not each.isupper(), each)) == [*names]
    for each in names:
        assert getattr(module, each) is not None


def test_there_are_thirty_names_at_most_that_a_service_is_written_with() -> None:
    assert len(eventlib.__all__) <= 30


def imports_of(file: Path) -> dict[str, set[str]]:
    """Return the names that a file takes from each module of the library."""
    found = dict[str, set[str]]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "eventlib":
            found.setdefault(node.module or "", set()).update(each.name for each in node.names)
    return found


@pytest.mark.parametrize("file", [*(ROOT / "examples").rglob("*.py"), *(ROOT / "eventlib/cli/skeleton").rglob("*.py")])
def test_examples_and_new_services_use_what_is_public(file: Path) -> None:
    assert imports_of(file).keys() <= {*PUBLIC, "eventlib.errors"}


@pytest.mark.parametrize("file", [*(ROOT / "services").glob("*/decider.py"), *(ROOT / "services").glob("*/events.py")])
def test_deciders_and_events_take_only_what_is_pure(file: Path) -> None:
    assert imports_of(file).get("eventlib", set()) <= PURE
