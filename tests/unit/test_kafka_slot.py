"""What a reader holds of one partition: in order, once, and no more than it may."""

import asyncio

import pytest

from eventlib.errors import DamagedRecord, LogUnavailable
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.batches import Producing, batches
from eventlib.log.kafka.chunk import Chunk
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.feed import Feed
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.partition_fetcher import Slot
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.reader import KafkaReader
from eventlib.log.kafka.tail import Tail
from eventlib.log.reader import MOST_DEFERRED
from eventlib.model.record import Record
from tests.unit.test_kafka_batches import placed

PLACE = ("t", 0)
PRODUCING = Producing(-1, -1, transactional=False, compression=0)


class Reader:
    def __init__(self, room: int = 1_000_000) -> None:
        self._room = room

    def look(self) -> None:
        """Nobody waits."""

    def room(self) -> int:
        return self._room


def chunk(first: int, count: int, place: TopicPartition = PLACE) -> Chunk:
    """Return a chunk as a broker sends it that was asked for `first`."""
    records = [Record("t", 0, -1, 1, None, b"%d" % n) for n in range(first + count)]
    data = placed([*batches(records, PRODUCING, {}, lambda _: 10**6)])
    return Chunk(place, first, data, ())


def damaged() -> Chunk:
    (batch,) = batches([Record("t", 0, -1, 1, None, b"value")], PRODUCING, {}, lambda _: 10**6)
    return Chunk(PLACE, 0, batch.data.replace(b"value", b"VALUE"), ())


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def test_a_batch_that_begins_before_the_position_is_taken_from_there() -> None:
    slot = Slot(Reader(), PLACE, 3)
    slot.deliver(chunk(3, 4))
    assert offsets(slot.take(2)) == [3, 4]
    assert slot.position == 5
    assert offsets(slot.take(10)) == [5, 6]
    assert (slot.position, slot.is_ready) == (7, False)


def test_what_comes_twice_or_too_early_is_left_out() -> None:
    slot = Slot(Reader(), PLACE, 0)
    slot.deliver(chunk(5, 2))
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(2, 3))
    assert offsets(slot.take(10)) == [0, 1, 2, 3, 4]


def test_it_takes_no_more_than_it_may_hold() -> None:
    slot = Slot(Reader(room=1), PLACE, 0)
    slot.deliver(chunk(0, 3))
    slot.deliver(chunk(3, 3))
    assert (slot.fetched, slot.has_room) == (3, False)
    assert offsets(slot.take(10)) == [0, 1, 2]
    slot.deliver(chunk(3, 3))
    assert offsets(slot.take(10)) == [3, 4, 5]


def test_a_place_ahead_of_the_end_is_waited_for() -> None:
    slot = Slot(Reader(), PLACE, 4)
    slot.fetched = 2  # the end, for now
    slot.deliver(chunk(2, 4))
    assert offsets(slot.take(10)) == [4, 5]


def test_a_reader_goes_past_what_was_deleted_a_little_ahead_and_never_back() -> None:
    slot = Slot(Reader(), PLACE, 3)
    slot.deliver(chunk(3, 4))
    assert slot.go_past(5)
    assert not slot.go_past(4)
    assert not slot.go_past(10_000_000)
    assert offsets(slot.take(10)) == [5, 6]


def test_a_reader_does_not_go_past_damage() -> None:
    slot = Slot(Reader(), PLACE, 0)
    slot.deliver(damaged())
    assert slot.is_refused
    assert not slot.go_past(1)


async def test_damage_is_raised_though_other_partitions_always_have_more() -> None:
    """Else its task would never park what is damaged, nor handle what is behind it."""
    cluster, written, busy = Cluster(["127.0.0.1:1"], KafkaOptions()), Written(), ("t", 1)
    reader = KafkaReader(Feed(cluster, written, PointReads(cluster, written)), {PLACE: 0, busy: 0})
    reader.slots[PLACE].deliver(damaged())
    reader.slots[busy].deliver(chunk(0, MOST_DEFERRED + 1, busy))
    for expected in range(MOST_DEFERRED):
        assert offsets(await reader.poll(1)) == [expected]
    with pytest.raises(DamagedRecord):
        await reader.poll(1)
    await reader.close()


async def test_a_reader_that_is_closed_asks_no_broker() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    reader = KafkaReader(Feed(cluster, written, PointReads(cluster, written)), {PLACE: 0})
    await reader.close()
    assert await reader.poll(1) == []
    assert {each.get_name() for each in asyncio.all_tasks()}.isdisjoint({"kafka reader"})


async def test_a_poll_in_time_fails_once_no_broker_was_reached_for_long_and_one_without_waits_on() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions(request_timeout_s=0.2)), Written()
    reader = KafkaReader(Feed(cluster, written, PointReads(cluster, written)), {("t", 0): 0})
    waits = asyncio.ensure_future(reader.poll(1))
    with pytest.raises(LogUnavailable, match="the log cannot be read now: t/0 has no leader"):
        await reader.poll(1, timeout_s=0.5)
    assert not waits.done()
    reader.wake()
    assert await waits == []
    await reader.close()


async def test_a_reader_with_a_backlog_lets_others_run_between_polls() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    reader = KafkaReader(Feed(cluster, written, PointReads(cluster, written)), {PLACE: 0})
    reader.slots[PLACE].deliver(chunk(0, 10))
    assert offsets(await reader.poll(4)) == [0, 1, 2, 3]
    turns = list[str]()
    asyncio.get_running_loop().call_soon(turns.append, "another")
    await reader.poll(4)
    assert turns == ["another"]
    assert offsets(await reader.poll(4)) == [8, 9]
    await reader.close()


async def test_a_poll_that_waits_when_its_reader_is_closed_returns_what_there_is() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    reader = KafkaReader(Feed(cluster, written, PointReads(cluster, written)), {("t", 0): 0})
    waits = asyncio.ensure_future(reader.poll(1))
    await asyncio.sleep(0)
    await reader.close()
    assert await asyncio.wait_for(waits, 60) == []


async def test_a_poll_that_waits_when_its_log_is_closed_fails_and_says_so() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    feed = Feed(cluster, written, PointReads(cluster, written))
    waits = asyncio.ensure_future(KafkaReader(feed, {("t", 0): 0}).poll(1))
    await asyncio.sleep(0)
    await feed.close()
    with pytest.raises(LogUnavailable, match="the log was closed by this process"):
        await waits


async def test_readers_that_are_open_share_the_memory_for_reading_ahead() -> None:
    cluster, written = Cluster(["127.0.0.1:1"], KafkaOptions()), Written()
    feed = Feed(cluster, written, PointReads(cluster, written))
    alone = feed.room()
    readers = [KafkaReader(feed, {("t", partition): 0 for partition in range(100)}) for _ in range(2)]
    shared = feed.room()
    assert shared < alone
    await readers[0].close()
    assert feed.room() == min(2 * shared, alone)
    await readers[0].close()
    await readers[1].close()
    assert feed.room() == alone


async def test_a_slot_waits_with_the_others_from_where_they_are_on_and_catches_up_by_itself_before() -> None:
    cluster = Cluster(["127.0.0.1:1"], KafkaOptions())
    tail = Tail(cluster, 0, "tail")
    first, beside, behind, ahead = (Slot(Reader(), PLACE, offset) for offset in (5, 5, 4, 6))
    assert [tail.follow(slot) for slot in (first, beside, behind, ahead)] == [True, True, False, True]
    assert behind.tail is None
    assert first.tail is tail
    for slot in (first, beside, ahead):
        tail.leave(slot)
    assert tail.follow(behind), "no one waits there any more"
    await tail.close()
