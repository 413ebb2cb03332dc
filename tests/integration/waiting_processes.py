"""Services and commands that wait at their start: in this process, and in processes of their own."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from eventlib import RuntimeConfig
from eventlib.cli.run_process import Running, Tuning, serve_until
from eventlib.devtools.kafka.config import HOST
from eventlib.telemetry.options import telemetry_options
from services import shop
from tests import forked
from tests.ports import free_port
from tests.saga.shop_runs import ROOT

PATIENCE_S = 120.0
EVENTLIB = (sys.executable, "-m", "eventlib")


class Served:
    """`eventlib run` in this process, and what it answers."""

    def __init__(self, url: str, port: int, task: "asyncio.Task[None]", client: httpx.AsyncClient) -> None:
        self.url = url
        self.task = task
        self._at = f"http://{HOST}:{port}"
        self._client = client

    async def answers(self, path: str, status: int, *wanted: str) -> str:
        """Wait until it answers with a status, and with this in it; return the answer."""
        last, deadline = "nothing", time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.task.done():
                self.task.result()
            with contextlib.suppress(httpx.TransportError):
                answer = await self._client.get(self._at + path)
                if answer.status_code == status and all(each in answer.text for each in wanted):
                    return answer.text
                last = f"{answer.status_code} {answer.text}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} does not answer {status} with {wanted}, but {last}")


@asynccontextmanager
async def served(url: str, directory: Path, services: Sequence[str], *, api: bool = False) -> AsyncIterator[Served]:
    stop, port = asyncio.get_running_loop().create_future(), free_port()
    place = f"{HOST}:{port}"
    what = Running(services, http=place if api else None, metrics=None if api else place)
    tuning = Tuning(RuntimeConfig(state_dir=str(directory / "state")), telemetry_options())
    task = asyncio.create_task(serve_until(stop, shop, what, url, tuning))
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            yield Served(url, port, task, client)
        finally:
            stop.set_result(None)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(task, return_exceptions=True)
    task.result()


def said_of_waiting(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Waiting for ")]


class Process:
    """A command, and what it has said on stderr."""

    def __init__(self, process: forked.Popen, diary: Path) -> None:
        self.process = process
        self._diary = diary

    @property
    def said(self) -> str:
        return self._diary.read_text(encoding="utf-8")

    async def says(self, sentence: str) -> None:
        """Wait until it has said something."""
        async with asyncio.timeout(PATIENCE_S):
            while sentence not in self.said:
                assert self.process.poll() is None, self.said
                await asyncio.sleep(0.05)

    async def ended(self, number: signal.Signals) -> int:
        """Send it a signal, and return its exit code."""
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        await asyncio.to_thread(self.process.wait)


@asynccontextmanager
async def processes(
    commands: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]], directory: Path
) -> AsyncIterator[dict[str, Process]]:
    """Run commands of `eventlib` by name, each with its own variables."""
    started = dict[str, Process]()
    try:
        for name, (arguments, variables) in commands.items():
            diary = directory / f"{name}.stderr"
            environment = {**os.environ, "EVENTLIB_STATE_DIR": str(directory / "state"), **variables}
            with diary.open("w") as stderr:
                process = forked.Popen([*EVENTLIB, *arguments], env=environment, cwd=ROOT, stderr=stderr)
            started[name] = Process(process, diary)
        yield started
    finally:
        await asyncio.gather(*(each.end() for each in started.values()))
