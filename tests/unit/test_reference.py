"""The reference has every public name, command, setting and metric, as the code has them."""

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from eventlib import errors
from tests.api_names import API, BLOCK, listed, renewed
from tests.reference_pages import REFERENCE, generated

PAGES = sorted(path.stem for path in (REFERENCE / "api").glob("*.md") if path.stem != "index")
ERRORS = [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)]


def module_of(page: str) -> str:
    return page if page == "eventlib" else f"eventlib.{page}"


def test_every_public_module_has_a_page() -> None:
    from tests.unit.test_public_surface import PUBLIC

    assert {module_of(page) for page in PAGES} == {*PUBLIC, "eventlib.errors", "eventlib.replay"}
    index = (REFERENCE / "api/index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+)\.md\)", index)) == {*PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_every_public_name_has_its_directive(page: str) -> None:
    module = module_of(page)
    names = [*ERRORS, "is_final"] if page == "errors" else importlib.import_module(module).__all__
    text = (REFERENCE / f"api/{page}.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: (\S+)$", text, re.MULTILINE)) == sorted(path_of(module, name) for name in names)


def path_of(module: str, name: str) -> str:
    """Return how a directive names it: a name that a module below has as well needs that module's path."""
    package = importlib.import_module(module)
    found = getattr(package, name)
    is_hidden = hasattr(package, "__path__") and find_spec(f"{module}.{name}") is not None
    return f"{found.__module__}.{name}" if is_hidden else f"{module}.{name}"


@pytest.mark.parametrize("page", ["acts.md", "cli.md", "settings.md", "metrics.md", "roles.md"])
def test_generated_parts_are_as_the_code_has_them(page: str) -> None:
    text, blocks = (REFERENCE / page).read_text(encoding="utf-8"), generated()[page]
    assert sorted(BLOCK.findall(text)) == sorted(blocks)
    assert renewed(text, blocks) == text, "renew it: python -m tests.reference_pages"


@pytest.mark.parametrize("page", sorted(path.relative_to(REFERENCE) for path in REFERENCE.rglob("*.md")))
def test_links_between_reference_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)", (REFERENCE / page).read_text(encoding="utf-8")):
        target = ((REFERENCE / page).parent / link).resolve()
        assert target.is_file() or not target.is_relative_to(REFERENCE), link


def test_the_page_of_public_names_is_as_the_source_has_them() -> None:
    text = (API.parent / "names.md").read_text(encoding="utf-8")
    blocks = listed()
    assert sorted(BLOCK.findall(text)) == sorted(blocks)
    assert renewed(text, blocks) == text, "renew it: python -m tests.api_names"


def test_each_name_has_its_signature_and_its_first_sentence() -> None:
    blocks = listed()
    assert "- `Units(name: str)`: Marks a field that counts something" in blocks["eventlib"]
    assert (
        "    - `follows(*event_types: type[Event]) -> None`: Declare events that only change the state"
        in blocks["eventlib"]
    )
    assert "- `FOREVER`: For compensations: they do not give up." in blocks["eventlib"]
    assert "- `is_final(error: BaseException) -> bool`: Return whether no retry helps" in blocks["errors"]
