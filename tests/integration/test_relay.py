"""The relay: what the services of one process say to each other continues at once, in one commit, or not at all."""

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.sagas import InstantCarrier, InstantGateway, order, run_orders, stock_up
from eventlib import Choreography, Event, EventLog, Publication, Runtime, RuntimeConfig, open_log
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import LogReadOnly
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.runtime.records import JournalEntry
from services import shop
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests.handling import handle_all
from tests.integration.calling_app import (
    ASKS,
    Asked,
    Called,
    Calling,
    Late,
    Passed,
    Phone,
    Shown,
    each_once,
    three_services,
)


async def opened(directory: Path, choreography: Choreography, options: SqliteOptions | None = None) -> EventLog:
    port = await SqliteLog.open(directory / "log.db", options=options)
    log = EventLog(port, FramedCodec(port), choreography)
    await log.prepare()
    return log


async def records_of(log: EventLog, topic: str) -> list[Record]:
    return [r for p in range(2) for r in await log.port.read(topic, p, 0, 100_000)]


async def names(log: EventLog, topic: str, kind: type[Event]) -> list[str]:
    return sorted((r.key or b"").decode() for r in await records_of(log, topic) if r.type == kind.__name__)


async def until_there_are(log: EventLog, count: int, topic: str, kind: type[Event]) -> None:
    async with asyncio.timeout(120):
        while len(await names(log, topic, kind)) < count:
            await asyncio.sleep(0.005)


async def test_what_one_says_reaches_the_others_in_the_same_commit(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    async with Runtime(log, ports={"phone": phone}) as runtime:
        await runtime.idle()
        assert isinstance(log.port, SqliteLog)
        commits = log.port.commits
        await log.publish(Asked(name="a"))
        await until_there_are(log, 1, "calls", Calling)
        assert log.port.commits == commits + 2  # the request, and all that follows from it
        times = {r.timestamp_ms for topic in ("passes", "shows", "calls") for r in await records_of(log, topic)}
        assert len(times) == 1
        phone.free.set()
        await runtime.idle()
        assert log.port.commits == commits + 3  # the answer, and who hears of it
    journal = [r for service in ("first", "second", "third") for r in await records_of(log, f"{service}.journal")]
    entries = [log.codec.decode(JournalEntry, r.value or b"") for r in journal]
    runs = [(s.topic, s.first) for e in entries for s in e.steps if s.kind == "run" and s.topic != ASKS.name]
    assert sorted(runs) == [("calls", 0)] * 2 + [("calls", 1)] * 2 + [("passes", 0), ("shows", 0)]
    await log.port.close()


async def test_services_that_hand_on_say_the_same_as_services_that_read(tmp_path: Path) -> None:
    async def run(url: str) -> tuple[set[tuple[object, ...]], Mapping[object, object]]:
        async with open_log(url, shop) as log:
            async with Runtime(log, ports={"gateway": InstantGateway(), "carrier": InstantCarrier()}) as runtime:
                await stock_up(log)
                await run_orders(log, runtime, 0, 40)
                for n in range(40, 60):  # one at a time, which is when they hand on most
                    await log.publish_many([order(n)])
                    await runtime.idle()
            said, states = set[tuple[object, ...]](), dict[object, object]()
            for topic in (await log.port.topics()).values():
                for partition in range(topic.partitions):
                    for record in await log.port.read(topic.name, partition, 0, 100_000):
                        if topic.name.endswith(".changelog") and (record.key or b"").startswith(b"state/"):
                            states[topic.name, record.key] = record.type, record.subject, record.sequence
                        elif not topic.name.endswith((".changelog", ".journal")) and record.id is not None:
                            said.add((topic.name, partition, record.id, record.type, record.key, record.causation_id))
            return said, states

    assert await run(f"sqlite:///{tmp_path}/log.db") == await run("memory://")


async def test_what_a_journal_entry_has_heard_was_said_in_earlier_ones(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", shop) as log:
        async with Runtime(log, ports={"gateway": InstantGateway(), "carrier": InstantCarrier()}) as runtime:
            line = DeliveryLine(sku="SKU-0", quantity=5)
            await log.publish(DeliverySubmitted(delivery_id="D", lines=(line,)))
            await runtime.idle()
            await log.publish_many([order(0)])
            await runtime.idle()
        heard = list[str]()
        for partition in range(shop.service("stock").partitions):
            for record in await log.port.read("stock.journal", partition, 0, 1_000):
                entry = log.codec.decode(JournalEntry, record.value or b"")
                heard += [step.topic for step in entry.steps if step.kind == "run" and entry.said][:1]
    # Stock asks a shelf, the shelf answers, and stock joins the answers: an entry each, though all is one commit.
    assert sorted(heard) == ["dispatches", "orders", "stock.deliveries", "stock.lines", "stock.requests"]


async def test_when_it_cannot_be_committed_nobody_has_done_anything(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    with sqlite3.connect(tmp_path / "log.db") as file:
        file.execute(
            "CREATE TRIGGER no BEFORE INSERT ON records WHEN NEW.type = 'Calling' BEGIN SELECT raise(ABORT, 'no'); END"
        )
    file.close()
    async with Runtime(log, ports={"phone": phone}, config=RuntimeConfig(retry_pause_s=0.01)) as runtime:
        await log.publish_many([Publication(Asked(name=name)) for name in "abc"])
        with pytest.raises(LogReadOnly):
            await runtime.failed()
    # Whoever could commit alone has done so, the others have not moved, and nothing went out.
    assert await names(log, "passes", Passed) == ["a", "b", "c"]
    assert await records_of(log, "shows") == await records_of(log, "calls") == []
    assert phone.calls == []
    with sqlite3.connect(tmp_path / "log.db") as file:
        file.execute("DROP TRIGGER no")
    file.close()
    phone.free.set()
    await handle_all(log, ports={"phone": phone})
    for topic, kind in (("passes", Passed), ("shows", Shown), ("calls", Calling), ("calls", Called)):
        assert await names(log, topic, kind) == ["a", "b", "c"]
    assert sorted(phone.calls) == ["a", "b", "c"]
    await log.port.close()


async def test_who_has_lost_its_claim_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set()), SqliteOptions(lease_s=0.5, heartbeat_s=0.1)), Phone()
    phone.free.set()
    async with Runtime(log, ports={"phone": phone}) as runtime:
        await runtime.idle()
        zombies = [await log.port.seize("second", partition) for partition in range(2)]
        await log.publish_many([Publication(Asked(name=name)) for name in "abcdef"])
        await until_there_are(log, 6, "passes", Passed)
        assert len(zombies) == 2
        await until_there_are(log, 6, "calls", Called)  # the service takes its partitions back
        await runtime.idle()
    for topic, kind in (("passes", Passed), ("shows", Shown), ("calls", Calling), ("calls", Called)):
        assert await names(log, topic, kind) == [*"abcdef"]
    await log.port.close()


async def test_a_deadline_that_comes_from_it_is_not_slept_through(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    async with Runtime(log, ports={"phone": phone}) as runtime:
        await runtime.idle()
        await log.publish(Asked(name="a", patience_s=0.2))
        await until_there_are(log, 1, "lates", Late)
    (passed,), (late,) = await records_of(log, "passes"), await records_of(log, "lates")
    assert late.timestamp_ms - passed.timestamp_ms >= 200
    await log.port.close()


async def test_it_hands_on_no_more_than_the_outside_world_keeps_up_with(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    config = RuntimeConfig(pending_effects=2, batch=1)
    async with Runtime(log, ports={"phone": phone}, config=config) as runtime:
        await runtime.idle()
        for n in range(30):
            await log.publish(Asked(name=f"n{n}"))
        await until_there_are(log, 30, "passes", Passed)
        await asyncio.sleep(0.1)
        assert len(phone.calls) <= 2 * (2 + 2)  # of each partition: up to the limit, and a batch and a round beyond
        phone.free.set()
        await runtime.idle()
    assert len(await names(log, "calls", Called)) == 30
    await log.port.close()


async def test_a_key_that_cannot_be_handled_is_parked_there_and_nowhere_else(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services({"b"})), Phone()
    phone.free.set()
    async with Runtime(log, ports={"phone": phone}) as runtime:
        await runtime.idle()
        for name in "abc":
            await log.publish(Asked(name=name))
        await runtime.idle()
    assert await names(log, "passes", Passed) == ["a", "b", "c"]
    assert await names(log, "shows", Shown) == ["a", "c"]
    assert await names(log, "second.parked", Passed) == ["b"]
    await log.port.close()


async def test_each_input_is_taken_in_its_order_however_busy_the_readers_are(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    phone.free.set()
    async with Runtime(log, ports={"phone": phone}, config=RuntimeConfig(batch=2)) as runtime:
        fit = [name for name in map(str, range(2_000)) if ASKS.partition_of(name.encode()) == 0]
        for one, other, asked in zip(
            *[iter(fit)] * 3, strict=False
        ):  # what is published fills a batch, and what is said comes just behind
            await runtime.idle()
            said = Passed(name=one), Passed(name=other), Asked(name=asked)
            await log.publish_many([Publication(event) for event in said])
        await runtime.idle()
    for service in ("first", "second", "third"):
        for partition in range(2):
            await each_once(log, service, partition)
    await log.port.close()


async def test_the_store_hears_also_of_what_was_only_ever_handed_on(tmp_path: Path) -> None:
    log, phone = await opened(tmp_path, three_services(set())), Phone()
    phone.free.set()
    async with Runtime(log, ports={"phone": phone}) as runtime:
        await runtime.idle()
        await log.publish_many([Publication(Asked(name="x" * 300 + f"{n}")) for n in range(3_000)])
        await runtime.idle()
    assert len(await names(log, "calls", Called)) == 3_000
    await handle_all(log, ports={"phone": phone})
    assert len(await names(log, "calls", Calling)) == len(phone.calls) == 3_000
    await log.port.close()
