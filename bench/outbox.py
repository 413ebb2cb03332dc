"""The outbox's relay and a sink, beside PostgreSQL on this machine: `python -m bench.outbox [--kafka] [--fsync]`.

Rates are from a backlog; delays at 500 events/s, from a commit to the other side. The log is a file, or one node of Kafka.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Protocol

from sqlalchemy import BigInteger, MetaData, create_engine, insert, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib import EventLog, open_log
from eventlib.devtools.kafka.owned import running_cluster
from eventlib.outbox import SqlAlchemyOutbox
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import Relay
from eventlib.sinks import SqlSink
from eventlib.sinks.applying import SinkRunner
from eventlib.sinks.database import SinkDatabase
from tests.integration.outbox_app import APP, Counted
from tests.postgres import PASSWORD, running_postgres

PER_S = 500
OUTBOX = SqlAlchemyOutbox(APP)


class Base(DeclarativeBase):
    metadata = MetaData()


class Row(Base):
    __tablename__ = "counts"
    counter: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    written_at: Mapped[float]


SINGLY, MANY = (SqlSink(name, APP, tables=Base.metadata) for name in ("singly", "many"))


@SINGLY.on
def add(event: Counted, session: Session) -> None:
    session.add(Row(counter=event.counter, number=event.number, written_at=time.time()))


@MANY.on
def add_many(events: Sequence[Counted], session: Session) -> None:
    now = time.time()
    session.execute(insert(Row), [{"counter": e.counter, "number": e.number, "written_at": now} for e in events])


class Works(Protocol):
    async def run(self) -> None: ...


def event(number: int) -> Counted:
    return Counted(counter=f"c{number % 1_000}", number=number)


async def worked(work: Works, done: Callable[[], bool]) -> tuple[float, float]:
    """Run until done, and return seconds of the clock and of this process."""
    task = asyncio.create_task(work.run())
    began, cpu = time.monotonic(), time.process_time()
    while not done():
        await asyncio.sleep(0.01)
        if task.done():
            task.result()
    taken = time.monotonic() - began, time.process_time() - cpu
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return taken


def tell(what: str, events: int, taken: tuple[float, float]) -> None:
    print(f"{what}: {events / taken[0]:,.0f} events/s, {taken[1] / events * 1e6:,.0f} µs of a processor each")


def tell_delays(what: str, delays: Sequence[float]) -> None:
    cuts = statistics.quantiles(delays, n=100)
    print(f"{what} at {PER_S}/s: p50 {cuts[49] * 1000:.0f} ms, p99 {cuts[98] * 1000:.0f} ms")


async def relay_rate(log: EventLog, url: str, events: int) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        OUTBOX.create(connection)
    for start in range(0, events, 500):
        with engine.begin() as connection:
            OUTBOX.put(connection, *(event(number) for number in range(start, start + 500)))
    engine.dispose()
    table = OutboxTable(url)
    relay = Relay(log, table)
    tell("relay", events, await worked(relay, lambda: relay.applied >= events))
    await table.close()


def write(url: str, seconds: int) -> None:
    """Commit events at a rate, each with the time before its commit as its number (µs)."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    began = time.monotonic()
    with engine.connect() as connection:
        for count in range(PER_S * seconds):
            time.sleep(max(began + count / PER_S - time.monotonic(), 0))
            OUTBOX.put(connection, Counted(counter=f"c{count % 1_000}", number=time.time_ns() // 1000))
            connection.commit()


async def relay_delay(log: EventLog, url: str, seconds: int) -> None:
    table, delays = OutboxTable(url), list[float]()
    relay = Relay(log, table)
    reader = log.port.reader({("counts", p): await log.port.end("counts", p) for p in range(8)})
    task = asyncio.create_task(relay.run())
    await asyncio.sleep(1)
    cpu = time.process_time()
    await asyncio.sleep(3)
    print(f"relay, when idle: {(time.process_time() - cpu) / 3:.1%} of a processor")
    with subprocess.Popen([sys.executable, "-m", __spec__.name, "write", url, str(seconds)]) as writer:  # noqa: ASYNC220  it starts at once
        while len(delays) < PER_S * seconds:
            records, now = await reader.poll(1_000, 5), time.time()
            found = [log.decode(record) for record in records]
            delays += [now - each.number / 1e6 for each in found if isinstance(each, Counted)]
        writer.wait()
    tell_delays("relay, commit to log", delays[PER_S:])
    await reader.close()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await table.close()


async def sink_rate(log: EventLog, url: str, sink: SqlSink, events: int) -> None:
    database = SinkDatabase(url, sink)
    runner = SinkRunner(log, database)
    tell(f"sink, handler {sink.name}", events, await worked(runner, lambda: runner.applied >= events))
    async with database.transaction() as session:
        assert (await session.execute(text("SELECT count(*) FROM counts"))).scalar() == events
    await database.close()


async def sink_delay(log: EventLog, url: str, sink: SqlSink, seconds: int) -> None:
    database = SinkDatabase(url, sink)
    runner = SinkRunner(log, database)
    task = asyncio.create_task(runner.run())
    await asyncio.sleep(2)
    before, delays, told = runner.applied, list[float](), list[tuple[float, int]]()

    async def look() -> None:
        while True:
            while told and runner.applied - before >= told[0][1]:
                delays.append(time.monotonic() - told.pop(0)[0])
            await asyncio.sleep(0.001)

    looking, began = asyncio.create_task(look()), time.monotonic()
    for total in range(0, PER_S * seconds, 5):
        await log.publish_many([event(10_000_000 + total + each) for each in range(5)])
        told.append((time.monotonic(), total + 5))
        await asyncio.sleep(max(began + total / PER_S - time.monotonic(), 0))
    while told:
        await asyncio.sleep(0.01)
    tell_delays(f"sink, log to commit, published in {time.monotonic() - began:.1f} s,", delays[50:])
    for each in (looking, task):
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each
    await database.close()


async def measure(events: int, seconds: int, *, on_kafka: bool, fsync: bool) -> None:
    """Measure all."""
    os.environ["PGPASSWORD"] = PASSWORD
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(fsync=fsync))
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(running_cluster()).url if on_kafka else f"sqlite:///{directory}/log.db"
        async with open_log(url, APP) as log:
            await relay_rate(log, postgres.url, events)
            await sink_rate(log, postgres.url, SINGLY, events)
            await sink_rate(log, postgres.url, MANY, events)
            await relay_delay(log, postgres.url, seconds)
            await sink_delay(log, postgres.url, MANY, seconds)


def main(arguments: Sequence[str]) -> None:
    """Measure, or write for a measurement."""
    if arguments[:1] == ["write"]:
        write(arguments[1], int(arguments[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--fsync", action="store_true")
    given = parser.parse_args(arguments)
    asyncio.run(measure(given.events, given.seconds, on_kafka=given.kafka, fsync=given.fsync))


if __name__ == "__main__":
    main(sys.argv[1:])
