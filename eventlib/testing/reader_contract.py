"""What a log's readers promise. Part of `eventlib.testing.log_contract`."""
# ruff: noqa: S101, PLR2004  a test speaks in asserts, and its numbers are its point

import asyncio

import pytest

from eventlib.errors import ContractError
from eventlib.log.base import Log, Reader
from eventlib.model.record import Record
from eventlib.testing.log_fixture import PATIENCE_S, LogFixture, record

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


async def poll_all(reader: Reader, count: int) -> list[Record]:
    """Poll until so many records have come."""
    found = list[Record]()
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await reader.poll(100)
    return found


async def ends_of(log: Log) -> dict[tuple[str, int], int]:
    """Return where some partitions end now."""
    return {place: await log.end(*place) for place in (A0, A1, B0)}


class ReaderContract(LogFixture):
    """Readers: order, turns, waiting, and gaps."""

    async def test_each_record_comes_once_and_in_order(self, log: Log) -> None:
        """From several partitions of several topics, whatever the size of a poll."""
        places = (A0, A1, B0)
        for i in range(300):
            topic, partition = places[i % 3]
            await log.append([record(topic, b"%d" % i, partition=partition)])
        reader = log.reader(dict.fromkeys(places, 0))
        found = list[Record]()
        while records := await reader.poll(7, 0):
            assert len(records) <= 7
            found += records
        assert len(found) == 300
        for turn, (topic, partition) in enumerate(places):
            of_one = [r.value for r in found if (r.topic, r.partition) == (topic, partition)]
            assert of_one == [b"%d" % i for i in range(turn, 300, 3)]
        await reader.close()

    async def test_it_begins_at_its_positions(self, log: Log) -> None:
        """Each partition has its own."""
        offsets = await log.append([record("a", b"%d" % i, partition=i % 2) for i in range(6)])
        reader = log.reader({A0: offsets[4], A1: await log.end(*A1)})
        assert [r.value for r in await reader.poll(10)] == [b"4"]
        assert await reader.poll(10, 0) == []
        assert await reader.ends() == {A0: await log.end(*A0), A1: await log.end(*A1)}
        await reader.close()

    async def test_a_position_behind_the_end_is_named_once_and_read_on_from_where_it_is_sought(self, log: Log) -> None:
        """The log may have lost its end, or the topic is another one; other partitions go on."""
        await log.append([record("a", b"0"), record("a", b"1"), record("b", b"b")])
        end = await log.decided_end(*A0)
        reader = log.reader({A0: end + 7, B0: 0})
        assert [r.value for r in await poll_all(reader, 1)] == [b"b"]
        lost = dict(reader.take_lost())
        async with asyncio.timeout(PATIENCE_S):
            while not lost:
                await reader.poll(10)
                lost |= reader.take_lost()
        assert lost == {A0: (end + 7, end)}
        assert (await reader.poll(10, 0), reader.take_lost()) == ([], {})
        reader.seek(A0, end)
        await log.append([record("a", b"2")])
        assert [r.value for r in await poll_all(reader, 1)] == [b"2"]
        assert reader.take_lost() == {}
        await reader.close()

    async def test_what_is_there_from_a_position_on_is_no_loss(self, log: Log) -> None:
        """Nor is a gap that the log has by itself, as between transactions."""
        reader = log.reader({A0: await log.start(*A0), A1: await log.start(*A1)})
        for number in range(3):
            await log.append([record("a", b"%d" % number), record("a", b"%d" % number, partition=1)])
        await poll_all(reader, 6)
        assert await reader.poll(10, 0) == []
        assert reader.take_lost() == {}
        assert await log.written_end(*A0) == await log.end(*A0)
        await reader.close()

    async def test_every_partition_gets_its_turn(self, log: Log) -> None:
        """A partition with a long backlog does not hold the others up, with large polls and with tiny ones."""
        await log.append([record("a", b"many") for _ in range(2_000)])
        await log.append([record("a", b"few", partition=1), record("b", b"few")])
        for limit in (1, 2, 10):
            reader = log.reader({A0: 0, A1: 0, B0: 0})
            seen = set[tuple[str, int]]()
            for _ in range(6 if self.seen_at_once else 1_900 // limit):
                seen |= {(r.topic, r.partition) for r in await reader.poll(limit)}
                if seen == {A0, A1, B0}:
                    break
                await asyncio.sleep(0 if self.seen_at_once else 0.001)
            assert seen == {A0, A1, B0}
            await reader.close()

    async def test_it_waits_for_an_append(self, log: Log) -> None:
        """And returns with it at once; appends to other partitions do not end the waiting."""
        reader = log.reader(await ends_of(log))
        waiting = asyncio.create_task(reader.poll(10))
        await asyncio.sleep(0.05)
        await log.append([record("c", b"another topic")])
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await log.append([record("b", b"1")])
        found = await asyncio.wait_for(waiting, PATIENCE_S)
        assert [r.value for r in found] == [b"1"]
        await reader.close()

    async def test_it_waits_no_longer_than_the_timeout(self, log: Log) -> None:
        """Then it returns nothing; zero does not wait at all."""
        reader = log.reader(await ends_of(log))
        began = asyncio.get_running_loop().time()
        assert await reader.poll(10, 0) == []
        assert await reader.poll(10, 0.1) == []
        assert 0.09 <= asyncio.get_running_loop().time() - began < PATIENCE_S
        await reader.close()

    async def test_wake_ends_the_waiting(self, log: Log) -> None:
        """Of the poll that waits, or of the next one, and of no other."""
        reader = log.reader(await ends_of(log))
        waiting = asyncio.create_task(reader.poll(10))
        await asyncio.sleep(0.05)
        reader.wake()
        assert await asyncio.wait_for(waiting, PATIENCE_S) == []
        reader.wake()
        assert await asyncio.wait_for(reader.poll(10), PATIENCE_S) == []
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.poll(10), 0.1)
        await reader.close()

    async def test_wake_does_not_hide_records(self, log: Log) -> None:
        """What there is comes with the woken poll."""
        reader = log.reader(await ends_of(log))
        await log.append([record("a", b"1")])
        reader.wake()
        assert len(await poll_all(reader, 1)) == 1
        await reader.close()

    async def test_seek_goes_back_and_ahead(self, log: Log) -> None:
        """The next poll begins there; other partitions stay where they are."""
        offsets = await log.append([record("a", b"%d" % i) for i in range(5)])
        await log.append([record("b", b"x")])
        reader = log.reader({A0: 0, B0: 0})
        await poll_all(reader, 6)
        assert reader.position(A0) == await log.end(*A0)
        reader.seek(A0, offsets[3])
        assert reader.position(A0) == offsets[3]
        assert [r.value for r in await poll_all(reader, 2)] == [b"3", b"4"]
        reader.seek(A0, await log.end(*A0) + 1)
        await log.append([record("a", b"skipped"), record("a", b"seen")])
        assert [r.value for r in await poll_all(reader, 1)] == [b"seen"]
        await reader.close()

    async def test_it_is_never_ahead_of_what_it_returned(self, log: Log) -> None:
        """Who goes by a reader's positions while it polls would pass over what that poll is about to return."""
        places = (A0, A1, B0)
        said = [record(topic, b"x", partition=partition) for topic, partition in places]
        left: dict[tuple[str, int], list[int]] = {place: [] for place in places}
        for _ in range(40):
            for place, offset in zip(places, await log.append(said), strict=True):
                left[place].append(offset)
        reader = log.reader(dict.fromkeys(places, 0))

        async def poll_on() -> None:
            while any(left.values()):
                for r in await reader.poll(20):
                    assert left[r.topic, r.partition].pop(0) == r.offset

        polling = asyncio.create_task(poll_on())
        async with asyncio.timeout(PATIENCE_S):
            while not polling.done():
                assert not [place for place, offsets in left.items() if offsets and reader.position(place) > offsets[0]]
                await asyncio.sleep(0)
        await polling
        await reader.close()

    async def test_what_is_sought_while_it_polls_is_read_next(self, log: Log) -> None:
        """Whatever that poll had read of the partition by then; of the others nothing is lost."""
        offsets = [(await log.append([record("a", b"%d" % i), record("b", b"%d" % i)]))[0] for i in range(20)]
        for moments in range(12):
            reader = log.reader({A0: 0, B0: 0})
            polling = asyncio.create_task(reader.poll(20))
            for _ in range(moments):
                await asyncio.sleep(0)
            returned = polling.done()
            reader.seek(A0, offsets[15])
            found = await asyncio.wait_for(polling, PATIENCE_S)
            if returned:
                assert next(r.value for r in found if r.topic == "a") == b"0"
                found = [r for r in found if r.topic == "b"]
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < 25:
                    found += await reader.poll(20)
            assert [r.value for r in found if r.topic == "a"] == [b"%d" % i for i in range(15, 20)]
            assert [r.value for r in found if r.topic == "b"] == [b"%d" % i for i in range(20)]
            await reader.close()

    async def test_a_refused_append_is_never_seen(self, log: Log) -> None:
        """Neither while it is made nor after."""
        reader = log.reader(await ends_of(log))
        waiting = asyncio.create_task(reader.poll(10))
        await asyncio.sleep(0)
        for _ in range(5):
            with pytest.raises(ContractError):
                await log.append([record("a", b"no"), record("nowhere", b"no")])
        await log.append([record("a", b"yes")])
        assert [r.value for r in await asyncio.wait_for(waiting, PATIENCE_S)] == [b"yes"]
        await reader.close()

    async def test_it_goes_over_gaps(self, log: Log) -> None:
        """Its position reaches the end although the last offsets have no records any more."""
        self.only_where_compact_is_now()
        long_ago = record("hour", b"old").replace(timestamp_ms=1)
        await log.append([record("compact", b"%d" % i, key=b"%d" % (i % 3)) for i in range(300)])
        await log.append([long_ago] * 100)
        reader = log.reader({("compact", 0): 0, ("hour", 0): 0})
        assert len(await reader.poll(2)) == 2
        await log.compact()
        async with asyncio.timeout(PATIENCE_S):
            while any(reader.position(place) < end for place, end in (await reader.ends()).items()):
                for r in await reader.poll(50, 0):
                    assert r.topic == "hour" or int(r.value or b"") >= 297 or r.offset < 2
        await log.append([record("hour", b"new"), record("compact", b"new")])
        assert {r.value for r in await poll_all(reader, 2)} == {b"new"}
        await reader.close()

    async def test_an_unknown_place_is_refused(self, log: Log) -> None:
        """When the reader is opened, not at some later poll."""
        with pytest.raises(ContractError, match="nowhere"):
            log.reader({("nowhere", 0): 0})

    async def test_many_readers_at_once(self, log: Log) -> None:
        """Each sees all, while others append."""
        readers = [log.reader({A0: 0, A1: 0}) for _ in range(5)]
        polls = [asyncio.create_task(poll_all(reader, 200)) for reader in readers]
        for i in range(100):
            await log.append([record("a", b"%d" % i), record("a", b"%d" % i, partition=1)])
        for found in await asyncio.gather(*polls):
            assert [r.value for r in found if r.partition == 1] == [b"%d" % i for i in range(100)]
        for reader in readers:
            await reader.close()

    async def test_another_handles_appends_are_seen(self, log: Log) -> None:
        """A reader wakes on what another process appends."""
        self.only_for_durable_logs()
        other = await self.another_handle()
        reader = other.reader({A0: 0})
        waiting = asyncio.create_task(reader.poll(10))
        for i in range(20):
            await log.append([record("a", b"%d" % i)])
            found = [r.value for r in await asyncio.wait_for(waiting, PATIENCE_S)]
            assert found == [b"%d" % i]
            waiting = asyncio.create_task(reader.poll(10))
            await asyncio.sleep(0.01 * (i % 3))
        reader.wake()
        await waiting
        (offset,) = await log.append([record("a", b"last")])
        assert await reader.ends() == {A0: offset + 1}
        await reader.close()
