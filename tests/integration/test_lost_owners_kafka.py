"""On a real broker: what ends its process, or blocks it for longer than the group waits, is parked, and others go on."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.queries.parked import parkings
from eventlib.replay import replay
from tests import forked
from tests.integration.losing_app import Asked, Over, app

PATIENCE_S = 240.0
OWNERS = 6
SETTINGS = {"EVENTLIB_KAFKA_SESSION_TIMEOUT_S": "2", "EVENTLIB_KAFKA_MAX_BLOCKED_S": "2"}


@pytest.fixture
def url(broker: Cluster) -> str:
    return f"{broker.url}/?prefix={token_hex(4)}."


@contextmanager
def owner(url: str, directory: Path) -> Iterator[None]:
    """Run a process that runs the service, or waits to do so."""
    environment = {**os.environ, **SETTINGS, "EVENTLIB_STATE_DIR": str(directory)}
    with forked.Popen(["python", "-m", "tests.integration.losing_app", url], env=environment) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("bad", [pytest.param("handler-segv", marks=pytest.mark.extended), "effect-block"])
async def test_what_processes_are_lost_with_alone_is_parked_by_the_sixth(url: str, bad: str, tmp_path: Path) -> None:
    async with open_log(url, app) as log, asyncio.timeout(PATIENCE_S):
        await log.publish_many([Asked(name=name) for name in ("good-1", bad, "good-2")])
        with ExitStack() as owners:
            for number in range(OWNERS):
                owners.enter_context(owner(url, tmp_path / str(number)))
            over = set[str]()
            while over != {"good-1", "good-2"}:
                ends = [log.decode(record) for record in await log.port.read("got", 0, 0, 100)]
                over = {each.name for each in ends if isinstance(each, Over)}
                await asyncio.sleep(0.2)
            while not (parked := await parkings(log)):
                await asyncio.sleep(0.2)
        assert [each.key for each in parked] == [bad]
        assert "its owner was lost 3 times while handling it alone" in parked[0].reason
        assert (await replay(log)).same
