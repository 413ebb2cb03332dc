"""Rows of a sink are made anew beside the old ones, and switched to at once."""

import pytest
from sqlalchemy import Engine, text

from eventlib import ContractError, EventLog, WiringError, open_log
from eventlib.errors import OwnershipLost
from eventlib.sinks import SqlSink
from eventlib.sinks.applying import Sinking
from eventlib.sinks.database import SinkDatabase
from eventlib.sinks.rebuilding import rebuild
from tests.integration import sink_app
from tests.integration.outbox_app import APP
from tests.integration.sink_app import Base, echo, totals
from tests.integration.sinking import folded, publish, rows_in, sinking
from tests.waiting import until


async def test_a_rebuild_beside_is_switched_to_at_once_and_ends_an_older_version(
    database_url: str, database: Engine
) -> None:
    newer = SqlSink("totals", APP, tables=Base.metadata, version=2)
    newer.on(sink_app.counted)
    async with open_log("memory://", APP) as log:
        await publish(log, range(20))
        async with sinking(log, database_url) as old:
            await until(lambda: old.applied == 160)
            with database.begin() as connection:
                connection.execute(text("UPDATE totals.totals SET total = 0"))
                connection.execute(text("GRANT USAGE ON SCHEMA totals TO PUBLIC"))
                connection.execute(text("GRANT SELECT ON totals.totals TO PUBLIC"))
            early = Sinking(log, SinkDatabase(database_url, newer))
            with pytest.raises(WiringError, match="version 1, and this code is version 2: `eventlib sink rebuild`"):
                await early.begin([0])
            await early.database.close()
            assert await rebuild(log, newer, database_url) == 160
            await publish(log, [20])
            with pytest.raises(WiringError, match="version 2, and this code is version 1: deploy newer"):
                await old.end()
        async with sinking(log, database_url, newer) as new:
            await until(lambda: new.applied == 8)
        assert rows_in(database) == await folded(log)
        assert all(row[1] == 0 for row in rows_in(database, "totals_before").values())
    with database.connect() as connection:
        allowed = connection.execute(
            text("SELECT relacl::text FROM pg_class WHERE oid = 'totals.totals'::regclass")
        ).scalar()
    assert "=r/" in str(allowed)


async def test_a_rebuild_of_other_code_begins_anew(
    database_url: str, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()
    async with open_log("memory://", APP) as log:
        await publish(log, range(20))
        for is_other in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr("eventlib.sinks.rebuilding._until_here", _interrupted)
                with pytest.raises(OwnershipLost):
                    await rebuild(log, totals, database_url)
            if is_other:
                monkeypatch.setattr("eventlib.sinks.rebuilding.modules_version", lambda _: "other code")
            assert await rebuild(log, totals, database_url, told.append) == (160 if is_other else 0)
        assert rows_in(database) == await folded(log)
    assert len(told) == 1


async def _interrupted(_log: EventLog, work: Sinking, _tell: object) -> None:
    while await work.step(0.1):
        pass
    raise OwnershipLost("another rebuild has taken over")


async def test_a_rebuild_that_cannot_handle_an_event_does_not_switch(database_url: str, database: Engine) -> None:
    async with open_log("memory://", APP) as log:
        await publish(log, [1, -2], "a")
        await publish(log, [1, 2], "\0")  # which PostgreSQL's text cannot have
        async with sinking(log, database_url) as runner:
            await until(lambda: runner.applied == 1)
        before = rows_in(database)
        with pytest.raises(ContractError, match=r"events are parked \(3 so far\): mend the handlers, or give --parked"):
            await rebuild(log, totals, database_url)
        assert rows_in(database) == before
        assert await rebuild(log, totals, database_url, parked=True) == 1
    with pytest.raises(WiringError, match="declares no tables="):
        await rebuild(log, echo, database_url)


async def test_positions_of_another_log_are_refused(database_url: str) -> None:
    async with open_log("memory://", APP) as log, sinking(log, database_url) as runner:
        await publish(log, [1])
        await until(lambda: runner.applied == 8)
    async with open_log("memory://", APP) as log:
        work = Sinking(log, SinkDatabase(database_url, totals))
        with pytest.raises(WiringError, match="are those of another log: `eventlib sink rebuild`"):
            await work.begin([0])
        await work.database.close()
