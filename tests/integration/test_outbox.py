"""What a transaction puts into its database's outbox is on the log once if it commits, in the order of its key's commits."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from eventlib import ContractError, EventLog, Publication, WiringError, open_log
from eventlib.cli._common.metrics import trace
from eventlib.eventlog import CALLER
from eventlib.outbox import SqlAlchemyOutbox
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import OUTBOXES, Relay
from tests import forked
from tests.commands import ended, said
from tests.integration.outbox_app import APP, COUNTERS, Counted, Noted
from tests.postgres import PASSWORD, Postgres, psycopg_url
from tests.waiting import until

OUTBOX = SqlAlchemyOutbox(APP)
NAMED = "tests.integration.outbox_app:APP"
LONGEST_S = 120


@pytest.fixture
def database(database: Engine) -> Engine:
    """A database with an outbox of its own."""
    with database.begin() as connection:
        OUTBOX.create(connection)
        OUTBOX.create(connection)  # once more, it changes nothing
    return database


@asynccontextmanager
async def relaying(log: EventLog, url: str, name: str = "outbox", every_s: float = 0.02) -> AsyncIterator[Relay]:
    table = OutboxTable(url)
    relay = Relay(log, table, name, every_s)
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await table.close()


async def counted(log: EventLog) -> list[Counted]:
    """What is on the log of `Counted`, in the order of each partition."""
    found = list[Counted]()
    for partition in range(8):
        for record in await log.port.read("counts", partition, 0, 1_000_000):
            event = log.decode(record)
            assert isinstance(event, Counted)
            found.append(event)
    return found


def is_empty(database: Engine) -> bool:
    with database.connect() as connection:
        rows = connection.execute(text("SELECT count(*) FROM eventlib_outbox WHERE error IS NULL")).scalar_one()
    return int(rows) == 0


async def test_what_commits_is_there_once_and_what_does_not_never(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log, relaying(log, database_url) as relay:
        with Session(database) as session, session.begin():
            OUTBOX.put(session, Counted(counter="a", number=1), Counted(counter="b", number=1))
        with Session(database) as session:
            OUTBOX.put(session, Counted(counter="a", number=2))
            session.rollback()
        later = Publication(Counted(counter="c", number=1), idempotency_key="c1", headers={"tenant": "x"})
        engine = create_async_engine(psycopg_url(database_url))
        async with AsyncSession(engine) as session_, session_.begin():
            await OUTBOX.put_async(session_, later)
        await engine.dispose()
        await until(lambda: relay.applied == 3 and is_empty(database))
        assert sorted((each.counter, each.number) for each in await counted(log)) == [("a", 1), ("b", 1), ("c", 1)]
        (position,) = await log.publish_many([later])
        records = await log.port.read("counts", position.partition, 0, 100)
        mine = [record for record in records if record.key == b"c"]
        assert len({record.id for record in mine}) == 1  # as `publish` gives it
        assert [dict(record.headers)["tenant"] for record in mine] == [b"x", b"x"]


async def test_what_is_relayed_has_spans_in_the_trace_of_its_caller(
    database_url: str, database: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    token = CALLER.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    with database.begin() as connection:
        OUTBOX.put(connection, Counted(counter="a", number=1))
    CALLER.reset(token)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log("memory://", APP))
        trace(stack, log, "memory://")
        async with relaying(log, database_url) as relay:
            await until(lambda: relay.applied == 1 and is_empty(database))
    assert "0af7651916cd43dd8448eb211c80319c" in capsys.readouterr().err


async def test_what_commits_late_is_not_passed_over(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log, relaying(log, database_url) as relay:
        with database.connect() as late:
            OUTBOX.put(late, Counted(counter="a", number=1))
            with database.begin() as connection:
                OUTBOX.put(connection, Counted(counter="b", number=1))
            await until(lambda: relay.applied == 1)
            late.commit()
        await until(lambda: relay.applied == 2)
        assert {each.counter for each in await counted(log)} == {"a", "b"}


def test_transactions_that_put_for_one_key_come_one_after_the_other(database: Engine) -> None:
    with database.connect() as first, database.connect() as second:
        OUTBOX.put(first, Counted(counter="a", number=1))
        second.execute(text("SET lock_timeout = '100ms'"))
        OUTBOX.put(second, Counted(counter="b", number=1))
        with pytest.raises(OperationalError, match="lock timeout"):
            OUTBOX.put(second, Counted(counter="a", number=2))


async def test_a_row_that_is_no_event_holds_its_key_and_no_other(database_url: str, database: Engine) -> None:
    with database.begin() as connection:
        OUTBOX.put(connection, *(Counted(counter="a", number=number) for number in (1, 2, 3)))
        OUTBOX.put(connection, Counted(counter="b", number=1))
        connection.execute(text("UPDATE eventlib_outbox SET body = replace(body, '2', '\"two\"') WHERE key = 'a'"))
    async with open_log("memory://", APP) as log, relaying(log, database_url) as relay:
        await until(lambda: relay.applied == 2)
        (told,) = json.loads(
            f"[{await asyncio.to_thread(said, 'outbox', 'status', '--database', database_url, '--json')}]"
        )
        assert (told["rows"], told["held"]) == (2, 1)
        assert "number" in told["first_held"][0]["error"]
        wrong = await asyncio.to_thread(ended, "outbox", "retry", "12345", "--database", database_url)
        assert (wrong.returncode, "row 12345 is not held" in wrong.stderr) == (1, True)
        with database.begin() as connection:
            connection.execute(text("UPDATE eventlib_outbox SET body = replace(body, '\"two\"', '2')"))
        assert "1 row will be tried again" in await asyncio.to_thread(
            said, "outbox", "retry", "--database", database_url
        )
        await until(lambda: relay.applied == 4)
        assert [each.number for each in await counted(log) if each.counter == "a"] == [1, 2, 3]


async def test_rows_that_are_there_again_are_not_brought_again(
    database_url: str, database: Engine, tmp_path: Path
) -> None:
    """As after a crash before they were removed, and when a replica takes over that has not seen that they were."""
    log_url = f"sqlite:///{tmp_path}/log.db"
    with database.begin() as connection:
        OUTBOX.put(connection, *(Counted(counter=each, number=1) for each in COUNTERS))
        connection.execute(text("CREATE TABLE before AS SELECT * FROM eventlib_outbox"))
    async with open_log(log_url, APP) as log:
        async with relaying(log, database_url) as relay:
            await until(lambda: relay.applied == len(COUNTERS) and is_empty(database))
        with database.begin() as connection:
            connection.execute(text("ALTER TABLE eventlib_outbox DISABLE TRIGGER ALL"))
            connection.execute(text("INSERT INTO eventlib_outbox SELECT * FROM before"))
            connection.execute(text("ALTER TABLE eventlib_outbox ENABLE TRIGGER ALL"))
        async with relaying(log, database_url) as relay:
            await until(lambda: is_empty(database))
            assert relay.applied == 0
        assert len(await counted(log)) == len(COUNTERS)
        # A table that is made anew begins its ids again, and its rows are others.
        with database.begin() as connection:
            connection.execute(text("ALTER SEQUENCE eventlib_outbox_ids RESTART"))
            OUTBOX.put(connection, Counted(counter="a", number=2))
        async with relaying(log, database_url) as relay:
            await until(lambda: relay.applied == 1)
        assert [each.number for each in await counted(log) if each.counter == "a"] == [1, 2]
        assert await log.port.end(OUTBOXES.name, 0) == 2


def started(diary: Path, *arguments: str) -> "subprocess.Popen[str]":
    with diary.open("w") as stderr:
        return forked.Popen([sys.executable, "-m", *arguments], text=True, stderr=stderr)


@pytest.mark.heavy
@pytest.mark.parametrize("where", ["file", pytest.param("broker", marks=pytest.mark.extended)])
async def test_whatever_dies_each_commit_is_on_the_log_once_and_in_its_keys_order(
    database_url: str, database: Engine, postgres: Postgres, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    on_kafka = "" if where == "file" else str(request.getfixturevalue("kafka_url"))
    log_url, chosen = on_kafka or f"sqlite:///{tmp_path}/log.db", random.Random(20261125)
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE counters (counter text PRIMARY KEY, number int NOT NULL)"))
        connection.execute(text("INSERT INTO counters VALUES (:counter, 0)"), [{"counter": each} for each in COUNTERS])
    relay = ("eventlib", "outbox", "relay", "--database", database_url, "--log", log_url, "--app", NAMED)
    writer = ("tests.integration.outbox_app", database_url.replace("://shop@", f"://shop:{PASSWORD}@"))
    commands = {"relay": relay, "other relay": relay, "writer": (*writer, "1"), "other writer": (*writer, "2")}
    with ExitStack() as stack:
        running = {name: stack.enter_context(started(tmp_path / name, *command)) for name, command in commands.items()}
        stack.callback(kill, running)
        for death in range(10):
            before = total(database)
            await until(lambda before=before: total(database) >= before + chosen.randrange(5, 60))
            if death in {3, 7}:
                database.dispose()
                postgres.kill()
                postgres.start()
            name = chosen.choice([*commands])
            running[name].send_signal(signal.SIGKILL)
            running[name].wait()
            running[name] = stack.enter_context(started(tmp_path / name, *commands[name]))
        for name in ("writer", "other writer"):
            running[name].kill()
            running[name].wait()
        await until(lambda: is_empty(database))
        for name in ("relay", "other relay"):  # one that has only just begun to start ends by the signal itself
            await until(lambda diary=tmp_path / name: "Relaying the outbox" in diary.read_text())
            running[name].terminate()
            assert running[name].wait(LONGEST_S) == 0
    with database.connect() as connection:
        numbers = {row[0]: row[1] for row in connection.execute(text("SELECT counter, number FROM counters"))}
    assert sum(numbers.values()) > 100
    async with open_log(log_url, APP, read_only=True) as log:
        found = await counted(log)
    for counter, number in numbers.items():
        assert [each.number for each in found if each.counter == counter] == list(range(1, number + 1))


def kill(running: Mapping[str, "subprocess.Popen[str]"]) -> None:
    for each in running.values():
        each.kill()


def total(database: Engine) -> int:
    with suppress(Exception), database.connect() as connection:
        return int(connection.execute(text("SELECT sum(number) FROM counters")).scalar_one())
    return 0


def test_what_cannot_be_put_is_refused_before_anything_is(database: Engine) -> None:
    with database.connect() as connection:
        with pytest.raises(ContractError, match="Noted is a fact that decider counts emits"):
            OUTBOX.put(connection, Counted(counter="a", number=1), Noted(counter="a", number=1))
        with pytest.raises(ContractError, match="partitioned by its key"):
            OUTBOX.put(connection, Publication(Counted(counter="a", number=1), partition=1))
        with pytest.raises(ContractError, match="the library's own"):
            OUTBOX.put(connection, Publication(Counted(counter="a", number=1), headers={"ce_id": "1"}))
        connection.commit()
    with pytest.raises(WiringError, match="commits each statement by itself"):
        by_itself(database.execution_options(isolation_level="AUTOCOMMIT").connect())
    with pytest.raises(WiringError, match="needs PostgreSQL, and this is sqlite"):
        by_itself(create_engine("sqlite://").connect())
    assert is_empty(database)


def by_itself(connection: Connection) -> None:
    with connection:
        OUTBOX.put(connection, Counted(counter="a", number=1))


def test_what_a_command_lacks_is_a_sentence(database_url: str, database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(text("DROP TABLE eventlib_outbox"))
    assert "has no table eventlib_outbox" in ended("outbox", "status", "--database", database_url).stderr
    assert "set PGPASSWORD" in ended("outbox", "status", "--database", "postgresql://a:b@127.0.0.1/c").stderr
    assert "name the database" in ended("outbox", "status").stderr
    assert "is no address of PostgreSQL" in ended("outbox", "status", "--database", "postgresql://[").stderr
    done = ended("outbox", "relay", "--database", database_url, "--name", "a b", "--app", NAMED)
    assert "made of letters" in done.stderr
    assert said("outbox", "table").count(";\n") >= 5
