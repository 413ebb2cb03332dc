"""Sinks, writers and the database are killed at random, and the rows are still a fold of the log; a replica takes over."""

import asyncio
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from eventlib import open_log
from eventlib.outbox import TABLE_SQL
from tests.commands import ended, said
from tests.integration.outbox_app import APP, COUNTERS
from tests.integration.sinking import NAMED, folded, publish, rows_in
from tests.integration.test_outbox import NAMED as APPLICATION
from tests.integration.test_outbox import kill, started
from tests.postgres import DATABASE, PASSWORD, Postgres, running_postgres
from tests.waiting import until

LONGEST_S = 120


@pytest.mark.extended
@pytest.mark.parametrize("where", ["file", "broker"])
async def test_whatever_dies_rows_are_a_fold_of_the_log(
    postgres: Postgres, database_url: str, database: Engine, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    on_kafka = "" if where == "file" else str(request.getfixturevalue("kafka_url"))
    log_url, chosen = on_kafka or f"sqlite:///{tmp_path}/log.db", random.Random(20261125)
    command = ("eventlib", "sink", "run", NAMED, "--database", database_url, "--log", log_url)
    with ExitStack() as stack:
        async with open_log(log_url, APP) as log:
            await publish(log, range(50))
            running = {name: stack.enter_context(started(tmp_path / name, *command)) for name in ("one", "other")}
            stack.callback(kill, running)
            for death in range(8):
                await publish(log, range(death * 50, death * 50 + 50))
                await asyncio.sleep(chosen.random())
                if death in {2, 5}:
                    postgres.kill()
                    postgres.start()
                name = chosen.choice([*running])
                running[name].send_signal(signal.SIGKILL if death != 4 else signal.SIGSTOP)
                if death == 4:  # its successor works; woken up, it must not write
                    await asyncio.sleep(5)
                    running[name].send_signal(signal.SIGCONT)
                    continue
                running[name].wait()
                running[name] = stack.enter_context(started(tmp_path / name, *command))
            expected, deadline = await folded(log), time.monotonic() + LONGEST_S
            while count(database) < 50 * 9 * len(COUNTERS):
                assert time.monotonic() < deadline, {name: (tmp_path / name).read_text()[-2000:] for name in running}
                await asyncio.sleep(0.1)
            assert rows_in(database) == expected
        printed = await asyncio.to_thread(said, "sink", "status", NAMED, "--database", database_url, "--log", log_url)
        assert "totals is 0 offsets behind the log; 0 events parked, 0 retried, 0 waiting behind them." in printed
        for name, each in running.items():
            while "Writing sink totals" not in (tmp_path / name).read_text():
                await asyncio.sleep(0.1)
            each.terminate()
            assert each.wait(LONGEST_S) == 0


@pytest.mark.extended
async def test_a_rebuild_beside_a_running_sink_goes_on_after_it_was_killed(
    database_url: str, database: Engine, tmp_path: Path
) -> None:
    log_url = f"sqlite:///{tmp_path}/log.db"
    given = ("--database", database_url, "--log", log_url)
    with ExitStack() as stack:
        async with open_log(log_url, APP) as log:
            await publish(log, range(600))
            work = stack.enter_context(started(tmp_path / "run", "eventlib", "sink", "run", NAMED, *given))
            stack.callback(work.kill)
            await until(lambda: count(database) == 600 * 8)
            before = rows_in(database)
            command = ("eventlib", "sink", "rebuild", NAMED, "--yes", *given)
            killed = stack.enter_context(started(tmp_path / "rebuild", *command))
            await until(lambda: count(database, "totals_next") > 0)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            here = count(database, "totals_next")
            assert 0 < here < 600 * 8, "it was done before it was killed"
            assert rows_in(database) == before
            await publish(log, range(600, 610))
            done = await asyncio.to_thread(ended, *command[1:])
            assert "Goes on with a rebuild that was interrupted" in done.stderr
            assert f"totals is rebuilt from {610 * 8 - here:,} events." in done.stdout
            await publish(log, [610])
            await until(lambda: count(database) == 611 * 8)  # the sink that runs goes on in the new tables
            assert rows_in(database) == await folded(log)


def count(engine: Engine, schema: str = "totals") -> int:
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(f"SELECT sum(events) FROM {schema}.totals")).scalar() or 0)  # noqa: S608
    except Exception:  # noqa: BLE001  the tables are not there yet
        return 0


@pytest.mark.extended
async def test_a_replica_takes_over_and_nothing_is_lost_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits wait for it; without that, those that it lacks are gone from the database, whatever the log has."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    log_url = f"sqlite:///{tmp_path}/log.db"
    with running_postgres() as primary, primary.replica() as standby, ExitStack() as stack:
        both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url, hosts = f"postgresql://shop@{both}/{DATABASE}", both.replace(",", "&host=")
        writes = f"postgresql://shop:{PASSWORD}@/{DATABASE}?host={hosts}&target_session_attrs=read-write"
        given = ("--database", url, "--log", log_url)
        prepare(primary)
        commands = {
            "relay": ("eventlib", "outbox", "relay", *given, "--app", APPLICATION),
            "sink": ("eventlib", "sink", "run", NAMED, *given),
            "writer": ("tests.integration.outbox_app", writes, "1"),
        }
        running = {name: stack.enter_context(started(tmp_path / name, *command)) for name, command in commands.items()}
        stack.callback(kill, running)
        await until(lambda: sunk(primary) > 50)
        primary.kill()
        standby.promote()
        before = sunk(standby)
        await until(lambda: sunk(standby) > before + 50)
        running["writer"].kill()
        running["writer"].wait()
        await until(lambda: number(standby, "SELECT count(*) FROM eventlib_outbox") == 0)
        async with open_log(log_url, APP, read_only=True) as log:
            expected = await folded(log)
        await until(lambda: sunk(standby) == sum(row[0] for row in expected.values()))
        assert {name: int(events) for name, events in standby.run("SELECT * FROM counters") if events != "0"} == {
            name: row[0] for name, row in expected.items()
        }
        assert {row[0]: row[1] for row in standby.run("SELECT counter, trail FROM totals.totals")} == {
            name: row[2] for name, row in expected.items()
        }
        primary.start()  # which its own end expects


def prepare(primary: Postgres) -> None:
    primary.run(TABLE_SQL)
    primary.run("CREATE TABLE counters (counter text PRIMARY KEY, number int NOT NULL)")
    primary.run("INSERT INTO counters VALUES " + ", ".join(f"('{each}', 0)" for each in COUNTERS))  # noqa: S608  names of ours


def sunk(postgres: Postgres) -> int:
    there = postgres.run("SELECT to_regclass('totals.totals')")
    return number(postgres, "SELECT coalesce(sum(events), 0) FROM totals.totals") if there[0][0] else 0


def number(postgres: Postgres, question: str) -> int:
    return int(postgres.run(question)[0][0])
