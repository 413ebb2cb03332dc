"""Live views where no broker is needed: what is refused, and which windows a time is in."""

import asyncio
import importlib
import logging
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from aiokafka.consumer import fetcher
from aiokafka.structs import TopicPartition

from eventlib import cli
from eventlib.errors import ContractError, WiringError
from eventlib.log.kafka.batches import batches
from eventlib.log.kafka.bounded_consumers import bound_fetches
from eventlib.model.record import Record
from eventlib.personal.secret_file import create_secret
from services import shop
from services.order.events import OrderLine, OrderPlaced
from tests.ports import free_port
from tests.unit.test_kafka_batches import NOBODY, batches_from, placed


def test_a_log_that_is_not_on_kafka_is_refused_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["live", "--log", "sqlite:///var/none.db"]) == 1
    said = capsys.readouterr().err
    assert "kafka://host:port" in said
    assert "eventlib copy --from sqlite:///var/none.db" in said


@pytest.mark.parametrize("service", ["order", "stock", "payment", "dispatch"])
def test_views_are_imported_without_a_broker(service: str) -> None:
    from eventlib.live.app import LiveApp

    app = importlib.import_module(f"services.{service}.views").app
    assert isinstance(app, LiveApp)
    assert all(topic.name.startswith(f"live.{service}.") for topic in app.own_topics())


def test_a_service_without_views_is_told_where_they_belong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", "kafka://127.0.0.1:1")  # the command sets it, too
    assert cli.run(["live", "--app", "examples.loyalty:app", "--service", "loyalty"]) == 1
    assert "has no live views: write them into" in capsys.readouterr().err


PLACE = TopicPartition("orders", 0)


@pytest.fixture
def consumer() -> Iterator[Any]:
    """What Faust reads with, not started: nothing is asked of brokers."""

    from services.order import views

    async def called(*_: object) -> None:
        pass

    calls = dict.fromkeys(("callback", "on_partitions_revoked", "on_partitions_assigned"), called)
    made = cast("Any", views.app.transport.create_consumer(**calls))
    yield made
    made._thread.thread_loop.close()  # noqa: SLF001  it was made for a thread that does not run


async def test_what_a_refused_commit_had_is_committed_later(consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was silent for longer than its session reads again from where the brokers know it, and says so."""

    from services.order import views

    async def refused(*_: object) -> bool:
        return False

    monkeypatch.setattr(consumer, "assignment", lambda: {PLACE})
    monkeypatch.setattr(consumer, "_commit", refused)
    monkeypatch.setattr(
        consumer, "_committed_offset", defaultdict[TopicPartition, int | None](lambda: None, {PLACE: 5})
    )
    monkeypatch.setattr(views.app.producer, "flush", refused)
    assert not await consumer._commit_offsets({PLACE: 9})  # noqa: SLF001  as its timer does
    assert consumer._should_commit(PLACE, 9)  # noqa: SLF001


@pytest.mark.parametrize("overtaken", [False, True])
async def test_a_fetch_that_a_rebalance_overtakes_is_taken_back(
    consumer: Any, monkeypatch: pytest.MonkeyPatch, *, overtaken: bool
) -> None:
    """It brings what is behind the new positions, and Faust drops that: it knows which partitions are active by then."""

    from eventlib.live.counters import ViewCounters
    from services.order import views

    record = SimpleNamespace(offset=25, headers=(), timestamp=1)
    arrives, taken_back = asyncio.Event(), list[Any]()

    async def fetch(*_: object) -> dict[TopicPartition, list[Any]]:
        await arrives.wait()
        return {PLACE: [record]}

    async def take_back(fetched: Any) -> None:
        taken_back.append(fetched)

    async def committed() -> dict[TopicPartition, int]:
        return {PLACE: 25}

    monkeypatch.setattr(views.app, "counters", ViewCounters())
    monkeypatch.setattr(consumer._thread, "getmany", fetch)  # noqa: SLF001
    monkeypatch.setattr(consumer._thread, "seek_to_committed", committed)  # noqa: SLF001
    monkeypatch.setattr(consumer._thread, "take_back", take_back)  # noqa: SLF001
    fetching = asyncio.create_task(consumer._getmany({PLACE}, 1.0))  # noqa: SLF001
    await asyncio.sleep(0)
    if overtaken:
        await consumer.perform_seek()
    arrives.set()
    assert await fetching == ({} if overtaken else {PLACE: [record]})
    assert taken_back == ([{PLACE: [record]}] if overtaken else [])


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_a_full_buffer_is_no_warning(level: int, caplog: pytest.LogCaptureFixture) -> None:
    from services.order import views

    buffer = views.app.transport.create_producer().buffer
    for _ in range(buffer.max_messages + 1):
        buffer.pending.put_nowait(None)
    with caplog.at_level(level), pytest.raises(RuntimeError, match="Producer not Running"):  # it waits where it runs
        await buffer.wait_until_ebb()
    seen = [record.levelname for record in caplog.records if "producer buffer full" in record.getMessage()]
    assert seen == (["DEBUG"] if level == logging.DEBUG else [])


def test_a_time_is_in_one_tumbling_window() -> None:
    from services.order import views

    assert [*views.outcomes.starts(59_999)] == [0]
    assert [*views.outcomes.starts(60_000)] == [60_000]


def test_a_time_is_in_as_many_hopping_windows_as_there_are_steps() -> None:
    from services.payment.views import failures

    minute = 60_000
    assert [*failures.starts(10 * minute)] == [n * minute for n in (6, 7, 8, 9, 10)]
    assert [*failures.starts(10 * minute + 59_999)] == [n * minute for n in (6, 7, 8, 9, 10)]


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MemoryRecords", "PartitionRecords"):
        monkeypatch.setattr(fetcher, name, getattr(fetcher, name))
    bound_fetches(2_500_000)


def test_what_views_read_with_is_bounded_as_the_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from services.order import views

    bounds = list[int]()
    monkeypatch.setattr("eventlib.live.app.bound_fetches", bounds.append)
    views.app._new_transport()  # noqa: SLF001  Faust calls it
    assert bounds == [views.app.connection.options.inflated_bytes]


def fetched(data: bytes, offset: int = 0) -> Any:
    batches, place = fetcher.MemoryRecords(data), TopicPartition("t", 0)
    assert batches.has_next()
    return fetcher.PartitionRecords(place, batches, [], offset, None, None, True, fetcher.READ_COMMITTED)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("compression", [0, 1], ids=["plain", "gzip"])
def test_what_is_fetched_for_views_is_inflated_within_a_bound_and_nothing_is_passed_over(
    compression: int,
) -> None:
    records = [Record("t", 0, -1, 1, b"%d" % n, bytes(300_000)) for n in range(20)]
    data = placed([*batches(records, NOBODY._replace(compression=compression), {}, lambda _: 700_000)])
    seen, fetches = list[tuple[int, bytes]](), 0
    while len(seen) < len(records):
        partition = fetched(data, len(seen))
        taken = [(record.offset, record.key) for record in partition]
        assert partition.next_fetch_offset == len(seen) + len(taken)
        data = batches_from(data, partition.next_fetch_offset)
        seen, fetches = seen + taken, fetches + 1
    assert seen == [(n, b"%d" % n) for n in range(20)]
    assert fetches == (3 if compression else 1)


@pytest.mark.usefixtures("bounded")
def test_a_batch_that_no_view_can_take_is_named_with_the_remedy() -> None:
    records = [Record("t", 0, -1, 1, None, bytes(1_000_000)) for _ in range(300)]
    data = placed([*batches(records, NOBODY._replace(compression=1), {}, lambda _: 1_000_000_000)])
    tracemalloc.start()
    try:
        with pytest.raises(ContractError, match=r"t/0 .* at 0: .*more than 2,500,000.*EVENTLIB_KAFKA_INFLATED_BYTES"):
            next(fetched(data))
        assert tracemalloc.get_traced_memory()[1] < 15_000_000
    finally:
        tracemalloc.stop()


def test_a_customers_hash_is_keyed_once_there_is_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from services.order import views

    without_person = views._without_person  # noqa: SLF001  what is published of a customer
    order = OrderPlaced(
        order_id="1",
        customer_id="12583",
        country="France",
        currency="EUR",
        amount_cents=1,
        lines=(OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=1),),
        placed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    plain = without_person(order).customer_hash
    assert plain == blake2b(b"12583", digest_size=8).hexdigest()  # as before: who knows the ids can try them all
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", "ab" * 16)
    by_installation = without_person(order).customer_hash
    assert by_installation not in {None, plain}
    create_secret(tmp_path / "pseudonyms.key")
    monkeypatch.setenv("EVENTLIB_PERSONAL_PSEUDONYMS", str(tmp_path / "pseudonyms.key"))
    keyed = without_person(order).customer_hash
    assert keyed is not None
    assert len(keyed) == 16
    assert keyed not in {plain, by_installation}
    assert keyed == without_person(order).customer_hash


async def test_pages_are_served_within_the_limits_of_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlib.live.app import LiveApp, Pages

    monkeypatch.setenv("EVENTLIB_HTTP_HEADER_S", "0.2")
    monkeypatch.setenv("EVENTLIB_HTTP_CONNECTIONS", "3")
    app, port = LiveApp(shop, "order"), free_port()
    app.finalize()
    app.conf.web_port = port
    pages = Pages(app)
    await pages.start_server()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/views")).json() == {"service": "order", "views": [], "lost": []}
            assert (await client.get("/views/none")).status_code == 404
            assert (await client.get("/router")).status_code == 404  # one of Faust's own
            assert (await client.get("/views", headers={"Host": "rebound.example"})).status_code == 421
            assert (await client.get("/views", headers={f"X-{n}": "y" for n in range(100)})).status_code == 431
        assert await answered(port, b"GET /views HTTP/1.1\r\nX: ") == b"HTTP/1.1 408"
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        assert (await asyncio.wait_for(silent[0][0].read(), 10)) == b""
        for _, writer in silent:
            writer.close()
    finally:
        await pages.stop_server()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def answered(port: int, head: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    found = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return found[:12]


async def test_pages_are_not_served_to_other_machines_without_identity() -> None:
    from eventlib.live.app import LiveApp, Pages

    app = LiveApp(shop, "order")
    app.finalize()
    app.conf.web_bind = "0.0.0.0"  # noqa: S104  it is refused
    with pytest.raises(WiringError, match="no identity is configured"):
        await Pages(app).start_server()
