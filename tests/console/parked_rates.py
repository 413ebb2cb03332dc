"""A log with keys that are parked, and people who log in to look at it."""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eventlib import EventLog, open_log
from eventlib.identity import Role
from tests.console.browsers import Visit, running_console, visiting
from tests.console.rates_app import BROKEN, RateAsked, app
from tests.console.windows import token_of
from tests.handling import handle_all

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

NAMES = ("MT", "IS", "FO")


@contextmanager
def broken() -> Iterator[None]:
    os.environ[BROKEN] = "yes"
    try:
        yield
    finally:
        del os.environ[BROKEN]


async def settled(log: EventLog) -> None:
    await handle_all(log)


@asynccontextmanager
async def parked_log(directory: Path, names: Sequence[str] = NAMES) -> AsyncIterator[EventLog]:
    """A log on which keys are parked, the first of them with two inputs."""
    async with open_log(f"sqlite:///{directory}/log.db", app) as log:
        for number, name in enumerate((*names, *names[:1])):
            await log.publish(RateAsked(name=name, number=number))
        with broken():
            await settled(log)
        yield log


@asynccontextmanager
async def logged_in(
    browser: "Browser", log: EventLog, directory: Path, *roles: Role
) -> "AsyncIterator[tuple[Visit, Page]]":
    """A window on a console with an identity, after a login with these roles."""
    text, identity = token_of(directory, *roles)
    async with running_console(log, identity) as url, visiting(browser, url) as visit:
        page = await visit.open("/parked")
        assert page.url == f"{url}/login?next=/parked"
        await page.fill("#token", text)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{url}/parked")
        yield visit, page
