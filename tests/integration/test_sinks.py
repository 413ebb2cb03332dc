"""What a sink writes into PostgreSQL are the log's events, each once, whatever fails and whoever takes over."""

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, MetaData, text
from sqlalchemy.orm import Session

from eventlib import Meta, Runtime, WiringError, open_log
from eventlib.cli._common.metrics import relay_snapshot, serve_metrics, sink_snapshot, trace
from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.eventlog import CALLER
from eventlib.model.event import contract_of
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import Relay
from eventlib.sinks import SqlSink
from eventlib.sinks.applying import Sinking
from eventlib.sinks.database import SinkDatabase
from tests.commands import ended, said
from tests.integration import sink_app
from tests.integration.outbox_app import APP, COUNTERS, Counted
from tests.integration.sink_app import echo, many, totals
from tests.integration.sinking import NAMED, apply_all, folded, publish, rows_in, sinking
from tests.ports import free_port
from tests.waiting import until


async def test_rows_are_a_fold_of_the_log_over_restarts_and_processes(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log:
        await publish(log, range(40))
        async with sinking(log, database_url) as one, sinking(log, database_url) as other:
            await until(lambda: one.applied + other.applied == 320)
        await publish(log, range(40, 45))
        async with sinking(log, database_url) as again:
            await publish(log, [45])
            await until(lambda: again.applied == 48)
        assert rows_in(database) == await folded(log)


async def test_a_zombie_writes_nothing_after_a_takeover(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log:
        await publish(log, [1])
        old, new = (Sinking(log, SinkDatabase(database_url, totals)) for _ in range(2))
        await old.begin(range(8))
        await new.begin(range(8))
        with pytest.raises(OwnershipLost, match="another process has taken partitions of sink totals over"):
            await old.step()
        assert rows_in(database) == {}
        while sum(row[0] for row in rows_in(database).values()) < len(COUNTERS):
            await new.step()
        assert rows_in(database) == await folded(log)
        for each in (old, new):
            await each.end()
            await each.database.close()


async def test_who_stands_still_within_a_transaction_is_ended_for_its_successor(
    database_url: str, database: Engine
) -> None:
    async with open_log("memory://", APP) as log:
        await publish(log, [1])
        still = SinkDatabase(f"{database_url}?options=-cidle_in_transaction_session_timeout%3D500", totals)
        old, new = Sinking(log, still), Sinking(log, SinkDatabase(database_url, totals))
        await old.begin(range(8))
        session = still.transaction()
        await still.advance(await session.__aenter__(), old.positions, old.fence)
        await new.begin(range(8))  # waits for the row that the other holds
        with pytest.raises(LogUnavailable, match="does not answer"):
            await session.__aexit__(None, None, None)
        while await new.step(0.1):
            pass
        assert rows_in(database) == await folded(log)
        for each in (old, new):
            await each.end()
            await each.database.close()


async def test_an_event_that_fails_holds_its_key_until_it_is_tried_again(
    database_url: str, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log("memory://", APP) as log, sinking(log, database_url) as runner:
        await publish(log, [1, -2, 3], "a")
        await publish(log, [1, 2], "b")
        await until(lambda: runner.applied == 3)
        with database.connect() as connection:
            parked = connection.execute(text("SELECT key, error FROM totals.eventlib_sink_parked ORDER BY id")).all()
        assert [tuple(row) for row in parked] == [("a", "ValueError: -2 is no number to count with"), ("a", None)]
        wrong = await asyncio.to_thread(ended, "sink", "retry", NAMED, "counts/0/4711", "--database", database_url)
        assert "counts/0/4711 is not a parked event of totals with an error" in wrong.stderr
        monkeypatch.setattr(sink_app, "LEAST", -10)
        printed = await asyncio.to_thread(said, "sink", "retry", NAMED, "--database", database_url)
        assert "1 event will be tried again, and those that wait behind." in printed
        await until(lambda: runner.applied == 5)
        assert rows_in(database) == await folded(log)


async def test_handlers_may_be_async_and_take_many_at_once(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log:
        await publish(log, range(40))
        async with sinking(log, database_url, many) as runner:
            await until(lambda: runner.applied == 320)
        expected = {counter: row[:2] for counter, row in (await folded(log)).items()}
        assert {counter: row[:2] for counter, row in rows_in(database, "many").items()} == expected


async def test_an_inbox_answers_by_the_outbox_of_the_same_transaction(database_url: str, database: Engine) -> None:
    with database.begin() as connection:
        sink_app.outbox.create(connection)
    async with open_log("memory://", APP) as log, Runtime(log), sinking(log, database_url, echo) as runner:
        await publish(log, [1], "ab")
        await until(lambda: runner.applied == 2)
    with database.connect() as connection:
        rows = connection.execute(text("SELECT key, body, traceparent FROM eventlib_outbox ORDER BY key")).all()
    assert [(row.key, json.loads(row.body)["number"]) for row in rows] == [("a", 2), ("b", 2)]
    assert all(row.traceparent for row in rows)  # that of the event which is answered


async def test_what_is_applied_has_a_span_in_the_trace_of_its_event(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log("memory://", APP))
        for counter, number, trace_id in (("a", 1, "a" * 32), ("b", -1, "b" * 32)):
            token = CALLER.set(f"00-{trace_id}-b7ad6b7169203331-01")
            await publish(log, [number], counter)
            CALLER.reset(token)
        recorder = trace(stack, log, "memory://")
        assert recorder is not None
        await apply_all(log, database_url, observe=recorder.applied)
    told = capsys.readouterr().err
    assert re.search(f"trace {'a' * 32}.*\n  apply totals .sinks. Counted", told)
    assert re.search(f"trace {'b' * 32}.*\n  apply totals .sinks. Counted.*ValueError", told)


def test_what_a_sink_declares_wrongly_is_a_sentence() -> None:
    sink = SqlSink("wrong", APP)

    def without_type(event, session) -> None: ...  # type: ignore[no-untyped-def]

    def of_a_text(event: str, session: Session) -> None: ...

    async def not_async(event: Counted, session: Session) -> None: ...

    def many_with_meta(events: Sequence[Counted], session: Session, meta: Meta) -> None: ...

    for handler, sentence in (
        (without_type, "are read from its first parameter: write `def without_type"),
        (of_a_text, "is not an event with a topic"),
        (not_async, "has to be sqlalchemy's AsyncSession, since it is async"),
        (many_with_meta, "Meta is about one event"),
    ):
        with pytest.raises(WiringError, match=sentence):
            sink.on(handler)
    with pytest.raises(WiringError, match="a name begins with a letter"):
        SqlSink("Not-a-name", APP)
    with pytest.raises(WiringError, match="is for a sink with tables="):
        SqlSink("x", APP, version=2)
    with pytest.raises(WiringError, match="leave from_now=True out"):
        SqlSink("x", APP, tables=MetaData(), from_now=True)


async def test_metrics_say_how_far_a_sink_is_behind_and_what_a_relay_has_to_do(
    database_url: str, database: Engine
) -> None:
    with database.begin() as connection:
        sink_app.outbox.create(connection)
        sink_app.outbox.put(connection, Counted(counter="a", number=1), Counted(counter="b", number=1))
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log("memory://", APP))
        await publish(log, [1, -2, 3], "a")
        async with sinking(log, database_url) as running:
            await until(lambda: running.applied == 1)
        await publish(log, [4], "b")
        target, table = SinkDatabase(database_url, totals), OutboxTable(database_url)
        stack.push_async_callback(target.close)
        stack.push_async_callback(table.close)
        for measured_by, see in (
            ("sink", partial(sink_snapshot, running.runner, log, target)),
            ("outbox", partial(relay_snapshot, Relay(log, table, "shop"), table)),
        ):
            address = f"127.0.0.1:{free_port()}"
            seen, _ = await serve_metrics(stack, address, APP, measured_by, see, lambda: "")  # type: ignore[arg-type]
            async with httpx.AsyncClient() as client:
                told = (await client.get(f"{seen}/metrics")).text
            partition = contract_of(Counted).topic.partition_of(b"b")
            for line in EXPECTED[measured_by]:
                assert line.format(partition=partition) in told


EXPECTED = {
    "sink": [
        'eventlib_sink_applied_total{{sink="totals"}} 1.0',
        'eventlib_sink_parked{{sink="totals"}} 2.0',
        'eventlib_sink_lag{{partition="{partition}",sink="totals",topic="counts"}} 1.0',
    ],
    "outbox": ['eventlib_outbox_relayed_total{{outbox="shop"}} 0.0', 'eventlib_outbox_waiting{{outbox="shop"}} 2.0'],
}


def test_what_a_command_lacks_is_a_sentence(database_url: str, tmp_path: Path) -> None:
    log = f"sqlite:///{tmp_path}/log.db"
    assert "name the database" in ended("sink", "run", NAMED, "--log", log).stderr
    assert "set PGPASSWORD" in ended("sink", "status", NAMED, "--database", "postgresql://a:b@127.0.0.1/c").stderr
    assert "has not written into" in ended("sink", "status", NAMED, "--database", database_url, "--log", log).stderr
    assert "not a SqlSink" in ended("sink", "run", "tests.integration.sink_app:APP", "--database", database_url).stderr
