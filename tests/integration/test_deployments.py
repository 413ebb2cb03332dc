"""Deployments on the log: recorded once each, beside the services, and found again in sagas, whatever runs at the same time."""

import asyncio
import json
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.errors import LogDenied
from eventlib.log.open import open_port
from eventlib.operations import deployments as module
from eventlib.operations import parkings
from eventlib.operations.before_after import window_ms
from eventlib.operations.deployments import (
    Deployment,
    ServiceDeployment,
    deployments,
    record_deployments,
    recording,
    revision_of,
)
from eventlib.operations.shared_notes import SharedNotes
from eventlib.runtime import runtime as runtimes
from eventlib.search import SagaQuery, SagaSearch
from tests import forked
from tests.commands import ended, said
from tests.integration.parcels_app import APP, ParcelSubmitted
from tests.integration.parcels_log import FIRST, Carriers
from tests.integration.repository import Repository
from tests.saga.shop_runs import EVENTLIB
from tests.waiting import until

CODE = """
from dataclasses import dataclass
from eventlib import Choreography, Decider, Event, Service

class Asked(Event, topic="asked", key="name", request=True):
    name: str

class Counted(Event, topic="counted", key="name"):
    name: str

@dataclass(frozen=True)
class Count:
    asked: int = 0

counts = Decider("count", state=Count, key="name")

@counts.evolve
def evolve(count: Count, event: Event) -> Count:
    return count

@counts.on
def answer(count: Count, asked: Asked) -> list[Counted]:
    return [Counted(name=asked.name)]

APP = Choreography("counting", [Service("counter", deciders=[counts])])
"""
Run = Callable[..., "subprocess.Popen[str]"]


class Services:
    """Processes of `eventlib run`, each with the code of one version, on one log."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory, self.url = directory, url
        self.processes = list[subprocess.Popen[str]]()

    def start(self, version: int, *options: str, path: str = os.environ["PATH"]) -> "subprocess.Popen[str]":
        place = self.directory / str(version)
        place.mkdir(exist_ok=True)
        (place / "counting.py").write_text(CODE.replace("asked: int = 0", f"asked: int = {version}"))
        (place / "pyproject.toml").write_text('[tool.eventlib]\napp = "counting:APP"\n')
        command = [EVENTLIB, "run", "--log", self.url, *options]
        environment = {name: value for name, value in os.environ.items() if name not in module.REVISION_VARIABLES}
        output = (place / "stderr").open("a")
        process = forked.Popen(command, cwd=place, env=environment | {"PATH": path}, stderr=output, text=True)
        output.close()
        self.processes.append(process)
        return process

    def kill(self, process: "subprocess.Popen[str]", by: signal.Signals = signal.SIGKILL) -> None:
        process.send_signal(by)
        process.wait()

    async def found(self) -> list[Deployment]:
        port = await open_port(self.url)
        try:
            return await deployments(port)
        finally:
            await port.close()

    async def until_recorded(self, count: int) -> list[Deployment]:
        async def are_there() -> bool:
            assert self.processes[-1].poll() is None, [*self.directory.glob("*/stderr")][-1].read_text()
            return len(await self.found()) >= count

        await until(are_there, pause_s=0.1)
        return await self.found()

    async def until_running(self, version: int) -> None:
        stderr = self.directory / str(version) / "stderr"
        await until(lambda: self.processes[-1].poll() is not None or "Running " in stderr.read_text(), pause_s=0.05)


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.extended)])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Services]:
    kafka = request.param == "kafka"
    made = Services(tmp_path, request.getfixturevalue("kafka_url") if kafka else f"sqlite:///{tmp_path}/log.db")
    yield made
    for process in made.processes:
        made.kill(process)


async def test_two_versions_that_run_at_once_are_each_recorded_when_they_start(services: Services) -> None:
    services.start(1, "--revision", "r1")
    await services.until_recorded(1)
    second = services.start(2, "--revision", "r2")
    await services.until_recorded(2)
    services.kill(services.start(2, "--revision", "r2"), signal.SIGTERM)  # another process of the same code
    services.start(1, "--revision", "r1")  # one of the older code that is started again
    back, new, old = await services.until_recorded(3)
    assert [each.revision for each in (old, new, back)] == ["r1", "r2", "r1"]
    assert old.code_version == back.code_version != new.code_version
    assert [each.is_return for each in (old, new, back)] == [False, False, True]
    assert (old.before, new.before) == ({}, {"counter": old.code_version})
    services.kill(second)
    services.start(1, "--revision", "r3")  # the same code of another revision
    assert [each.revision for each in await services.until_recorded(4)] == ["r3", "r1", "r2", "r1"]
    printed = json.loads(said("deployments", "--log", services.url, "--json").splitlines()[0])
    assert (printed["revision"], printed["code_version"]) == ("r3", old.code_version)
    assert [each["service"] for each in printed["services"]] == ["counter"]
    status = json.loads(ended("status", "--log", services.url, "--json").stdout)
    assert status["deployments"]["counter"]["revision"] == "r3"
    assert f"deployed  counter: code {old.code_version}, revision r3" in ended("status", "--log", services.url).stdout
    assert f"{old.code_version} again" in said("deployments", "--log", services.url)


async def test_one_that_is_killed_before_it_has_recorded_is_recorded_by_the_next(services: Services) -> None:
    slow = services.directory / "bin"
    slow.mkdir()
    (slow / "git").write_text(
        f"#!/bin/sh\necho asked > {slow}/asked\nwhile kill -0 $PPID; do sleep 0.1; done 2>/dev/null\n"
    )
    (slow / "git").chmod(0o755)
    first = services.start(1, path=f"{slow}:{os.environ['PATH']}")
    await services.until_running(1)
    await until((slow / "asked").exists, pause_s=0.05)
    services.kill(first)
    assert await services.found() == []
    services.start(1)
    (found,) = await services.until_recorded(1)
    assert (found.services, found.revision, found.is_recorded) == (("counter",), "", True)


@asynccontextmanager
async def run_as(log: EventLog, version: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runtime]:
    monkeypatch.setattr(runtimes, "code_version", lambda _: version)
    async with Runtime(log, ports={"carrier": Carriers()}) as runtime, asyncio.timeout(60):
        yield runtime


def parcel(name: str, note: str | None) -> ParcelSubmitted:
    return ParcelSubmitted(parcel_id=name, packed_at=FIRST, note=note)


async def test_sagas_are_found_by_the_code_that_decided_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as log:
        async with run_as(log, "old", monkeypatch) as runtime:
            await runtime.idle()
            for name, note in (("done", None), ("parked", "bug"), ("away", "away")):
                await log.publish(parcel(name, note))
            await until(lambda: _has(log, "CarryRequested", 2))
            await until(lambda: _has(log, "ParcelDelivered", 1))
            await until(lambda: _is_parked(log))
        monkeypatch.setattr(Carriers, "carry", _delivered)
        async with run_as(log, "new", monkeypatch) as runtime:
            await log.publish(parcel("later", None))
            await until(lambda: _has(log, "ParcelDelivered", 3))
            said("parked", "retry", "--all", "--reason", "fixed", "--app", APP_NAME, "--log", log.port.url)
            await runtime.idle()
        async with SagaSearch(log) as search:
            assert await search.caught_up(60)

            async def found(where: str) -> set[str]:
                return {str(each["saga"]) for each in (await search.full_page(SagaQuery(where))).sagas}

            assert await found("code_version = 'old'") == {"done", "parked", "away"}
            assert await found("code_version = 'new'") == {"away", "later", "parked"}
            assert await found("code_version = 'old' and code_version = 'new'") == {"away", "parked"}
            assert await found("code_version != 'old'") == {"later"}
            assert await found("code_version in ('other', 'new')") == {"away", "later", "parked"}
            assert await found("code_version is null") == set()
            assert await found("code_version like 'n%' and outcome = 'parcel_delivered'") == {"away", "later"}


APP_NAME = "tests.integration.parcels_app:APP"


async def _delivered(self: Carriers, parcel_id: str, note: str | None) -> None:
    del self, parcel_id, note


async def _has(log: EventLog, kind: str, count: int) -> bool:
    records = [record for partition in range(2) for record in await log.port.read("parcels", partition, 0, 1_000)]
    return sum(record.type == kind for record in records) >= count


async def _is_parked(log: EventLog) -> bool:
    return bool(await parkings(log))


async def test_each_code_of_a_service_is_recorded_once_and_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter(range(1_000, 100_000))
    monkeypatch.setattr(module, "now_ms", lambda: next(now))
    monkeypatch.setattr(module, "_KEPT", 3)
    async with open_log("memory://", APP) as log:

        async def start(code: str, revision: str = "") -> list[str]:
            monkeypatch.setattr(module, "code_version", lambda _: code)
            return [each.code_version for each in await record_deployments(log, ["depot"], revision)]

        assert [await start("a"), await start("a"), await start("a", "r1")] == [["a"], [], ["a"]]
        assert [await start("a"), await start("b"), await start("b", "r2")] == [[], ["b"], ["b"]]
        assert [(each.code_version, each.revision) for each in await deployments(log.port)] == [
            ("b", "r2"),
            ("b", ""),
            ("a", "r1"),
        ]
        same = (await SharedNotes(log.port).all("deployment"))["depot/1005-b"]
        await SharedNotes(log.port).put("deployment", "depot/1006-b", {**same.value, "at_ms": 1_006, "more": 1}, "x")
        assert len(await deployments(log.port)) == 3, (
            "another process that started at the same time has recorded it, too"
        )


async def test_what_prevents_a_record_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def denied(*_: object) -> None:
        raise LogDenied("topic _operations may not be written")

    monkeypatch.setattr(SharedNotes, "put", denied)
    async with open_log("memory://", APP) as log:
        with caplog.at_level(logging.WARNING):
            await recording(log, ["depot"], "r1", tmp_path)
    assert caplog.messages == ["this deployment is not recorded on the log: topic _operations may not be written"]


async def test_a_revision_is_that_of_the_ci_system_or_of_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    assert await revision_of(tmp_path / "bare", {}) == ""
    assert await revision_of(tmp_path / "missing", {}) == ""
    repository = Repository(tmp_path / "mine")
    clean = await revision_of(repository.directory, {})
    assert len(clean) == 40
    (repository.directory / "pyproject.toml").write_text("")
    assert await revision_of(repository.directory, {}) == f"{clean}-dirty"
    assert await revision_of(repository.directory, {"CI_COMMIT_SHA": "abc", "GITHUB_SHA": " "}) == "abc"


def test_a_window_has_no_other_deployment_of_its_services_in_it() -> None:
    def at(at_ms: int, *services: str) -> Deployment:
        return Deployment(tuple(ServiceDeployment(each, "c", at_ms) for each in services), {})

    chosen = at(10_000, "a", "b")
    assert window_ms(chosen, [chosen], 5_000, 100_000) == 5_000
    assert window_ms(chosen, [chosen], 5_000, 11_000) == 1_000
    assert window_ms(chosen, [at(7_000, "b"), chosen, at(14_000, "a")], 5_000, 100_000) == 3_000
    assert window_ms(chosen, [at(9_000, "c"), chosen], 5_000, 100_000) == 5_000


@pytest.mark.parametrize("odd", [7, {"service": "order"}, {"service": "order", "code_version": "v", "at_ms": "soon"}])
async def test_a_note_of_something_else_is_in_the_way_of_no_deployment(
    tmp_path: Path, odd: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as log:
        await SharedNotes(log.port).put("deployment", "order/odd", odd, "eve")
        (recorded,) = await record_deployments(log, ["order"], "r1")
        assert [each.services for each in await deployments(log.port)] == [(recorded.service,)]
    assert "_operations: deployment/order/odd is not a deployment, and is left out" in caplog.text
