"""What the tests of several processes run in their other process: `python processes.py ROLE PLACE …`.

Each prints a line when it has done something, and is killed, stopped or told to go on by its test.
"""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from eventlib.errors import OwnershipLost
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.state.sqlite import SqliteStores
from tests import forked

TOPICS = [Topic("a", partitions=2), Topic("b", partitions=2)]
IMPATIENT = SqliteOptions(heartbeat_s=0.2, lease_s=1.0)
PATIENT = SqliteOptions(lease_s=3_600)


def part(name: str, number: int, index: int) -> Record:
    """Return one of the three records of an append."""
    return Record("ab"[index % 2], index % 2, -1, 1, b"k", f"{name}/{number}/{index}".encode())


async def append(place: Path, name: str) -> None:
    """Append three records at a time to two topics, from several coroutines, and acknowledge each on stdout."""
    log = await SqliteLog.open(place)
    await log.create_topics(TOPICS)

    async def lane(lane_name: str) -> None:
        number = 0
        while True:
            await log.append([part(lane_name, number, index) for index in range(3)])
            print(f"{lane_name}/{number}", flush=True)
            number += 1

    await asyncio.gather(*(lane(f"{name}.{i}") for i in range(4)))


async def append_some(place: Path, counts: str) -> None:
    """Append as often as the first count says, checkpoint, append as often as the second says, and wait to be killed.

    It is killed at rest: a log that is cut off in the midst of a checkpoint is damaged, and not only too short.
    """
    log = await SqliteLog.open(place)
    await log.create_topics(TOPICS)
    before, after = map(int, counts.split("+"))
    for number in range(before + after):
        if number == before:
            with closing(sqlite3.connect(place)) as connection:
                connection.execute("PRAGMA wal_checkpoint")
        await log.append([part("one", number, index) for index in range(3)])
    print("done", flush=True)
    await asyncio.Event().wait()


async def own(place: Path, patience: str) -> None:
    """Own a service, and append for it as long as that lasts."""
    log = await SqliteLog.open(place, options=PATIENT if patience == "patient" else IMPATIENT)
    await log.create_topics(TOPICS)
    member = await log.join("s", 2)
    held = await member.changed({})
    print(f"owns {len(held)}", flush=True)
    number = 0
    while True:
        try:
            await log.append([part("owner", number, index) for index in range(3)], held[0])
        except OwnershipLost:
            print("lost", flush=True)
            break
        number += 1
        await asyncio.sleep(0.01)
    await log.close()


async def store(place: Path, _: str) -> None:
    """Write a store: at checkpoint n it has the keys 0 to n - 1, and a counter."""
    opened = SqliteStores(place).open("s", 0, 1, "log")
    print("open", flush=True)
    for number in range(10_000_000):
        opened.write({f"{number:08}": b"x" * 50, "count": b"%d" % number}, number + 1)


@contextmanager
def process(role: str, place: Path, argument: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Start a process in a role, and kill it in the end."""
    command = [sys.executable, __file__, role, str(place), argument]
    with forked.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: "subprocess.Popen[str]") -> str:
    """Wait for the next line that it prints."""
    assert started.stdout is not None
    return started.stdout.readline().strip()


ROLES: dict[str, Callable[[Path, str], Awaitable[None]]] = {
    "append": append,
    "append_some": append_some,
    "own": own,
    "store": store,
}


async def main() -> None:
    """Play a role."""
    await ROLES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    asyncio.run(main())
