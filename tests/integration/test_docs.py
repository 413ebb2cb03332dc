"""What the documentation shows is true: its Python runs, its commands print what stands under them, its links lead somewhere."""

import os
import re
from pathlib import Path

import pytest

from tests.documented import ROOT, RUN, blocks, matches, read_page, session
from tests.postgres import PASSWORD, Postgres

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FOLDERS = ("index.md", "tutorials/", "how-to/")
"""Pages for a reader at a keyboard: every command on them is run, or says why it is not."""

WITH_SPARK = ("how-to/open-tables.md", "how-to/tables-and-reports.md")
"""Their commands are run in the process that has a session of Spark: tests/analytics/test_pages.py."""

WITH_POSTGRES = ("how-to/publish-from-a-database.md", "how-to/write-into-a-database.md")
"""Their commands are run beside a server, whose address stands for the one that they show."""

EXTENDED = (
    "how-to/a-handler-that-fails.md",
    "how-to/ask-in-sql.md",
    "how-to/pause.md",
    "how-to/prove-a-change.md",
    "how-to/send-webhooks.md",
    "how-to/what-if.md",
    "tutorials/from-laptop-to-kafka.md",
)
"""They take the longest; other tests of the same commands take a part of that."""

NO_RUN = {
    "README.md": ["installs a package"],
    "index.md": ["installs a package"],
    "how-to/debug-a-payment.md": ["is a conversation with a debugger"],
    "how-to/identity.md": ["a server that stays", "needs an issuer", "needs a proxy"],
    "how-to/open-tables.md": ["needs a bucket", "needs a bucket"],
    "how-to/operate.md": ["needs a service that has lost inputs", "needs Docker", "needs a Kubernetes cluster"],
    "tutorials/first-service.md": ["installs a package"],
    "tutorials/from-laptop-to-kafka.md": ["installs a package"],
}
"""Why blocks are not run, page by page."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def marks(page: Path) -> list[pytest.MarkDecorator]:
    costly = [pytest.mark.extended] if name(page) in EXTENDED else []
    return [pytest.mark.heavy, *costly] if "eventlib broker start" in page.read_text(encoding="utf-8") else costly


def pages() -> list[object]:
    return [
        pytest.param(page, id=name(page), marks=marks(page))
        for page in PAGES
        if any(block.runs for block in blocks(page)) and name(page) not in (*WITH_SPARK, *WITH_POSTGRES)
    ]


@pytest.mark.parametrize("page", pages())
def test_a_page_runs_from_its_top_to_its_end(page: Path, tmp_path: Path) -> None:
    read_page(page, tmp_path, forks=True)


@pytest.mark.extended
@pytest.mark.parametrize("page", WITH_POSTGRES)
def test_a_page_about_a_database_runs(
    page: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PATH", f"{postgres.programs}:{os.environ['PATH']}")
    instead = dict[str, str]()
    for shown in ("checkout", "reports"):
        there, _, database = postgres.new_database().removeprefix("postgresql://").rpartition("/")
        instead[f"shop@db/{shown}"] = f"{there}/{database}"
        instead[f"://db/{shown}"] = f"://{there.rpartition('@')[2]}/{database}"
    read_page(DOCS / page, tmp_path, instead=instead, forks=True)


def test_what_is_shown_of_examples_is_all_of_them() -> None:
    for page, example in (
        ("add-a-service-to-a-log.md", "loyalty.py"),
        ("publish-from-a-database.md", "checkout.py"),
        ("write-into-a-database.md", "credit.py"),
        ("write-into-a-database.md", "desk/inbox.py"),
    ):
        shown = [block.text for block in blocks(ROOT / "docs" / "how-to" / page)]
        assert (ROOT / "examples" / example).read_text() in shown


def test_what_is_shown_of_a_part_of_an_example_is_that_part() -> None:
    shown, *_ = blocks(ROOT / "docs" / "how-to" / "go-on-after-the-end.md")
    _imports, _, decider = shown.text.partition("@dataclass")
    assert "@parcels.forget" in decider
    assert decider in (ROOT / "examples" / "parcels.py").read_text()


def test_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_what_is_not_run_is_known_and_says_why() -> None:
    skipped = {name(page): [block.no_run for block in blocks(page) if block.no_run] for page in PAGES}
    assert {page: reasons for page, reasons in skipped.items() if reasons} == NO_RUN


def test_a_shell_block_is_a_console_block() -> None:
    for page in PAGES:
        if page.name == "README.md" or name(page).startswith(FOLDERS):
            kinds = {block.language for block in blocks(page) if not block.title}
            assert kinds <= {*RUN, "text", "json", "yaml"}, page


def test_links_between_pages_lead_to_pages() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{name(page)}: {link}"


def test_the_runner_tells_what_is_shown_from_what_is_printed() -> None:
    assert matches("one\n...\nthree", "one\ntwo\n2\nthree")
    assert matches("id ... of 12:00:01", "id 7 of 13:59:59.123")
    assert not matches("one\nthree", "one\ntwo\nthree")
    assert not matches("one", "")
    assert session("$ echo a \\\n  b\na b\n$ true\n") == [("echo a \\\n  b", "a b\n"), ("true", "")]
