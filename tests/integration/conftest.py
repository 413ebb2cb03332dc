"""Fixtures of tests that run commands on a log."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventlib.cli import run
from tests.integration.shop_log import Objects, Print, fill
from tests.keycloak import Keycloak, running_keycloak


@pytest.fixture(scope="session")
def keycloak() -> Iterator[Keycloak]:
    """A Keycloak for all tests of a process: each makes realms of its own."""
    with running_keycloak() as found:
        yield found


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log with finished and parked sagas, which tests only read."""
    url = f"sqlite:///{tmp_path_factory.mktemp('log')}/shop.db"
    asyncio.run(fill(url))
    return url


@pytest.fixture
def shown(filled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Print:
    """Run a command on the log, and return what it prints."""
    monkeypatch.setenv("EVENTLIB_LOG", filled)
    monkeypatch.setenv("COLUMNS", "100")

    def show(*arguments: str, code: int = 0) -> str:
        assert run(arguments) == code
        out, err = capsys.readouterr()
        assert err == "" or code
        return out or err

    return show


@pytest.fixture
def objects(shown: Print) -> Objects:
    """Run a command with --json, and return the objects it prints."""

    def read(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in shown(*arguments, "--json").splitlines()]

    return read
