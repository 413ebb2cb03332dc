"""What the tests of the console share: a browser, and for each of their modules a console on the shop's log."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from eventlib import EventLog, open_log
from eventlib.analysis.connectors import Connector
from services import shop
from services.order.events import OrderCompleted, OrderPlaced
from tests.console.browsers import CHROMIUM, running_browser, running_console
from tests.console.windows import Window, opened
from tests.integration.shop_log import fill

if TYPE_CHECKING:
    from playwright.async_api import Browser

CONNECTORS = [
    Connector("sink", "reports", (OrderPlaced,), tables=1),
    Connector("webhook", "billing", (OrderPlaced, OrderCompleted), {"country": "France"}),
]
"""What takes the shop's events beside its services."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need a browser where there is none."""
    for item in items:
        if "tests/console/" in item.nodeid:
            item.add_marker(pytest.mark.heavy)
            if CHROMIUM is None and "browser" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip("there is no Chromium here: `make setup-browser` installs it"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> "AsyncIterator[Browser]":
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the shop's log: sagas that have completed, were declined, wait, and are parked."""
    directory = tmp_path_factory.mktemp("shop")
    await fill(f"sqlite:///{directory}/log.db")
    return directory


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def log(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EventLog]:
    """A copy of the shop's log for each module."""
    copy = shutil.copytree(filled, tmp_path_factory.mktemp("copies") / "shop")
    async with open_log(f"sqlite:///{copy}/log.db", shop) as log:
        yield log


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(log: EventLog) -> AsyncIterator[str]:
    async with running_console(log, connectors=CONNECTORS) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def window(log: EventLog) -> AsyncIterator[Window]:
    async with opened(log, connectors=CONNECTORS) as window:
        yield window
