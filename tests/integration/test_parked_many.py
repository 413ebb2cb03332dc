"""Many parked keys are retried by two at once while the services are killed: every event once, and in order."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest

from eventlib import Publication, RuntimeConfig, open_log
from eventlib.queries.parked import parkings
from eventlib.replay import replay
from tests import forked
from tests.handling import handle_all
from tests.integration.parked_app import BUG, DIES_AT, ExternalStates, Heard, app

PATIENCE_S = 120
BEHIND = 5
APP = "tests.integration.parked_app:app"


async def park(url: str, keys: int, state_dir: Path) -> None:
    """Let a service with a bug park so many keys, with what comes later for them."""
    told = [ExternalStates(name=f"k{n}", number=number) for number in range(BEHIND + 1) for n in range(keys)]
    async with open_log(url, app) as log:
        await log.publish_many([Publication(event) for event in told])
        await handle_all(log, config=RuntimeConfig(state_dir=str(state_dir)))
        found = await parkings(log)
        assert {each.key for each in found} == {f"k{n}" for n in range(keys)}
        assert {each.waiting for each in found} == {BEHIND + 1}
        assert {each.reason for each in found} >= {"KeyError: 'no rate for k0'"}


def eventlib(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", "from eventlib.cli import main; main()", *arguments, "--app", APP, "--log", url]


@contextmanager
def process(url: str, environment: Mapping[str, str], *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = eventlib(url, *arguments)
    started = forked.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


async def check(url: str, keys: int) -> None:
    async with open_log(url, app) as log:
        assert await parkings(log) == []
        records = [r for p in range(4) for r in await log.port.read("heard", p, 0, 100_000)]
        assert len({record.event_id for record in records}) == len(records) == keys * (BEHIND + 1)
        heard = [event for _, event in await log.decode_many(records)]
        events = sorted((event for event in heard if isinstance(event, Heard)), key=lambda event: event.name)
        for _, of_key in groupby(events, key=lambda event: event.name):
            assert [(event.number, event.before) for event in of_key] == [(n, n) for n in range(BEHIND + 1)]
        report = await replay(log)
        assert report.same, report.first


def retried_while_killed(url: str, keys: int, state_dir: Path, kills: int) -> None:
    """Let two retry everything at once, while the services are killed so often, and one of the two once."""
    environment = {"EVENTLIB_STATE_DIR": str(state_dir)}
    some = str(keys * (BEHIND + 1) // (kills + 1))
    retry = ["parked", "retry", "--all", "--reason-matches", "no rate", "--json", "--wait", "60"]
    with process(url, environment, *retry) as one, process(url, environment, *retry) as two:
        for _ in range(kills):
            with process(url, {**environment, DIES_AT: some}, "run") as services:
                assert services.wait(PATIENCE_S) == -signal.SIGKILL
            one.kill()
        with process(url, environment, "run"), process(url, environment, *retry) as once_more:
            for retrier in (two, once_more):
                out, _ = retrier.communicate(timeout=PATIENCE_S)
                assert retrier.returncode == 0
                assert {json.loads(line)["outcome"] for line in out.splitlines()} <= {"handled"}


def many(url: str, size: tuple[int, int], state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, kills = size
    monkeypatch.setenv(BUG, "1")
    asyncio.run(park(url, keys, state_dir))
    monkeypatch.delenv(BUG)
    retried_while_killed(url, keys, state_dir, kills)
    asyncio.run(check(url, keys))


@pytest.mark.extended
def test_a_thousand_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many(f"sqlite:///{tmp_path}/log.db", (1_000, 2), tmp_path / "state", monkeypatch)


@pytest.mark.extended
def test_some_keys_on_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka_url: str) -> None:
    many(kafka_url, (40, 1), tmp_path / "state", monkeypatch)
