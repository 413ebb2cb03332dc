"""Sinks, writers and the database are killed at random, and the rows are still a fold of the log; a replica takes over."""

import asyncio
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest
from sqlalchemy import Engine, create_engine, text

from eventlib import open_log
from tests.commands import said
from tests.integration.outbox_app import APP, COUNTERS
from tests.integration.test_outbox import kill, started
from tests.integration.test_sinks import NAMED, folded, publish, rows_in
from tests.postgres import PASSWORD, Postgres

LONGEST_S = 120


@pytest.mark.extended
@pytest.mark.parametrize("where", ["file", "broker"])
async def test_whatever_dies_rows_are_a_fold_of_the_log(
    postgres: Postgres, tmp_path: Path, where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    name = f"sink_{token_hex(4)}"
    postgres.run(f"CREATE DATABASE {name}")
    url = postgres.url.rpartition("/")[0] + f"/{name}"
    on_kafka = "" if where == "file" else f"{request.getfixturevalue('broker').url}/?prefix={token_hex(4)}."
    log_url, chosen = on_kafka or f"sqlite:///{tmp_path}/log.db", random.Random(20261125)
    command = ("eventlib", "sink", "run", NAMED, "--database", url, "--log", log_url)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), pool_pre_ping=True)
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
            while count(engine) < 50 * 9 * len(COUNTERS):
                assert time.monotonic() < deadline, {name: (tmp_path / name).read_text()[-2000:] for name in running}
                await asyncio.sleep(0.1)
            assert rows_in(engine) == expected
        printed = await asyncio.to_thread(said, "sink", "status", NAMED, "--database", url, "--log", log_url)
        assert "totals is 0 offsets behind the log; 0 events parked, 0 with an error." in printed
        for name, each in running.items():
            while "Writing sink totals" not in (tmp_path / name).read_text():
                await asyncio.sleep(0.1)
            each.terminate()
            assert each.wait(LONGEST_S) == 0
    engine.dispose()


def count(engine: Engine) -> int:
    try:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT sum(events) FROM totals.totals")).scalar() or 0)
    except Exception:  # noqa: BLE001  the tables are not there yet
        return 0
