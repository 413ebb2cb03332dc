"""What servers write of people: logs at DEBUG, spans, metrics, tables, journals. Nothing of it shows who was forgotten, or proves it.

In one process run the services, an API, a sink, deliveries by webhook, a view and a relay, by an application whose code fails
everywhere and quotes people. Then every byte is searched for them, in plain and by hashes of what could be guessed.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Never

import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session

from eventlib import EventLog, Runtime, RuntimeConfig, WiringError, open_log
from eventlib.errors import LogUnavailable
from eventlib.http import SagaApi
from eventlib.model.record import Record
from eventlib.outbox import SqlAlchemyOutbox
from eventlib.queries import SagaIndex
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View
from eventlib.sinks.applying import Sinking
from eventlib.sinks.database import SinkDatabase
from eventlib.telemetry.logs import TALKATIVE, set_up_logging
from eventlib.telemetry.options import telemetry_options
from eventlib.telemetry.process import Telemetry, telemetry_of
from eventlib.testing import client_of
from tests.integration.hooking import delivering, until_status
from tests.integration.otlp import receiving as collecting
from tests.integration.planted_people import erased, guessed_in, leaks, person
from tests.integration.quoting_app import AWAY, NOTED, PLACES, Doors, Visit, VisitAsked, app, guests, visits
from tests.integration.sinking import apply_all
from tests.integration.test_outbox import relaying
from tests.serving import serving
from tests.webhook_receiver import Delivered, Reply, receiving

PEOPLE = range(2 * len(PLACES))
"""Two for each place in which code fails."""


class Wanted(BaseModel):
    person_id: str
    name: str
    street: str
    email: str
    where: str


class Shown(BaseModel):
    person_id: str


def wanted(number: int) -> Wanted:
    texts = {name: value for name, value in person(number).items() if name in {"name", "street", "email"}}
    return Wanted(person_id=f"c{number}", where=PLACES[number // 2], **texts)


def asked(visit_id: str, body: Wanted) -> VisitAsked:
    return VisitAsked(visit_id=visit_id, **body.model_dump())


def shown(visit: Visit) -> Shown:
    return Shown(person_id=visit.person_id)


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Write all that this process logs, as servers do; and what our modules log as who has no formatter of ours."""
    root, own = logging.getLogger(), logging.getLogger("eventlib")
    loggers = [root, *map(logging.getLogger, TALKATIVE)]
    before, handlers = [each.level for each in loggers], root.handlers
    root.handlers, plain = [], logging.FileHandler(path.with_suffix(".plain"))
    try:
        set_up_logging("json", "DEBUG", personal=True)
        root.handlers[0].setStream(path.open("w"))  # type: ignore[attr-defined]  # it writes to a stream
        own.addHandler(plain)
        yield
    finally:
        own.removeHandler(plain)
        plain.close()
        root.handlers[0].stream.close()  # type: ignore[attr-defined]  # as above
        root.handlers = handlers
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


def echo(delivered: Delivered) -> Reply:
    """Refuse what comes, and repeat it."""
    return 500, {}, delivered.body


def subscribed(path: Path, url: str) -> Path:
    path.write_text(
        f'[subscribers.one]\nurl = "{url}"\nevents = ["VisitAsked"]\nsecrets = ["env:HOOK_SECRET"]\nprivate = true\n'
        'personal = true\nbegin = "start"\nattempts = 2\nretry_s = 0.01\n'
    )
    return path


@asynccontextmanager
async def served(log: EventLog, telemetry: Telemetry, state_dir: Path) -> AsyncIterator[Runtime]:
    config, doors = RuntimeConfig(state_dir=str(state_dir)), Doors()
    doors.names = {f"c{number}": wanted(number).name for number in PEOPLE}
    async with Runtime(log, ports={"doors": doors}, config=config, observer=telemetry.recorder) as runtime:
        telemetry.observe(log, runtime, config)
        yield runtime


async def everybody_visited(log: EventLog, telemetry: Telemetry, directory: Path) -> str:
    """Ask for all visits, each twice, and wait for what becomes of them; return the metrics."""
    api = SagaApi(SagaIndex(log, visits), VisitAsked, name="visits")
    asgi = api.include(api.resource("/visits", asked, shown))
    async with served(log, telemetry, directory / "state") as runtime, client_of(asgi) as client:
        for number in PEOPLE:
            for _ in range(2):
                headers = {"Idempotency-Key": f"visit {number}"}
                answer = await client.post("visits", json=wanted(number).model_dump(), headers=headers)
                assert answer.status_code == 202
        await runtime.idle()
        streamed = (await client.get(f"visits/{api.requests.key_for('visit 0')}/events")).text
        assert wanted(0).name in streamed
        return (await telemetry.exposition()).decode() + (await client.get("metrics")).text


async def relayed_unfit(log: EventLog, url: str, engine: Engine) -> None:
    """Put a person into an outbox whose row then fits no event, and wait until it is held."""
    outbox = SqlAlchemyOutbox(app)
    with Session(engine) as session, session.begin():
        outbox.create(session.connection())
        outbox.put(session, asked("unfit", wanted(0)))
        session.execute(text("""UPDATE eventlib_outbox SET body = replace(body, '"where":""', '"where":"nowhere"')"""))
    async with asyncio.timeout(60), relaying(log, url):
        while not (held := rows_of(engine, "SELECT error FROM eventlib_outbox WHERE error IS NOT NULL")):
            await asyncio.sleep(0.02)
    assert held[0][0].startswith("ContractError: ")
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE eventlib_outbox SET body = ''")
        )  # which is the application's, as its other rows are


def rows_of(database: Engine, question: str) -> list[tuple[str, ...]]:
    with database.connect() as connection:
        return [(*map(str, row),) for row in connection.execute(text(question))]


def dump(database: Engine, path: Path) -> None:
    """Write every row of a database to a file."""
    found = inspect(database)
    names = [f"{schema}.{table}" for schema in ("public", "guests") for table in found.get_table_names(schema)]
    path.write_text("\n".join(str(row) for name in names for row in rows_of(database, f"SELECT * FROM {name}")))  # noqa: S608


@pytest.mark.usefixtures("hook_secret", "master_key")
async def test_nothing_that_a_server_writes_shows_or_proves_who_was_forgotten(
    tmp_path: Path, database_url: str, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = f"sqlite:///{data}/log.db"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1.0")
    with logged(data / "server.log"), collecting(keeps=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with telemetry_of(app, url, telemetry_options(), metrics=True) as telemetry:
            assert telemetry is not None
            async with open_log(url, app) as log, receiving(echo) as receiver:
                (data / "metrics.txt").write_text(await everybody_visited(log, telemetry, data))
                async with delivering(log, subscribed(tmp_path / "hooks.toml", receiver.url)):
                    await until_status(log, tmp_path / "hooks.toml", failed=len(PEOPLE))
                async with Projection(log, NOTED) as view:
                    assert await view.caught_up(60)
                    assert len(view.misfits) == 2
                await apply_all(log, database_url, guests)
                await relayed_unfit(log, database_url, database)
                parked = rows_of(database, "SELECT error FROM guests.eventlib_sink_parked WHERE error IS NOT NULL")
                assert len(parked) == 9  # two for each of five places; of two guests that are the same, one is entered
                with database.begin() as connection:  # as an earlier version kept them
                    kept = (
                        "UPDATE guests.eventlib_sink_parked SET error = 'ValueError: ' || :name WHERE error IS NOT NULL"
                    )
                    connection.execute(text(kept), {"name": wanted(0).name})
                await erased(log, url, *(f"c{number}" for number in PEOPLE))
                await apply_all(log, database_url, guests)
        (data / "spans.bin").write_bytes(b"\n".join(body for _, body in collector.bodies))
    dump(database, data / "database.txt")
    for name, says in (
        ("server.log", "parks visit.requests"),
        ("database.txt", "its text is withheld"),
        ("metrics.txt", "eventlib_"),
    ):
        assert says in (data / name).read_text()
    assert leaks(data) == []
    bodies = [wanted(number).model_dump() for number in PEOPLE]
    texts = [body[name] for body in bodies for name in ("name", "street", "email")]
    assert guessed_in(data, *texts, *bodies) == []


@pytest.mark.usefixtures("master_key")
async def test_a_view_that_ends_says_where_and_not_what(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def quoting(_db: sqlite3.Connection, _record: Record, event: object) -> Never:
        raise KeyError(event.name if isinstance(event, VisitAsked) else "")

    view = View("ends", topics=["visit.requests"], tables="CREATE TABLE ends (n INTEGER)", apply=quoting)
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log, Projection(log, view) as ending:
        await log.publish(asked("v1", wanted(0)))
        with pytest.raises(KeyError):
            await ending.failed()
    assert "projection ends has ended: it needs a person" in caplog.text
    assert "in quoting" in caplog.text
    assert wanted(0).name not in caplog.text


@pytest.mark.usefixtures("master_key")
@pytest.mark.parametrize("where", AWAY)
async def test_what_a_sink_waits_for_or_ends_with_quotes_no_person(
    tmp_path: Path, database_url: str, where: str
) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        await log.publish(asked("v1", wanted(0).model_copy(update={"where": where})))
        work = Sinking(log, SinkDatabase(database_url, guests))
        await work.begin(range(8))
        with pytest.raises(WiringError if where == "WiringError" else LogUnavailable, match="guests") as caught:
            await work.step(0.1)
        await work.end()
        await work.database.close()
    assert wanted(0).name not in str(caught.value)


@pytest.mark.usefixtures("hook_secret", "master_key")
@pytest.mark.parametrize("form", ["{}: x", "HTTP/1.1 500 {}", "HTTP/1.1 200 X\r\n{}"])
async def test_an_endpoint_that_breaks_http_puts_no_person_on_the_log(tmp_path: Path, form: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(form.format(wanted(0).name).encode() + b"\r\n\r\n")
        await writer.drain()
        writer.close()

    hooks = tmp_path / "hooks.toml"
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log, serving(answer) as port:
        await log.publish(asked("v1", wanted(0)))
        async with delivering(log, subscribed(hooks, f"http://127.0.0.1:{port}/hooks")):
            found = await until_status(log, hooks, failed=1)
    assert found.first[0].error
    assert wanted(0).name not in found.first[0].error
