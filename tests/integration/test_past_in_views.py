"""An effect that waits since it follows from the past: each view says so with the command, until it has run."""

import asyncio
from pathlib import Path

import pytest

from eventlib import Runtime, open_log
from eventlib.cli import run
from eventlib.operations.status import Limits, StatusReader, complaints
from eventlib.queries.parked import Parking, parkings
from eventlib.search import SagaQuery, SagaSearch
from tests.integration.past_app import APP, Left, fill, served

WHY = "it follows from what was recorded before the first start of service host"
STOPPED = Limits(may_stop=True)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/log.db"
    asyncio.run(fill(url, "Ada L"))
    return url


async def _parked(url: str) -> tuple[Parking, list[str]]:
    async with open_log(url, APP, read_only=True) as log:
        (parking,) = await parkings(log)
        return parking, complaints(await StatusReader(log).read(), STOPPED)


def test_each_view_of_the_saga_says_so_until_it_has_run(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVENTLIB_STATE_DIR", str(tmp_path))
    where = ["--app", "tests.integration.past_app:APP", "--log", url]

    def said(*command: str) -> str:
        run([*command, *where])
        return " ".join(capsys.readouterr().out.split())

    views = [("saga", "Ada L"), ("saga", "Ada L", "--tree"), ("sagas", "list"), ("status", "--allow-stopped")]
    parking, complained = asyncio.run(_parked(url))
    assert complained == ["1 parked: `eventlib parked list`"]
    command = f"eventlib parked retry visit {parking.id}"
    for view in views:
        assert WHY in said(*view), view
        assert command in said(*view), view

    asyncio.run(served(url, Left(name="Ada L")))
    assert asyncio.run(_parked(url))[1] == [], "it holds nothing up any more"
    for view in views:
        assert command in said(*view), view
    assert run(["status", "--allow-stopped", *where]) == 0
    capsys.readouterr()

    asyncio.run(_retried(url, command, where))
    for view in views:
        assert WHY not in said(*view), view


async def _retried(url: str, command: str, where: list[str]) -> None:
    async with open_log(url, APP) as log, Runtime(log), asyncio.timeout(60):
        code = await asyncio.to_thread(run, [*command.split()[1:], "--wait", "30", *where])
        assert code == 0


async def test_a_search_finds_the_command_of_a_saga_that_has_ended(url: str, tmp_path: Path) -> None:
    await served(url, Left(name="Ada L"))
    async with (
        open_log(url, APP, read_only=True) as log,
        SagaSearch(log, path=tmp_path / "sagas.db") as search,
    ):
        assert await search.caught_up(10)
        (saga,) = (await search.page(SagaQuery("status = 'ended'"))).sagas
        (parking,) = await parkings(log)
        assert [(each["kind"], each["command"]) for each in saga["waits"]] == [("parked", parking.command)]
