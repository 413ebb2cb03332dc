"""Several processes on one SQLite log: killed, stopped, and side by side."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from eventlib.errors import OwnershipLost
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.log import SqliteLog
from eventlib.state.sqlite import SqliteStores
from tests.contract.processes import IMPATIENT, PATIENT, TOPICS, line_of, part, process

pytestmark = pytest.mark.heavy

PATIENCE_S = 120.0


def stop_between_commits(started: "subprocess.Popen[str]", place: Path) -> None:
    """Stop a process while it does not hold SQLite's lock: what stops within a commit keeps it, and everybody out."""
    connection = connect(place)
    while True:
        started.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            started.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        else:
            connection.execute("ROLLBACK")
            connection.close()
            return


async def appended_by(log: SqliteLog) -> Counter[str]:
    """Return how many records there are of each append."""
    found = Counter[str]()
    for topic in TOPICS:
        for partition in range(topic.partitions):
            for record in await log.read(topic.name, partition, 0, 1_000_000):
                found[(record.value or b"").decode().rpartition("/")[0]] += 1
    return found


LOOKS = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(*c.execute('SELECT count(*) FROM records').fetchone()); c.close()"


def seen_by_another(place: Path) -> int:
    """Return how many records another process sees, which is the last one to close the file if nobody holds a lock."""
    return int(subprocess.run([sys.executable, "-c", LOOKS, str(place)], check=True, stdout=subprocess.PIPE).stdout)


async def test_a_log_that_is_opened_again_keeps_the_locks_of_its_process(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    made = await SqliteLog.open(place)
    await made.create_topics(TOPICS)
    await made.close()
    log = await SqliteLog.open(place)
    again = await SqliteLog.open(place)
    await again.close()
    assert seen_by_another(place) == 0
    await log.append([part("once", 0, 0)])
    assert seen_by_another(place) == 1
    await log.close()


async def test_what_was_acknowledged_survives_kill_9_and_nothing_is_there_in_part(tmp_path: Path) -> None:
    random, place = Random(7), tmp_path / "log.db"
    acknowledged = set[str]()
    for round_ in range(6):
        with process("append", place, f"round{round_}") as writer:
            acknowledged.add(line_of(writer))
            await asyncio.sleep(random.uniform(0, 0.3))
            writer.kill()
            rest, _ = writer.communicate()
            acknowledged |= {line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")}
        log = await SqliteLog.open(place)
        there = await appended_by(log)
        assert set(there.values()) == {3}
        assert acknowledged <= there.keys()
        await log.append([part("parent", round_, index) for index in range(3)])
        await log.close()
    assert len(acknowledged) > 100


async def test_a_killed_owner_is_replaced_at_once(tmp_path: Path) -> None:
    # With a lease of an hour: the process is gone, so nobody waits for its lease, reaped by its parent or not.
    place = tmp_path / "log.db"
    with process("own", place, "patient") as owner:
        assert line_of(owner) == "owns 2"
        log = await SqliteLog.open(place, options=PATIENT)
        standby = await log.join("s", 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(standby.changed({}), 1)
        owner.kill()
        held = await asyncio.wait_for(standby.changed({}), PATIENCE_S)
        assert held.keys() == {0, 1}
        await log.append([part("new", 0, index) for index in range(3)], held[0])
    await log.close()


async def test_a_restart_after_kill_9_owns_at_once(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    for _ in range(2):
        with process("own", place, "patient") as owner:
            assert line_of(owner) == "owns 2"
            owner.kill()
    log = await SqliteLog.open(place, options=PATIENT)
    member = await log.join("s", 2)
    assert (await asyncio.wait_for(member.changed({}), PATIENCE_S)).keys() == {0, 1}
    await log.close()


async def test_a_stopped_owner_is_replaced_after_its_lease_and_cannot_append_any_more(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    with process("own", place, "impatient") as owner:
        assert line_of(owner) == "owns 2"
        log = await SqliteLog.open(place, options=IMPATIENT)
        standby = await log.join("s", 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(standby.changed({}), 2.5)  # it lives: it keeps what it has
        stop_between_commits(owner, place)
        held = await asyncio.wait_for(standby.changed({}), PATIENCE_S)
        assert held.keys() == {0, 1}
        end = await log.end("a", 0)
        owner.send_signal(signal.SIGCONT)
        assert line_of(owner) == "lost"
        assert await log.end("a", 0) == end
        await log.append([part("new", 0, 0)], held[0])
    await log.close()


async def test_an_append_beside_a_busy_process_waits_for_moments_only(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    with process("append", place, "busy") as writer:
        line_of(writer)
        drain = asyncio.create_task(asyncio.to_thread(writer.stdout.read if writer.stdout else str))
        log = await SqliteLog.open(place)
        longest = 0.0
        for number in range(100):
            began = time.monotonic()
            await log.append([part("mine", number, index) for index in range(3)])
            longest = max(longest, time.monotonic() - began)
        writer.kill()
        await drain
    assert longest < 5
    there = await appended_by(log)
    assert set(there.values()) == {3}
    assert {f"mine/{number}" for number in range(100)} <= there.keys()
    await log.close()


async def test_claims_hold_across_processes(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    with process("own", place, "patient") as owner:
        assert line_of(owner) == "owns 2"
        log = await SqliteLog.open(place)
        seized = await log.seize("s", 0)
        assert line_of(owner) == "lost"
        with pytest.raises(OwnershipLost):
            await log.append([part("no", 0, 0)], seized._replace(epoch=seized.epoch - 1))
        await log.append([part("yes", 0, 0)], seized)
        await log.close()


def test_a_store_killed_at_any_moment_has_just_what_belongs_to_its_checkpoint(tmp_path: Path) -> None:
    random = Random(3)
    for round_ in range(4):
        place = tmp_path / str(round_)
        with process("store", place) as writer:
            assert line_of(writer) == "open"
            time.sleep(random.uniform(0.05, 0.3))
            writer.kill()
        stores = SqliteStores(place)
        store = stores.open("s", 0, 2, "log")
        keys = [key for key, _ in store.scan("0")]
        assert keys == [f"{number:08}" for number in range(store.checkpoint)]
        assert store.get("count") == (b"%d" % (store.checkpoint - 1) if keys else None)
        stores.close()
