"""Every page that the project serves or writes is whole without an internet: it asks no other host for anything."""

import gzip
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from eventlib import open_log
from services import shop
from services.order.api import create_app
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.contract.registry_servers import registry

ROOT = Path(__file__).parents[2]
VENDORED = ROOT / "eventlib" / "swagger_ui"
REFERENCE = re.compile(
    r"""(?:src|href|action|poster|data)\s*=\s*["']([^"']*)["']|url\(\s*["']?([^"')]*)|@import\s+["']([^"']*)"""
)
PAGE = re.compile(rb"<!doctype html|<html\b|HTMLResponse|text/html", re.IGNORECASE)
KINDS = ("orders", "registry", "simulators")


@asynccontextmanager
async def client_of(kind: str, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        if kind == "registry":
            yield await stack.enter_async_context(registry())
            return
        if kind == "orders":
            app: FastAPI = create_app(await stack.enter_async_context(open_log("memory://", shop)))
        else:
            app = make_app(Simulators(stack.enter_context(Ledger(directory / "ledger.db")), ShopSettings()))
        transport = httpx.ASGITransport(app)
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://localhost"))


def references(page: str) -> list[str]:
    return [next(filter(None, found), "") for found in REFERENCE.findall(page)]


def is_outside(reference: str) -> bool:
    return (
        not reference.startswith("data:") and re.match(r"(?:[a-z][a-z+.-]*:)?//", reference, re.IGNORECASE) is not None
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_the_documentation_asks_no_other_host(kind: str, tmp_path: Path) -> None:
    async with client_of(kind, tmp_path) as client:
        page = await client.get("/docs")
        assert page.status_code == 200
        assert [each for each in references(page.text) if is_outside(each)] == []
        files = [each for each in references(page.text) if not each.startswith("data:")]
        assert sorted(each.rsplit(".", 1)[1] for each in files) == ["css", "js"]
        for file in files:
            got = await client.get(str(page.url.join(file)))
            assert got.content == (VENDORED / file.rsplit("/", 1)[1]).read_bytes()
        (described,) = re.findall(r"url: '([^']+)'", page.text)
        assert (await client.get(described)).json()["openapi"]
        assert '"validatorUrl": null' in page.text  # else the scripts ask a validator on the internet
        assert "default-src 'self'" in page.headers["content-security-policy"]  # whatever the scripts try
        assert (await client.get("/redoc")).status_code == 404


def test_no_other_code_makes_a_page() -> None:
    """A new page is added here, and has to be whole."""
    found = {
        str(path.relative_to(ROOT))
        for package in ("analytics", "eventlib", "services")
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".j2", ".html"} and PAGE.search(path.read_bytes())
    }
    assert found == {
        "analytics/reporting/page.html.j2",
        "eventlib/console/browser.py",
        "eventlib/console/rendering.py",
        "eventlib/console/templates/base.html",
        "eventlib/http/docs.py",
        "services/simulation/simulators.py",
    }  # the last a garbled answer
    templates = (ROOT / "eventlib" / "console" / "templates").iterdir()
    assert [each for page in templates for each in references(page.read_text()) if is_outside(each)] == []
    report = (ROOT / "analytics" / "reporting" / "page.html.j2").read_text()
    assert [each for each in references(report) if is_outside(each)] == []
    assert "<script src" not in report
    assert "<link" not in report


def test_an_application_of_fastapis_has_no_pages_of_its_own() -> None:
    for package in ("eventlib", "services"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            assert text.count("FastAPI(") == text.count("docs_url=None") == text.count("redoc_url=None"), path


@pytest.mark.parametrize("directory", ["eventlib/swagger_ui", "eventlib/console/htmx", "tests/console/axe"])
def test_what_is_vendored_is_what_was_pinned(directory: str) -> None:
    lines = (ROOT / directory / "files.lock").read_text().splitlines()
    pinned = {name: digest for digest, name in (line.split() for line in lines if line[0] != "#")}
    there = {path.name.removesuffix(".gz"): _digest(path) for path in (ROOT / directory).iterdir()}
    del there["files.lock"]
    assert there == pinned


def _digest(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha256(gzip.decompress(content) if path.suffix == ".gz" else content).hexdigest()


def test_what_is_vendored_asks_no_other_host() -> None:
    assert [each for each in references((VENDORED / "swagger-ui.css").read_text()) if is_outside(each)] == []
