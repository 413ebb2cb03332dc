"""A relay that is told of commits by logical replication asks for none, and asks again where nobody tells it."""

import asyncio
from collections.abc import Iterator
from secrets import token_hex

import pytest
from sqlalchemy import Engine, create_engine

from eventlib import open_log
from eventlib.outbox import SqlAlchemyOutbox, commits
from eventlib.outbox.commits import Commits
from tests.integration.outbox_app import APP, Counted
from tests.integration.test_outbox import relaying
from tests.postgres import PASSWORD, Postgres
from tests.waiting import until

OUTBOX = SqlAlchemyOutbox(APP)


@pytest.fixture
def url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    name = f"told_{token_hex(4)}"
    postgres.run(f"CREATE DATABASE {name}")
    return postgres.url.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), pool_pre_ping=True)
    with engine.begin() as connection:
        OUTBOX.create(connection)
    yield engine
    engine.dispose()


def put(database: Engine, number: int) -> None:
    with database.begin() as connection:
        OUTBOX.put(connection, Counted(counter="a", number=number))


async def test_it_is_told_of_each_commit_and_listens_again_after_the_server_died(
    url: str, database: Engine, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "_ASKS_S", 10_000)  # where it is told, it asks for nothing by itself
    monkeypatch.setattr(commits, "_AGAIN_S", 0.2)
    told = Commits(url)
    async with open_log("memory://", APP) as log, relaying(log, url, told=told) as relay:
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
    url: str, database: Engine, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    role = f"plain_{token_hex(4)}"
    postgres.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    told = Commits(url.replace("shop@", f"{role}@"))
    async with open_log("memory://", APP) as log, relaying(log, url, told=told) as relay:
        put(database, 1)
        await until(lambda: relay.applied == 1 and "gives no stream of commits" in caplog.text)
    assert not told.is_open
    assert "a role with REPLICATION that owns the table" in caplog.text
