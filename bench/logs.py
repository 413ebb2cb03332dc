"""How fast the embedded log is, against bare sqlite3: `python bench/logs.py [records]`.

Prints a flat JSON object: records per second, milliseconds, percent.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventlib.log.base import Log
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.schema import prepare
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

TOPICS, PARTITIONS = 8, 8
INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ROUNDS = 3


def made(i: int) -> Record:
    key, digits = f"order-{i % 5_000:08}", f"{i:032x}"
    return Record(
        f"topic{i % TOPICS}", i // TOPICS % PARTITIONS, -1, now_ms(), key.encode(), b"x" * 150, digits, "StockReserved",
        "stock/reservation", key, i % 9, digits, digits, f"00-{digits}-{digits[:16]}-01",
    )  # fmt: skip


async def opened(place: Path) -> SqliteLog:
    log = await SqliteLog.open(place)
    await log.create_topics([Topic(f"topic{i}", partitions=PARTITIONS) for i in range(TOPICS)])
    return log


def bare(place: Path, records: list[Record], batch: int) -> float:
    connection = connect(place)
    prepare(connection, place)
    ends = dict[int, int]()
    rows = list[tuple[Any, ...]]()
    for r in records:
        number = int(r.topic[5:]) * PARTITIONS + r.partition
        ends[number] = ends.get(number, -1) + 1
        rows.append(((number << 40) + ends[number], *r.astuple()[3:14], None, 0))
    began = time.perf_counter()
    for first in range(0, len(rows), batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows[first : first + batch])
        connection.execute("COMMIT")
    took = time.perf_counter() - began
    connection.close()
    return len(rows) / took


async def through_append(place: Path, records: list[Record], batch: int) -> float:
    log = await opened(place)
    began = time.perf_counter()
    for first in range(0, len(records), batch):
        await log.append(records[first : first + batch])
    took = time.perf_counter() - began
    await log.close()
    return len(records) / took


async def grouped(place: Path, records: list[Record], callers: int) -> float:
    """Append one record at a time, from many coroutines."""
    log = await opened(place)

    async def caller(mine: list[Record]) -> None:
        for record in mine:
            await log.append([record])

    began = time.perf_counter()
    await asyncio.gather(*(caller(records[i::callers]) for i in range(callers)))
    took = time.perf_counter() - began
    await log.close()
    return len(records) / took


async def read_all(place: Path, count: int) -> float:
    log = await SqliteLog.open(place)
    reader = log.reader({(f"topic{i}", p): 0 for i in range(TOPICS) for p in range(PARTITIONS)})
    began = time.perf_counter()
    found = 0
    while found < count:
        found += len(await reader.poll(1_000, 0))
    took = time.perf_counter() - began
    await log.close()
    return found / took


async def wake_up(writer: Log, reading: Log, times: int) -> list[float]:
    reader = reading.reader({("topic0", 0): await reading.end("topic0", 0)})
    latencies = list[float]()
    for i in range(times):
        poll = asyncio.create_task(reader.poll(1))
        await asyncio.sleep(0.005 if i % 2 else 0.03)
        record = made(0)
        (offset,) = await writer.append([record])
        began = time.perf_counter()
        assert (await poll)[0].offset == offset
        latencies.append((time.perf_counter() - began) * 1e3)
    return latencies


async def idle_cpu(place: Path) -> float:
    log = await opened(place)
    await log.join("idle", 8)
    reader = log.reader({("topic0", 0): await log.end("topic0", 0)})
    poll = asyncio.create_task(reader.poll(1))
    await asyncio.sleep(2)
    began = time.process_time()
    await asyncio.sleep(5)
    used = (time.process_time() - began) / 5 * 100
    reader.wake()
    await poll
    await log.close()
    return used


async def busy(place: Path, batch: int) -> None:
    """Append without a pause until killed: the neighbour of the latency measurement."""
    log = await opened(place)
    records = [made(i) for i in range(batch)]
    while True:
        await log.append(records)


async def beside(place: Path, batch: int) -> list[float]:
    command = [sys.executable, __file__, "busy", str(place), str(batch)]
    neighbour = await asyncio.create_subprocess_exec(*command)
    latencies = list[float]()
    try:
        log = await opened(place)
        await asyncio.sleep(1.5)
        for _ in range(300):
            began = time.perf_counter()
            await log.append([made(1)])
            latencies.append((time.perf_counter() - began) * 1e3)
            await asyncio.sleep(0.005)
        await log.close()
    finally:
        neighbour.kill()
        await neighbour.wait()
    return latencies


def p(latencies: list[float], percent: int) -> float:
    return round(statistics.quantiles(latencies, n=100)[percent - 1], 2)


def median(measure: Callable[[Path], float]) -> float:
    rates = list[float]()
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as place:
            rates.append(measure(Path(place) / "log.db"))
    return round(statistics.median(rates))


def main(count: int) -> None:
    found = dict[str, float]()
    for batch in (1, 10, 100, 1_000):
        records = [made(i) for i in range(min(count, batch * 2_000))]
        found[f"bare_{batch}"] = median(lambda place, r=records, b=batch: bare(place, r, b))  # type: ignore[misc]
        found[f"append_{batch}"] = median(
            lambda place, r=records, b=batch: asyncio.run(through_append(place, r, b))  # type: ignore[misc]
        )
        found[f"append_{batch}_of_bare"] = round(found[f"append_{batch}"] / found[f"bare_{batch}"], 2)
    records = [made(i) for i in range(count // 4)]
    found["append_1_from_100_callers"] = median(lambda place: asyncio.run(grouped(place, records, 100)))
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "log.db"
        asyncio.run(through_append(place, [made(i) for i in range(count)], 1_000))
        found["read"] = round(statistics.median(asyncio.run(read_all(place, count)) for _ in range(ROUNDS)))
        found["idle_cpu_percent"] = round(asyncio.run(idle_cpu(place)), 2)
        asyncio.run(_latencies(place, found))
    print(json.dumps(found, indent=1))


async def _latencies(place: Path, found: dict[str, float]) -> None:
    log, other = await opened(place), await opened(place)
    for name, reading in (("same_process", log), ("other_handle", other)):
        latencies = await wake_up(log, reading, 100)
        found[f"wake_{name}_p50_ms"], found[f"wake_{name}_p99_ms"] = p(latencies, 50), p(latencies, 99)
    await log.close()
    await other.close()
    for batch in (1, 100):
        latencies = await beside(place, batch)
        found[f"beside_busy_{batch}_p50_ms"], found[f"beside_busy_{batch}_p99_ms"] = p(latencies, 50), p(latencies, 99)


if __name__ == "__main__":
    if sys.argv[1:2] == ["busy"]:
        asyncio.run(busy(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
