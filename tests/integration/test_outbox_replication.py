"""A replica without the last commits takes over: what it has again comes no second time."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from eventlib import open_log
from eventlib.outbox import TABLE_SQL
from tests.integration.outbox_app import APP, Counted
from tests.integration.sinking import apply_all, folded, rows_in
from tests.integration.test_outbox import OUTBOX, counted, is_empty, relaying
from tests.postgres import PASSWORD, Postgres, engine_of, running_postgres
from tests.waiting import until


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
