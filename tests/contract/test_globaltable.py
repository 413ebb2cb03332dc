"""GlobalTable on every log: it begins with all there is, follows, forgets, and says when it cannot."""

import asyncio
from pathlib import Path

import pytest

from eventlib import EventLog, GlobalTable, WiringError, open_log
from eventlib.errors import ContractError, LogUnavailable
from eventlib.log.base import Reader
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.values import now_ms
from tests.contract.catalogue import CATALOGUE, GOODS, Customer, Delisted, Listed, Moment, Opened, Renamed, listed
from tests.in_rows import change_row, in_rows


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


async def test_the_path_of_a_file_is_taken_as_before_and_ignored(opened: Opened, tmp_path: Path) -> None:
    async with opened() as log:
        await log.publish(Listed(sku="A", cents=1))
        with pytest.warns(DeprecationWarning, match="ignores path"):
            kept = GlobalTable(log, Listed, tmp_path / "goods.table")
        async with kept as goods:
            assert goods["A"].cents == 1
    assert not (tmp_path / "goods.table").exists()


async def test_it_follows_what_others_write(opened: Opened) -> None:
    async with opened() as log, opened() as elsewhere, asyncio.timeout(120), GlobalTable(log, Listed) as goods:
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
    async with opened() as log, asyncio.timeout(120), GlobalTable(log, Listed) as goods:
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
    async with opened() as log, asyncio.timeout(120), GlobalTable(log, Listed) as goods:
        assert len(goods) == 49
        assert {event.cents for event in goods.values()} == {5}
        await goods.reached(await log.publish(Listed(sku="S1", cents=7)))
        assert goods["S1"].cents == 7


async def test_a_newest_event_of_another_type_is_not_in_it(opened: Opened) -> None:
    async with (
        opened() as log,
        asyncio.timeout(120),
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
        await log.port.append([garbage, garbage.replace(key=b"torn", value=b"\x00")])
        if not isinstance(log.port, KafkaLog):  # a broker takes no record without a key on a compacted topic
            await log.port.append([garbage.replace(key=None)])
        async with GlobalTable(log, Listed) as goods:
            assert goods["A"].cents == 1
            for key in ("bad", "torn"):
                with pytest.raises(ContractError, match=f"'{key}' in goods.latest cannot be read"):
                    goods[key]


async def test_what_is_damaged_is_unknown_and_all_else_is_there(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    async with open_log(f"sqlite:///{file}", CATALOGUE) as log:
        await log.publish_many(listed(range(40), cents=1))
        await log.publish_many(listed(range(40), cents=2))
        damage(file, b"S1")
        async with GlobalTable(log, Listed) as goods:
            with pytest.raises(ContractError, match=r"'S1' in goods\.latest is not known: .*goods\.latest/"):
                goods["S1"]
            beside = {key for key in map(str, range(1_000)) if of(key) == of("S1")}
            with pytest.raises(ContractError, match="is not known"):
                min(beside) in goods  # noqa: B015  it raises
            assert "nothing of another partition" not in goods
            assert {goods[f"S{n}"].cents for n in range(40) if n != 1} == {2}
            damage(file, b"S2")
            at = await log.publish(Listed(sku="S1", cents=3))
            await goods.reached(at)
            assert goods["S1"].cents == 3
            assert goods["S2"].cents == 2, "what was read before the damage"


def of(key: str) -> int:
    return GOODS.latest_topic.partition_of(key.encode())


def damage(file: Path, key: bytes) -> None:
    """Change the newest record of a product on the disk."""
    number = "SELECT number FROM partitions WHERE topic = 'goods.latest' AND partition = ?"
    newest = f"SELECT max(position) FROM records WHERE key = ? AND position >> 40 = ({number})"  # noqa: S608
    change = f"UPDATE records SET value = x'00ff' WHERE position = ({newest})"  # noqa: S608
    change_row(in_rows(file), change, key, of(key.decode()))


async def test_an_external_compacted_topic_is_a_table_too(opened: Opened) -> None:
    async with opened() as log, asyncio.timeout(120):
        said = Record("crm", 1, -1, now_ms(), b"7", b'{"name": "Ada", "more": [1]}')
        await log.port.append([said, said.replace(key=b"8")])
        async with GlobalTable(log, Customer) as customers:
            assert customers["7"] == Customer(customer_id="7", name="Ada")
            offsets = await log.port.append([said.replace(key=b"8", value=None)])
            published = await log.publish(Moment(k="1"))
            await customers.reached(type(published)("crm", 1, offsets[0], published.recorded_at))
            assert list(customers) == ["7"]


def patched(log: EventLog, monkeypatch: pytest.MonkeyPatch, failures: list[Exception]) -> None:
    """Let the polls of this log's readers fail with these, in turn."""
    kind = type(log.port.reader({}))
    poll = kind.poll

    async def shaky(reader: Reader, limit: int, timeout_s: float | None = None) -> list[Record]:
        if failures:
            raise failures.pop(0)
        return await poll(reader, limit, timeout_s)

    monkeypatch.setattr(kind, "poll", shaky)


async def test_a_log_out_of_reach_keeps_what_was_read(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as log, asyncio.timeout(120):
        failures: list[Exception] = [LogUnavailable("gone") for _ in range(3)]
        patched(log, monkeypatch, failures)
        await log.publish(Listed(sku="A", cents=1))
        async with GlobalTable(log, Listed) as goods:
            position = await log.publish(Listed(sku="A", cents=2))
            assert goods["A"].cents == 1
            await goods.reached(position)
            assert (goods["A"].cents, failures) == (2, [])


async def test_what_ends_the_following_is_told_on_access(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as log, asyncio.timeout(120):
        patched(log, monkeypatch, [ContractError("no more")])
        async with GlobalTable(log, Listed) as goods:
            position = await log.publish(Listed(sku="A", cents=1))
            with pytest.raises(ContractError, match="not followed any more: no more"):
                await goods.reached(position)
            with pytest.raises(ContractError, match="not followed any more"):
                len(goods)


async def test_keys_that_are_not_utf8_have_their_text(opened: Opened) -> None:
    async with opened() as log, asyncio.timeout(120):
        said = Record("crm", 1, -1, now_ms(), b"\xff7", b'{"name": "Ada"}')
        await log.port.append([said, said.replace(key="é".encode())])
        async with GlobalTable(log, Customer) as customers:
            assert sorted(customers) == ["\\xff7", "é"]
            assert "\\xff7" in customers
            assert "\ud800" not in customers


async def test_a_topic_without_newest_events_is_refused(opened: Opened) -> None:
    async with opened() as log:
        with pytest.raises(WiringError, match="latest=True"):
            GlobalTable(log, Moment)
        with pytest.raises(WiringError, match="is not open"):
            await GlobalTable(log, Listed).reached(await log.publish(Listed(sku="A", cents=1)))
        for ask in (len, list, lambda table: table.get("A"), lambda table: "A" in table):
            with pytest.raises(WiringError, match="is not open"):  # what was not read yet is not what there is not
                ask(GlobalTable(log, Listed))
