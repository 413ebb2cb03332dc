"""How long states take to come back: `python -m tests.performance.takeover [STATES]`, on a broker of its own.

A service of 8 tasks has so many states. Measured, each in processes of their own: a start from the changelog alone and
one from the local stores; and what follows when one of two processes is killed, without copies and with one copy of
each task. Prints a JSON object: seconds, CPU seconds and changelog records read, from the moment a process has all
tasks until it has nothing left to do; `from_kill_s` counts from the kill, and has in it how long a group waits for a
member (6 s by default).
"""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from eventlib import Choreography, Decider, Event, Publication, Runtime, RuntimeConfig, Service, Topic, open_log
from eventlib.broker import ClusterConfig, running_cluster
from eventlib.log.port import Record
from eventlib.store.rocksdb import RocksStores
from tests.performance.sagas import cpu_s

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
    """Run the service until killed, and print a line whenever it has other tasks, or begins or ends to be idle."""
    async with open_log(url, KEEPING) as log:
        restored, read = Counter[str](), log.port.read

        async def counted(topic: str, partition: int, offset: int, limit: int) -> list[Record]:
            records = await read(topic, partition, offset, limit)
            restored[topic] += len(records)
            return records

        log.port.read = counted  # type: ignore[method-assign]  # this log only
        config, said = RuntimeConfig(standbys=standbys), (-1, False)
        async with Runtime(log, stores=RocksStores(place), config=config) as runtime:
            while True:
                loops = [*runtime._loops.values()]  # noqa: SLF001  the tasks of a process are its own affair
                idle = not runtime.restoring and all([await loop.is_idle() for loop in loops])
                if (len(loops), idle) != said:
                    said = (len(loops), idle)
                    line = {"tasks": said[0], "idle": idle, "read": restored["keep.changelog"]}
                    print(json.dumps({**line, "at": time.time(), "cpu_s": cpu_s()}), flush=True)
                await asyncio.sleep(_LOOK_S)


Line = dict[str, Any]


@contextmanager
def process(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """Start a process that runs the service."""
    command = [sys.executable, "-m", "tests.performance.takeover", "run", *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def until(running: "subprocess.Popen[str]", what: Callable[[Line], bool]) -> Line:
    """Return the first line of a process that is what is waited for."""
    assert running.stdout is not None
    for line in running.stdout:
        found: Line = json.loads(line)
        if what(found):
            return found
    raise RuntimeError("the process has ended")


def ready(running: "subprocess.Popen[str]", tasks: int) -> dict[str, float]:
    """Wait until a process has so many tasks and is done with them, and return what that took from having them."""
    has = until(running, lambda line: line["tasks"] == tasks)
    done = has if has["idle"] else until(running, lambda line: line["tasks"] == tasks and line["idle"])
    return {
        "seconds": round(done["at"] - has["at"], 2),
        "cpu_s": round(done["cpu_s"] - has["cpu_s"], 2),
        "records_read": done["read"],
        "at": done["at"],
    }


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
        with process(url, str(place / "alone"), "0") as alone:
            found[name] = ready(alone, TASKS)
            time.sleep(_SETTLES_S)
            alone.send_signal(signal.SIGKILL)
            alone.wait()
        del found[name]["at"]
        time.sleep(_SETTLES_S * 3)  # its group has given it up
    return found


def takeover(url: str, place: Path, standbys: int) -> dict[str, Any]:
    """Kill one of two processes, and return what it took the other to take over."""
    with process(url, str(place / "first"), str(standbys)) as first:
        ready(first, TASKS)
        with process(url, str(place / "second"), str(standbys)) as second:
            before = ready(second, TASKS // 2)
            time.sleep(_SETTLES_S * 2)
            killed_at = time.time()
            first.kill()
            found = ready(second, TASKS)
    found["records_read"] -= before["records_read"] if not standbys else 0
    return {**found, "from_kill_s": round(found.pop("at") - killed_at, 2)}


def main(arguments: list[str]) -> None:
    """Be one of the processes, or do the whole run."""
    if arguments[:1] == ["run"]:
        asyncio.run(run(arguments[1], arguments[2], int(arguments[3])))
        return
    states = int(next(iter(arguments), 100_000))
    with running_cluster(ClusterConfig(java_options=_FAST)) as broker, tempfile.TemporaryDirectory() as scratch:
        url, place = f"{broker.url}/?prefix=keeping.", Path(scratch)
        asyncio.run(fill(url, states))
        with process(url, str(place / "maker"), "0") as maker:
            ready(maker, TASKS)
        time.sleep(_SETTLES_S * 3)
        found = starts(url, place)
        for standbys in (0, 1):
            found[f"takeover with {standbys} copies"] = takeover(url, place / str(standbys), standbys)
            time.sleep(_SETTLES_S * 3)
        print(json.dumps({"states": states, **found}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
