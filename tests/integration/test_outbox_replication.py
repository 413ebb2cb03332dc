"""A relay is told of commits by replication, or asks; what a replica without the last commits brings comes no second time."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest
from sqlalchemy import Engine

from eventlib import open_log
from eventlib.outbox import TABLE_SQL, commits
from eventlib.outbox.commits import Commits
from tests.integration.outbox_app import APP, Counted
from tests.integration.sinking import apply_all, folded, rows_in
from tests.integration.test_outbox import OUTBOX, counted, is_empty, relaying
from tests.postgres import PASSWORD, Postgres, engine_of, running_postgres
from tests.waiting import until


@pytest.fixture
def database(database: Engine) -> Engine:
    with database.begin() as connection:
        OUTBOX.create(connection)
    return database


async def test_it_is_told_of_each_commit_and_listens_again_after_the_server_died(
    database_url: str, database: Engine, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "_ASKS_S", 10_000)  # where it is told, it asks for nothing by itself
    monkeypatch.setattr(commits, "_AGAIN_S", 0.2)
    told = Commits(database_url)
    async with open_log("memory://", APP) as log, relaying(log, database_url, told=told) as relay:
        await until(lambda: told.is_open)
        await asyncio.sleep(0.3)
        put(database, 1)
        await until(lambda: relay.applied == 1)
        postgres.kill()
        postgres.start()
        database.dispose()
        put(database, 2)  # while nobody listens
        await until(lambda: told.is_open and relay.applied == 2)
        await asyncio.sleep(0.3)
        put(database, 3)
        await until(lambda: relay.applied == 3)
    await until(lambda: not postgres.run("SELECT slot_name FROM pg_replication_slots"))


async def test_where_a_role_may_not_replicate_it_says_so_and_asks(
    database_url: str, database: Engine, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    role = f"plain_{token_hex(4)}"
    postgres.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    told = Commits(database_url.replace("shop@", f"{role}@"))
    async with open_log("memory://", APP) as log, relaying(log, database_url, told=told) as relay:
        put(database, 1)
        await until(lambda: relay.applied == 1 and "gives no stream of commits" in caplog.text)
    assert not told.is_open
    assert "a role with REPLICATION that owns the table" in caplog.text


def put(database: Engine, *numbers: int) -> None:
    for number in numbers:
        with database.begin() as connection:
            OUTBOX.put(connection, Counted(counter="a", number=number))


def waiting(server: Postgres) -> int:
    return int(server.run("SELECT count(*) FROM eventlib_outbox")[0][0])


@pytest.mark.extended
async def test_a_replica_without_the_last_commits_brings_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 6 to 9, which it never got, the events are on the log, and the application does not know of them any more."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with running_postgres() as primary, primary.replica(synchronous=False) as standby, ExitStack() as stack:
        before, after = (stack.enter_context(engine_of(each.url)) for each in (primary, standby))
        primary.run(TABLE_SQL)
        async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as log:
            async with relaying(log, primary.url) as relay:
                put(before, 1, 2, 3)
                await until(lambda: relay.applied == 3 and is_empty(before))
            await apply_all(log, primary.url)
            put(before, 4, 5)
            await until(lambda: waiting(standby) == 2)
            standby.kill()  # it gets no more
            async with relaying(log, primary.url) as relay:
                put(before, 6, 7, 8, 9)
                await until(lambda: relay.applied == 6 and is_empty(before))
            await apply_all(log, primary.url)
            primary.kill()
            standby.start()
            standby.promote()
            assert waiting(standby) == 2  # 4 and 5, which are on the log, are there again
            put(after, 106, 107)
            async with relaying(log, standby.url) as relay:
                await until(lambda: relay.applied == 2 and is_empty(after))
                put(after, 108)
                await until(lambda: relay.applied == 3 and is_empty(after))
            assert [each.number for each in await counted(log)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 106, 107, 108]
            await apply_all(log, standby.url)  # the replica has the sink's rows and its position as of 3
            assert rows_in(after) == await folded(log)
        primary.start()  # which its own end expects
