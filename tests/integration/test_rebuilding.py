"""One record of a log is gone: what of a changelog can be built anew, what is not guessed at, and what a replay still compares."""

import asyncio
from itertools import count

import pytest

from eventlib import EventLog, Publication, Runtime, RuntimeConfig, open_log
from eventlib.errors import DamagedRecord
from eventlib.log.base import Log
from eventlib.log.reading import SkippingReader
from eventlib.model.record import Record
from eventlib.operations.pausing import pause, resume
from eventlib.operations.skip import skip
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget
from eventlib.replay import replay
from eventlib.replay.rebuilding import rebuilt
from eventlib.runtime import runner
from eventlib.runtime.records import JournalEntry, Positions
from eventlib.values import now_ms
from tests.apps.small_shop import Ordered, Outside, make_shop, settle
from tests.integration.reopening import everything
from tests.operators import request_retry


class OneGone(SkippingReader):
    """A log on which one record is gone; `found` is what can be read in its place."""

    def __init__(self, log: Log, gone: Record, found: Record | None = None) -> None:
        super().__init__(log)
        self._gone = gone.location
        self.error = DamagedRecord("it is gone", *gone.location, gone.offset + 1, found)

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        found = await super().read(topic, partition, offset, limit)
        before = next((n for n, each in enumerate(found) if each.location == self._gone), len(found))
        if found and not before:
            raise self.error
        return found[:before]


def seen_without(log: EventLog, gone: Record, found: Record | None = None) -> tuple[EventLog, DamagedRecord]:
    port = OneGone(log.port, gone, found)
    return EventLog(port, log.codec, log.choreography), port.error


async def rebuilt_without(log: EventLog, gone: Record, found: Record | None = None) -> dict[str, Record]:
    seen, error = seen_without(log, gone, found)
    records = await rebuilt(seen, log.choreography.service("orders"), gone.partition, error)
    return {(each.key or b"").decode(): each for each in records}


async def changelog(log: EventLog) -> list[Record]:
    return await everything(log, "orders.changelog")


async def order(log: EventLog, key: str, id_: str | None = None) -> None:
    await log.publish(Ordered(order_id=key, cents=5), idempotency_key=id_)


def partition_of(log: EventLog, key: str) -> int:
    return log.choreography.service("orders").changelog.partition_of(key.encode())


async def test_each_record_of_a_changelog_is_rebuilt_as_it_was() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        for key in "12121":
            await order(log, key)
            await settle(log, Outside(refuses={"2"}))
        whole = await changelog(log)
        newest = {(each.partition, (each.key or b"").decode()): each for each in whole}
        for gone in whole:
            name = gone.partition, (gone.key or b"").decode()
            found = await rebuilt_without(log, gone)
            assert (name[1] in found) is (newest[name] is gone), "what is written again later need not be rebuilt"
            for key, record in found.items():
                was = newest[gone.partition, key]
                if key == "position":
                    now, then = (log.codec.decode(Positions, each.value or b"") for each in (record, was))
                    assert (now.next, now.past, now.first_ms) == (then.next, then.past, then.first_ms)
                elif was.value is not None:
                    assert record.astuple()[5:] == was.astuple()[5:]
                else:
                    assert record.value is None


async def test_a_parked_effect_that_was_retried_is_rebuilt_as_one_that_is_pending_again() -> None:
    outside = Outside(refuses={"1"})
    async with open_log("memory://", make_shop(set())) as log:
        await order(log, "1")
        await settle(log, outside)
        await request_retry(log, (await parkings(log))[0], "ada")
        outside.refuses.clear()
        outside.gate = asyncio.Event()
        async with (
            Runtime(log, ports={"gateway": outside}, config=RuntimeConfig(grace_s=0)),
            asyncio.timeout(60),
        ):
            while len(outside.calls) < 2:
                await asyncio.sleep(0.01)
        pending = [each for each in await changelog(log) if (each.key or b"").startswith(b"effect/")][-1]
        assert pending.headers == ()
        found = await rebuilt_without(log, pending)
        assert found[(pending.key or b"").decode()].astuple()[5:] == pending.astuple()[5:]


async def test_a_pause_is_rebuilt_while_it_lasts_and_its_end_after_that() -> None:
    target, key = PauseTarget("orders", effect="ChargeAsked"), "pause/effect/ChargeAsked"
    async with open_log("memory://", make_shop(set())) as log:
        await order(log, "1")
        await settle(log)
        for act in (pause, resume):
            await act(log, target, "ann", "their night")
            await settle(log)
            written = [each for each in await changelog(log) if each.key == key.encode()][-1]
            assert (written.value is None) is (act is resume)
            assert (await rebuilt_without(log, written))[key].astuple()[5:] == written.astuple()[5:]


async def test_an_input_that_was_to_be_skipped_is_not_forgotten_in_silence() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await order(log, "1")
        await settle(log)
        await order(log, "1", "twice")
        unwanted = (await everything(log, "orders.requests"))[-1].event_id
        await skip(log, log.choreography.service("orders"), unwanted, "ada: it was a test")
        gone = next(each for each in await changelog(log) if (each.key or b"").startswith(b"skip/"))
        with pytest.raises(DamagedRecord, match="it may belong to journal steps of kind skip"):
            await rebuilt_without(log, gone)


async def test_an_effect_beside_a_parked_input_is_rebuilt_where_its_key_is_known() -> None:
    """A parked key cannot be rebuilt; a record that is known to be something else need not wait for a person."""
    outside = Outside(gate=asyncio.Event())
    async with open_log("memory://", make_shop({"bad"})) as log:
        beside = next(each for each in map(str, range(100)) if partition_of(log, each) == partition_of(log, "bad"))
        await log.publish_many([Publication(Ordered(order_id=key, cents=5)) for key in ("bad", beside)])
        async with (
            Runtime(log, ports={"gateway": outside}, config=RuntimeConfig(grace_s=0)),
            asyncio.timeout(60),
        ):
            while not outside.calls:
                await asyncio.sleep(0.01)
        gone = next(each for each in await changelog(log) if (each.key or b"").startswith(b"effect/"))
        with pytest.raises(DamagedRecord, match="it may belong to journal steps of kind park"):
            await rebuilt_without(log, gone)
        found = await rebuilt_without(log, gone, gone.replace(value=b"\x00"))
        assert found[(gone.key or b"").decode()].astuple()[5:] == gone.astuple()[5:]


@pytest.mark.parametrize("step_ms", [0, 1_000])
async def test_what_follows_from_a_damaged_journal_entry_is_not_compared(
    step_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it unknown; of other tasks all is compared, also of what they have done at the same time."""
    clock = count(now_ms() + 60_000, step_ms)
    monkeypatch.setattr(runner, "now_ms", lambda: next(clock))
    async with open_log("memory://", make_shop(set())) as log:
        for _ in range(2):
            await order(log, "1")
            await order(log, "2")
            await settle(log)
        journal = await everything(log, "orders.journal")
        by_partition = {
            each.partition: each for each in journal if log.codec.decode(JournalEntry, each.value or b"").said
        }
        seen, error = seen_without(log, by_partition[partition_of(log, "1")])
        report = await replay(seen)
        assert report.same, report.first or report.unknown
        assert report.damaged == (str(error),)
        noted = [each for each in await everything(log, "notes") if each.subject == "2"][-1]
        await log.port.append([noted.replace(id="of no task", timestamp_ms=noted.timestamp_ms + step_ms // 2)])
        assert not (await replay(seen)).same
