"""Applications that have a database of their own take part in a saga: one on FastAPI and SQLAlchemy, one on Django."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session

from eventlib import Choreography, EventLog, WiringError, open_log
from eventlib.outbox import DjangoOutbox
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import Relay
from eventlib.sinks.applying import Sinking
from eventlib.sinks.database import SinkDatabase
from services import shop
from tests.integration.outbox_app import APP, Counted
from tests.integration.shop_log import placed
from tests.integration.sinking import end
from tests.postgres import PASSWORD, psycopg_url

LONGEST_S = 60


def relayed(choreography: Choreography, url: str, log_url: str, events: int) -> list[object]:
    """Relay so many events to a log, and return the events on it."""

    async def worked() -> list[object]:
        table = OutboxTable(url)
        async with open_log(log_url, choreography) as log:
            relay = Relay(log, table)
            task = asyncio.create_task(relay.run())
            deadline = time.monotonic() + LONGEST_S
            while relay.applied < events:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await table.close()
            return [event async for event in all_of(log)]

    return asyncio.run(worked())


async def all_of(log: EventLog) -> AsyncIterator[object]:
    for topic in (each for each in await log.port.topics() if not each.startswith("_")):
        for partition in range(8):
            for record in await log.port.read(topic, partition, 0, 1_000):
                yield log.decode(record)


def test_an_order_begins_with_the_transaction_that_closes_its_basket(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHECKOUT_DATABASE", psycopg_url(database_url))
    checkout = import_module("examples.checkout")
    checkout.Base.metadata.create_all(checkout.engine)
    lines = [{"line_no": 1, "sku": "85123A", "quantity": 2, "unit_price_cents": 255}]
    with Session(checkout.engine) as session, session.begin():
        checkout.outbox.create(session.connection())
        session.add_all(checkout.Basket(id=name, country="France", lines=lines) for name in ("b1", "b2"))
        session.add(checkout.Basket(id="b3", country="France", lines=[]))  # no order has no line
    with TestClient(checkout.app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answers = [client.post(f"/baskets/{name}/checkout").status_code for name in ("b1", "b1", "b3", "b2")]
    assert answers == [202, 409, 500, 202]
    checkout.engine.dispose()
    events = relayed(shop, database_url, f"sqlite:///{tmp_path}/log.db", 2)
    assert sorted(getattr(event, "order_id", "") for event in events) == ["b1", "b2"]


@pytest.fixture
def on_django(database_url: str) -> Iterator[None]:
    """Django, set up for a database, whose outbox its migration has made."""
    address, _, name = database_url.rpartition("/")
    user, _, host = address.removeprefix("postgresql://").partition("@")
    host, _, port = host.partition(":")
    place = {"NAME": name, "USER": user, "PASSWORD": PASSWORD, "HOST": host, "PORT": port}
    settings.configure(
        INSTALLED_APPS=["eventlib.outbox.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **place}},
    )
    django.setup()
    call_command("migrate", verbosity=0)
    yield
    connection.close()


@pytest.mark.usefixtures("on_django")
def test_django_puts_events_within_its_transactions(database_url: str, tmp_path: Path) -> None:
    outbox = DjangoOutbox(APP)
    with pytest.raises(WiringError, match="there is no transaction"):
        outbox.put(Counted(counter="a", number=1))
    with transaction.atomic():
        outbox.put(Counted(counter="a", number=1), Counted(counter="b", number=1))
        outbox.put(Counted(counter="a", number=2))
    with suppress(ZeroDivisionError), transaction.atomic():
        outbox.put(Counted(counter="a", number=3))
        _ = 1 / 0
    events = relayed(APP, database_url, f"sqlite:///{tmp_path}/log.db", 3)
    assert [event.number for event in events if isinstance(event, Counted) and event.counter == "a"] == [1, 2]
    call_command("migrate", "eventlib_outbox", "zero", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('eventlib_outbox')")
        assert cursor.fetchone() == (None,)


async def test_a_credit_desk_takes_events_and_answers_them_in_one_transaction(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDIT_DATABASE", psycopg_url(database_url))
    credit = import_module("examples.credit")
    credit.Base.metadata.create_all(credit.engine)
    with Session(credit.engine) as session, session.begin():
        credit.outbox.create(session.connection())
        session.add(credit.Customer(id="ada", limit_cents=1_000))
    async with open_log("memory://", shop) as log:
        work = Sinking(log, SinkDatabase(database_url, credit.inbox))
        await log.publish(placed("o0", 600))  # before it began
        await work.begin(range(8))
        await log.publish_many([placed("o1", 600), placed("o2", 600), placed("o3", 400)])
        await end(work)
    with TestClient(credit.app, base_url="http://localhost") as client:
        assert client.get("/customers/ada").json() in {600, 1_000}  # orders have partitions of their own
    with Session(credit.engine) as session:
        asked = session.execute(text("SELECT type, count(*) FROM eventlib_outbox GROUP BY type")).all()
    assert [tuple(row) for row in asked] == [("CancelSubmitted", 1)]
    credit.engine.dispose()
