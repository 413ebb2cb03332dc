"""A real browser, the console that it opens, and what every page has to keep to."""

import gzip
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eventlib import EventLog
from eventlib.analysis.connectors import Connector
from eventlib.config.console import ConsoleOptions
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.http.serving import Listening
from eventlib.identity import IdentityOptions

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_AXE = Path(__file__).parent / "axe" / "axe.min.js.gz"
_STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@asynccontextmanager
async def running_browser() -> "AsyncIterator[Browser]":
    """Start the machine's Chromium; nothing is downloaded."""

    from playwright.async_api import async_playwright

    options = ["--js-flags=--no-opt"]  # a page is there for a second: to optimize its scripts takes more than it saves
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def running_console(
    log: EventLog,
    identity: SessionIdentity | None = None,
    options: ConsoleOptions | None = None,
    port: int = 0,
    connectors: Sequence[Connector] = (),
) -> AsyncIterator[str]:
    """Serve the console on a log, by default without identity, and give its address."""
    identity = identity or SessionIdentity(IdentityOptions())
    with closing(Listening(str(port), identity=identity)) as listening:
        async with listening.serve(create_console(log, identity, options, connectors=connectors)):
            yield listening.url


class Visit:
    """A page of a browser that is watched: what it asked for, and what went wrong in it."""

    def __init__(self, context: "BrowserContext", page: "Page", url: str) -> None:
        self.context = context
        self.page = page
        self.url = url
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self._on_page: dict[str, Callable[[Any], None]] = {
            "console": self._on_console,
            "pageerror": lambda error: self.wrong.append(str(error)),
            "dialog": lambda dialog: self.wrong.append(f"dialog: {dialog.message}"),
        }
        context.on("request", self._on_request)
        for name, heard in self._on_page.items():
            page.on(name, heard)  # type: ignore[call-overload]  # its overloads name each event

    def leave(self) -> None:
        """Watch the page no longer."""
        self.context.remove_listener("request", self._on_request)
        for name, heard in self._on_page.items():
            self.page.remove_listener(name, heard)

    def _on_request(self, request: "Request") -> None:
        self.asked.append(request.url)

    def _on_console(self, message: "ConsoleMessage") -> None:
        if message.type in {"error", "warning"} and "the server responded with a status of" not in message.text:
            self.wrong.append(message.text)

    async def open(self, path: str) -> "Page":
        """Open a page, and wait until its parts are there."""
        await self.page.goto(f"{self.url}{path}")
        await self.settled()
        return self.page

    async def settled(self) -> None:
        """Wait until no part of the page is on its way."""
        await self.page.wait_for_function(
            "() => !document.querySelector('.htmx-request') && !document.querySelector('.htmx-settling')"
        )

    def check(self) -> None:
        """Check that nothing went wrong in the page, and that it asked no other host."""
        assert self.wrong == []
        assert [each for each in self.asked if not each.startswith((f"{self.url}/", "data:"))] == []

    async def findings(self, rule: str | None = None, result: str = "violations") -> Sequence[str]:
        """Return what axe-core finds wrong with the page as it is now, by all rules of the standards or by one.

        With the result `incomplete`, what it cannot decide; of texts in pictures it never knows the background.
        """
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(gzip.decompress(_AXE.read_bytes()).decode())
        # With the types of results named, it does not describe each element with which nothing is wrong: half its time.
        rules = f"{{type: 'rule', values: [{rule!r}]}}" if rule else repr(_STANDARDS)
        options = f"{{runOnly: {rules}, resultTypes: [{result!r}]}}"
        within = "{exclude: ['svg']}" if result == "incomplete" else "document"
        found: Any = await self.page.evaluate(f"axe.run({within}, {options}).then(found => found.{result})")
        return [
            f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for each in found
            for node in each["nodes"]
        ]


@asynccontextmanager
async def visiting(browser: "Browser", url: str, **options: Any) -> AsyncIterator[Visit]:
    """Open a window on a console, with cookies and a storage of its own; at its end, check that nothing went wrong in it.

    Windows of a usual kind are cleared and used again: a new one starts a process, which takes a second of a processor.
    """
    idle = _idle.setdefault(browser, []) if not options else []
    context = idle.pop() if idle else await browser.new_context(**({"viewport": DESKTOP} | options))
    try:
        visit = Visit(context, context.pages[0] if context.pages else await context.new_page(), url)
        yield visit
        visit.check()
    except BaseException:
        await context.close()
        raise
    if options:
        await context.close()
        return
    visit.leave()
    await _clear(context)
    idle.append(context)


DESKTOP: Any = {"width": 1400, "height": 900}
_idle: "WeakKeyDictionary[Browser, list[BrowserContext]]" = WeakKeyDictionary()


async def _clear(context: "BrowserContext") -> None:
    """Leave of a window what a new one has: an empty page of the usual size, no cookie, and an empty storage."""
    page, *others = context.pages
    for each in others:
        await each.close()
    await page.evaluate("{ localStorage.clear(); sessionStorage.clear() }")
    await page.goto("about:blank")
    await context.clear_cookies()
    await page.emulate_media(color_scheme="null")
    await page.set_viewport_size(DESKTOP)
