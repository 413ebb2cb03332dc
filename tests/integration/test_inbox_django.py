"""An application on Django takes events within its own transactions, each once, whatever dies."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from eventlib import open_log
from services import shop
from tests import forked
from tests.integration.shop_log import placed
from tests.waiting import until

NAMED = "examples.desk.inbox:inbox"
LONGEST_S = 60


@pytest.fixture
def desk(database: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The desk's database, migrated, with two customers."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "examples.desk.settings")
    url = database.url
    for key, value in {"HOST": url.host, "PORT": url.port, "USER": url.username, "DATABASE": url.database}.items():
        monkeypatch.setenv(f"PG{key}", str(value))
    forked.run([sys.executable, "-m", "django", "migrate", "--run-syncdb", "-v", "0"], check=True)
    with database.begin() as connection:
        connection.execute(text("INSERT INTO desk_customer VALUES ('ada', 100000, 0), ('poor', 100, 0)"))
    return database


def started(log_url: str) -> "Popen[str]":
    return forked.Popen([sys.executable, "-m", "eventlib", "sink", "run", NAMED, "--log", log_url], text=True)


def printed(command: str, *more: str) -> str:
    done = forked.run([sys.executable, "-m", "eventlib", "sink", command, NAMED, *more], capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(desk: Engine, question: str) -> int:
    try:
        with desk.connect() as connection:
            return int(connection.execute(text(question)).scalar() or 0)
    except ProgrammingError:  # the inbox has not made its tables yet
        return 0


@pytest.mark.extended
async def test_a_desk_on_django_takes_each_order_once_though_it_is_killed(desk: Engine, tmp_path: Path) -> None:
    log_url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(log_url, shop) as log:
        await log.prepare()
        with ExitStack() as stack:
            for start in (0, 100, 200):
                work = stack.enter_context(started(log_url))
                stack.callback(work.kill)
                if start == 0:
                    await until(lambda: number(desk, POSITIONS) == 8)
                await log.publish_many([placed(f"ada{n}") for n in range(start, start + 100)])
                await until(lambda: number(desk, SPENT) > start * 10)  # noqa: B023  it is asked at once
                work.send_signal(signal.SIGKILL if start < 200 else signal.SIGTERM)
                work.wait()
            await log.publish_many([placed(f"poor{n}", 101, "poor") for n in range(2)])
            work = stack.enter_context(started(log_url))
            stack.callback(work.kill)
            await until(lambda: number(desk, CALLED_OFF) == 2 and number(desk, SPENT) == 3_000)
            work.terminate()
            assert work.wait(LONGEST_S) == 0
    assert number(desk, SPENT) == 3_000


@pytest.mark.heavy
async def test_what_the_desk_cannot_handle_is_parked_and_tried_again(desk: Engine, tmp_path: Path) -> None:
    log_url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(log_url, shop) as log:
        await log.prepare()
        with ExitStack() as stack:
            work = stack.enter_context(started(log_url))
            stack.callback(work.kill)
            await until(lambda: number(desk, POSITIONS) == 8)
            with desk.begin() as connection:
                connection.execute(text("ALTER TABLE desk_customer ADD CHECK (spent_cents < 25)"))
            await log.publish_many([placed(f"ada{n}") for n in range(4)])
            await until(lambda: number(desk, PARKED) == 2)
            shown = printed("status", "--log", log_url)
            assert "desk is 0 offsets behind the log; 2 events parked, 0 retried, 0 waiting behind them." in shown
            assert "IntegrityError" in shown
            with desk.begin() as connection:
                connection.execute(text("ALTER TABLE desk_customer DROP CONSTRAINT desk_customer_spent_cents_check"))
            printed("retry")
            await until(lambda: number(desk, SPENT) == 40)
            work.terminate()
            assert work.wait(LONGEST_S) == 0


POSITIONS = "SELECT count(*) FROM eventlib_sink_positions"
SPENT = "SELECT sum(spent_cents) FROM desk_customer"
CALLED_OFF = "SELECT count(*) FROM eventlib_outbox WHERE type = 'CancelSubmitted'"
PARKED = "SELECT count(*) FROM eventlib_sink_parked"
