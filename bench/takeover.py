"""How long states take to come back: `python -m bench.takeover [STATES]`, on a broker of its own.

A service of 8 tasks has so many states. Measured, each in processes of their own: a start from the changelog alone and
one from the local stores; and what follows when one of two processes is killed, without copies and with one copy of
each task. Prints a JSON object: seconds, CPU seconds and changelog records read, from the moment a process has all
tasks until it has nothing left to do; `from_kill_s` counts from the kill, and has in it how long a group waits for a
member (6 s by default).
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from bench.sagas import cpu_s
from eventlib import Choreography, Decider, Event, Publication, Runtime, RuntimeConfig, Service, Topic, open_log
from eventlib.devtools.kafka import ClusterConfig, running_cluster
from eventlib.state.rocksdb import RocksStores
from tests.counted import counted_reads

TASKS = 8
_AT_ONCE = 2_000
_LOOK_S = 0.01
_SETTLES_S = 3.0
_FAST = ("-Xmx1g", "-XX:+UseSerialGC")


class Heard(Event, topic=Topic("heard", partitions=TASKS), key="key"):
    """What the service listens to."""

    key: str
    text: str


@dataclass(frozen=True)
class Kept:
    """A state of some hundred bytes."""

    text: str = ""
    times: int = 0


keeping = Decider("keep", state=Kept, key="key")


@keeping.evolve
def evolve(kept: Kept, event: Event) -> Kept:
    """Keep the text, and count."""
    return Kept(event.text, kept.times + 1) if isinstance(event, Heard) else kept


@keeping.on(Heard)
def hear(_kept: Kept, _heard: Heard) -> list[Never]:
    """Say nothing."""
    return []


KEEPING = Choreography("keeping", [Service("keep", deciders=[keeping])])


async def run(url: str, place: str, standbys: int) -> None:
    """Run the service until killed, and print a line whenever that changes which the lines say."""
    async with open_log(url, KEEPING) as log:
        restored, config, said = counted_reads(log), RuntimeConfig(standbys=standbys), (-1, False, 0)
        async with Runtime(log, stores=RocksStores(place), config=config) as runtime:
            while True:
                loops = [*runtime._runners.values()]  # noqa: SLF001  the tasks of a process are its own affair
                idle = not runtime.restoring and all([await loop.is_idle() for loop in loops])
                now = (len(loops), idle, restored["keep.changelog"])
                if now != said:
                    said = now
                    line = dict(zip(("tasks", "idle", "read"), said, strict=True))
                    print(json.dumps({**line, "at": time.time(), "cpu_s": cpu_s()}), flush=True)
                await asyncio.sleep(_LOOK_S)


Line = dict[str, Any]


class Process:
    """A process that runs the service, and the lines that it has written."""

    def __init__(self, url: str, place: Path, standbys: int) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._told = place / "told.ndjson"
        command = [sys.executable, "-m", "bench.takeover", "run", url, str(place), str(standbys)]
        with self._told.open("wb") as told:
            self._running = subprocess.Popen(command, stdout=told)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it."""
        self._running.kill()
        self._running.wait()

    @property
    def lines(self) -> list[Line]:
        """What it has said so far."""
        return [json.loads(line) for line in self._told.read_text().split("\n")[:-1]]

    def until(self, what: Callable[[Line], bool], after: int = 0) -> Line:
        """Return the first line after so many that is what is waited for."""
        while self._running.poll() is None:
            for line in self.lines[after:]:
                if what(line):
                    return line
            time.sleep(_LOOK_S)
        raise RuntimeError("the process has ended")

    def ready(self, tasks: int, after: int = 0) -> Line:
        """Wait until it has so many tasks, and is done with them."""
        return self.until(lambda line: bool(line["tasks"] == tasks and line["idle"]), after)


def between(first: Line, last: Line) -> dict[str, float]:
    """Return what it took from one line to the other."""
    names = {"seconds": "at", "cpu_s": "cpu_s", "records_read": "read"}
    return {name: round(last[key] - first[key], 2) for name, key in names.items()}


async def fill(url: str, states: int) -> None:
    """Say what makes the states."""
    async with open_log(url, KEEPING) as log:
        for first in range(0, states, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, states))
            await log.publish_many([Publication(Heard(key=f"key-{n:07d}", text="x" * 100)) for n in numbers])


def starts(url: str, place: Path) -> dict[str, Any]:
    """Start from the changelog alone, and then from what that has left."""
    found = dict[str, Any]()
    for name in ("from the changelog", "from the local stores"):
        with Process(url, place, 0) as alone:
            last = alone.ready(TASKS)
            found[name] = between(alone.until(lambda line: bool(line["tasks"])), last)
            time.sleep(_SETTLES_S)
        time.sleep(_SETTLES_S * 3)  # its group has given it up
    return found


def takeover(url: str, place: Path, standbys: int) -> dict[str, Any]:
    """Kill one of two processes, and return what it took the other to take over."""
    with Process(url, place / "first", standbys) as first:
        first.ready(TASKS)
        with Process(url, place / "second", standbys) as second:
            second.ready(TASKS // 2)
            time.sleep(_SETTLES_S * 3)  # copies are there by now
            before = len(second.lines)
            killed_at = time.time()
            first.kill()
            began = second.until(lambda line: bool(line["tasks"] > TASKS // 2), before)
            ended = second.ready(TASKS, before)
            read = ended["read"] - second.lines[before - 1]["read"]
    return {**between(began, ended), "records_read": read, "from_kill_s": round(ended["at"] - killed_at, 2)}


def main(arguments: list[str]) -> None:
    """Be one of the processes, or do the whole run."""
    if arguments[:1] == ["run"]:
        asyncio.run(run(arguments[1], arguments[2], int(arguments[3])))
        return
    states = int(next(iter(arguments), 100_000))
    with running_cluster(ClusterConfig(java_options=_FAST)) as broker, tempfile.TemporaryDirectory() as scratch:
        url, place = f"{broker.url}/?prefix=keeping.", Path(scratch)
        asyncio.run(fill(url, states))
        with Process(url, place / "maker", 0) as maker:
            maker.ready(TASKS)
        time.sleep(_SETTLES_S * 3)
        found = starts(url, place / "alone")
        for standbys in (0, 1):
            found[f"takeover with {standbys} copies"] = takeover(url, place / str(standbys), standbys)
            time.sleep(_SETTLES_S * 3)
        print(json.dumps({"states": states, **found, "load_average": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
