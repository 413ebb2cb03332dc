"""From a URL to a log, or to a sentence."""

from pathlib import Path

import pytest

from eventlib.errors import WiringError
from eventlib.log.memory import MemoryLog
from eventlib.log.open import open_port
from eventlib.log.sqlite.log import SqliteLog


async def test_memory() -> None:
    log = await open_port("memory://")
    assert isinstance(log, MemoryLog)
    assert log.url == "memory://"
    await log.close()


async def test_a_relative_and_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = await open_port("sqlite:///var/shop.db")
    absolute = await open_port(f"sqlite:///{tmp_path}/var/shop.db")
    assert isinstance(relative, SqliteLog)
    assert relative.log_id == absolute.log_id
    assert relative.url == "sqlite:///var/shop.db"
    await relative.close()
    await absolute.close()


@pytest.mark.parametrize("url", ["", "shop.db", "var/shop.db", "sqlite:shop.db", "sqlite://shop.db", "sqlite:///"])
async def test_what_is_no_url_of_a_log(url: str) -> None:
    with pytest.raises(WiringError, match=r"sqlite:///relative/path\.db.*memory://"):
        await open_port(url)


async def test_an_unknown_scheme() -> None:
    with pytest.raises(WiringError, match="'postgres'"):
        await open_port("postgres://localhost/log")
