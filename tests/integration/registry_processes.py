"""Registry servers as processes of their own, to be killed; and clients that do not give up."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests import forked

PATIENCE_S = 120.0


class Instance:
    """One process that serves the schemas of a log, always on the same port."""

    def __init__(self, log: str, directory: Path, name: str, **variables: str) -> None:
        self._log = log
        self._errors = directory / f"{name}.err"
        self._environment = {**os.environ, "EVENTLIB_SCHEMAS_COMPATIBILITY": "NONE", **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._port = "0"
        self.url = ""

    def start(self) -> None:
        """Start it; it answers a little later."""
        command = [
            str(Path(sys.executable).with_name("eventlib")),
            "schemas",
            "serve",
            "--port",
            self._port,
            "--log",
            self._log,
        ]
        with self._errors.open("wb") as errors:
            self._process = forked.Popen(command, stderr=errors, env=self._environment)

    async def answers(self) -> None:
        """Wait until it serves."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(r"on (https?://\S+?) ", self.said)):
                assert self._process is not None
                assert self._process.poll() is None, self.said
                await asyncio.sleep(0.05)
        self.url = found[1]
        self._port = self.url.rpartition(":")[2]

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        """What it has written to stderr."""
        return self._errors.read_text()

    def kill(self) -> None:
        """End it without a warning."""
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(120)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


def schema(number: int) -> str:
    fields = [{"name": f"f{number}", "type": "int"}]
    return json.dumps({"type": "record", "name": "R", "fields": fields}, separators=(",", ":"))


@dataclass
class Registrations:
    """What clients register: `count` schemas, each by two of them, under `subjects` subjects; and what they are told."""

    count: int
    subjects: int
    told: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    done: int = 0

    async def run(self, urls: list[str], clients: int = 8) -> None:
        """Register everything, with clients at the same time."""
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(timeout=httpx.Timeout(10, connect=1), limits=limits) as client:
            await asyncio.gather(*(self._client(client, urls, each, clients) for each in range(clients)))

    async def _client(self, client: httpx.AsyncClient, urls: list[str], index: int, clients: int) -> None:
        chance = random.Random(index)
        for number in range(self.count):
            if number % clients not in {index, (index + 1) % clients}:
                continue
            while (found := await self._once(client, chance.choice(urls), number)) is None:
                await asyncio.sleep(chance.uniform(0.01, 0.2))
            self.told[number].add(found)
            self.done += 1

    async def _once(self, client: httpx.AsyncClient, url: str, number: int) -> int | None:
        try:
            path = f"{url}/subjects/s{number % self.subjects}/versions"
            answer = await client.post(path, json={"schema": schema(number)})
        except httpx.HTTPError:
            return None
        if answer.status_code >= 500:
            assert answer.json()["error_code"] in {50001, 50002, 50003, 50004}, answer.text
            return None
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    async def check(self, url: str) -> None:
        """Hold what is there against what clients were told: no id lost, doubled or changed, no version skipped."""
        assert len(self.told) == self.count
        assert all(len(ids) == 1 for ids in self.told.values()), "a schema had two ids"
        ids = {next(iter(ids)): number for number, ids in self.told.items()}
        assert len(ids) == self.count, "two schemas had one id"
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            for schema_id, number in ids.items():
                assert (await client.get(f"/schemas/ids/{schema_id}")).json() == {"schema": schema(number)}
            versions = (await client.get("/schemas")).json()
        found = defaultdict[str, list[int]](list)
        for each in versions:
            assert each["schema"] == schema(ids[each["id"]])
            found[each["subject"]].append(each["version"])
        assert len(versions) == self.count
        assert all(numbers == [*range(1, len(numbers) + 1)] for numbers in found.values())


async def killed_again_and_again(instances: list[Instance], work: Registrations, kills: int, seed: int) -> None:
    """Kill a random instance, evenly over the work but at random moments, and start it again."""
    chance = random.Random(seed)
    for number in range(kills):
        due = int((number + chance.random()) / kills * 2 * work.count * 0.9)
        while work.done < due:
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.uniform(0, 0.05))
        instance = chance.choice(instances)
        instance.kill()
        instance.start()
        await instance.answers()
