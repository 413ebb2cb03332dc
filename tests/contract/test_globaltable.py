"""GlobalTable on every log: it begins with all there is, follows, forgets what is deleted, and says when it cannot."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from eventlib import Choreography, Event, EventLog, GlobalTable, Publication, Topic, WiringError, open_log
from eventlib.errors import ContractError, LogUnavailable
from eventlib.foreign import Json
from eventlib.log.port import Record
from eventlib.log.reader import LogReader
from eventlib.times import now_ms
from tests.unit.small_services import noting

GOODS = Topic("goods", partitions=4, latest=True)


class Listed(Event, topic=GOODS, key="sku"):
    sku: str
    cents: int


class Renamed(Event, topic=GOODS, key="sku"):
    sku: str
    name: str


class Delisted(Event, topic=GOODS, key="sku", tombstone=True):
    sku: str


class Customer(Event, topic=Topic("crm", partitions=2, compacted=True), key="customer_id", foreign=Json()):
    customer_id: str
    name: str


class Moment(Event, topic="moments", key="k"):
    k: str


CATALOGUE = Choreography("catalogue", [noting()], facts=[Listed, Renamed, Delisted, Customer, Moment])

Opened = Callable[[], AbstractAsyncContextManager[EventLog]]


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same log again and again, as other processes do."""
    if request.param == "sqlite":
        yield lambda: open_log(f"sqlite:///{tmp_path}/log.db", CATALOGUE)
        return
    async with open_log("memory://", CATALOGUE) as kept:

        @asynccontextmanager
        async def again() -> AsyncIterator[EventLog]:
            log = EventLog(kept.port, kept.codec, CATALOGUE)
            await log.prepare()
            yield log

        yield again


def listed(numbers: range, cents: int) -> list[Publication]:
    return [Publication(Listed(sku=f"S{n}", cents=cents)) for n in numbers]


async def test_it_begins_with_the_newest_of_each_key(opened: Opened) -> None:
    async with opened() as log:
        await log.publish_many([*listed(range(3_000), 1), *listed(range(1_000), 2)])
        await log.publish(Delisted(sku="S5"))
        async with GlobalTable(log, Listed) as goods:
            assert len(goods) == 2_999
            assert goods["S7"] == Listed(sku="S7", cents=2)
            assert goods["S2000"].cents == 1
            assert goods.get("S5") is None
            assert "S5" not in goods
            assert sorted(goods) == sorted({f"S{n}" for n in range(3_000)} - {"S5"})
            with pytest.raises(KeyError):
                goods["S5"]


async def test_it_follows_what_others_write(opened: Opened) -> None:
    async with opened() as log, opened() as elsewhere, asyncio.timeout(20), GlobalTable(log, Listed) as goods:
        assert dict(goods) == {}
        for cents in range(1, 20):
            position = await elsewhere.publish(Listed(sku="A", cents=cents))
            await goods.reached(position)
            assert goods["A"].cents == cents
        await goods.reached(await elsewhere.publish(Delisted(sku="A")))
        assert "A" not in goods
        await goods.reached(await elsewhere.publish(Listed(sku="A", cents=99)))
        assert goods["A"].cents == 99


async def test_a_reached_position_is_one_of_its_topic(opened: Opened) -> None:
    async with opened() as log, asyncio.timeout(20), GlobalTable(log, Listed) as goods:
        await log.publish(Listed(sku="A", cents=1))
        (record,) = await log.port.read("goods.latest", GOODS.partition_of(b"A"), 0, 10)
        own = await log.publish(Moment(k="1"))
        with pytest.raises(ContractError, match="not the topic of this table"):
            await goods.reached(own)
        first = await log.publish(Listed(sku="B", cents=1))
        copy = type(first)("goods.latest", record.partition, record.offset, first.recorded_at)
        await goods.reached(copy)
        assert goods["A"].cents == 1


async def test_it_is_the_same_after_compaction_and_reopening(opened: Opened) -> None:
    async with opened() as log:
        for cents in range(1, 6):
            await log.publish_many(listed(range(50), cents))
        await log.publish(Delisted(sku="S1"))
        await log.port.compact()
    async with opened() as log, asyncio.timeout(20), GlobalTable(log, Listed) as goods:
        assert len(goods) == 49
        assert {event.cents for event in goods.values()} == {5}
        await goods.reached(await log.publish(Listed(sku="S1", cents=7)))
        assert goods["S1"].cents == 7


async def test_a_newest_event_of_another_type_is_not_in_it(opened: Opened) -> None:
    async with (
        opened() as log,
        asyncio.timeout(20),
        GlobalTable(log, Listed) as goods,
        GlobalTable(log, Renamed) as names,
    ):
        await log.publish(Listed(sku="A", cents=1))
        position = await log.publish(Renamed(sku="A", name="a"))
        await goods.reached(position)
        await names.reached(position)
        assert dict(goods) == {}
        assert dict(names) == {"A": Renamed(sku="A", name="a")}


async def test_a_record_that_cannot_be_read_harms_only_its_key(opened: Opened) -> None:
    async with opened() as log:
        await log.publish(Listed(sku="A", cents=1))
        garbage = Record("goods.latest", 0, -1, now_ms(), b"bad", b"\x00\x00\x00\x77\x77rubbish", type="Listed")
        await log.port.append([garbage, garbage._replace(key=b"torn", value=b"\x00"), garbage._replace(key=None)])
        async with GlobalTable(log, Listed) as goods:
            assert goods["A"].cents == 1
            for key in ("bad", "torn"):
                with pytest.raises(ContractError, match=f"'{key}' in goods.latest cannot be read"):
                    goods[key]


async def test_a_foreign_compacted_topic_is_a_table_too(opened: Opened) -> None:
    async with opened() as log, asyncio.timeout(20):
        said = Record("crm", 1, -1, now_ms(), b"7", b'{"name": "Ada", "more": [1]}')
        await log.port.append([said, said._replace(key=b"8")])
        async with GlobalTable(log, Customer) as customers:
            assert customers["7"] == Customer(customer_id="7", name="Ada")
            offsets = await log.port.append([said._replace(key=b"8", value=None)])
            published = await log.publish(Moment(k="1"))
            await customers.reached(type(published)("crm", 1, offsets[0], published.recorded_at))
            assert list(customers) == ["7"]


async def test_a_log_out_of_reach_keeps_what_was_read(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    poll, failures = LogReader.poll, 3

    async def shaky(reader: LogReader, limit: int, timeout_s: float | None = None) -> list[Record]:
        nonlocal failures
        if failures:
            failures -= 1
            raise LogUnavailable("gone")
        return await poll(reader, limit, timeout_s)

    monkeypatch.setattr(LogReader, "poll", shaky)
    async with opened() as log, asyncio.timeout(20):
        await log.publish(Listed(sku="A", cents=1))
        async with GlobalTable(log, Listed) as goods:
            position = await log.publish(Listed(sku="A", cents=2))
            assert goods["A"].cents == 1
            await goods.reached(position)
            assert (goods["A"].cents, failures) == (2, 0)


async def test_what_ends_the_following_is_told_on_access(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_reader: LogReader, limit: int, timeout_s: float | None = None) -> list[Record]:
        raise ContractError(f"no {limit} {timeout_s}")

    monkeypatch.setattr(LogReader, "poll", broken)
    async with opened() as log, asyncio.timeout(20), GlobalTable(log, Listed) as goods:
        position = await log.publish(Listed(sku="A", cents=1))
        with pytest.raises(ContractError, match="not followed any more: no"):
            await goods.reached(position)
        with pytest.raises(ContractError, match="not followed any more"):
            len(goods)


async def test_a_topic_without_newest_events_is_refused(opened: Opened) -> None:
    async with opened() as log:
        with pytest.raises(WiringError, match="latest=True"):
            GlobalTable(log, Moment)
        with pytest.raises(WiringError, match="is not open"):
            await GlobalTable(log, Listed).reached(await log.publish(Listed(sku="A", cents=1)))
