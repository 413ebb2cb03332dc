"""One record of a log is gone: what a replay still compares."""

from itertools import count

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import DamagedRecord
from eventlib.log.base import Log
from eventlib.log.reading import SkippingReader
from eventlib.log.record import Record
from eventlib.replay import replay
from eventlib.runtime import runner
from eventlib.runtime.records import JournalEntry
from eventlib.values import now_ms
from tests.integration.test_runtime import Ordered, everything, make_shop, settle


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


async def order(log: EventLog, key: str, id_: str | None = None) -> None:
    await log.publish(Ordered(order_id=key, cents=5), idempotency_key=id_)


def partition_of(log: EventLog, key: str) -> int:
    return log.choreography.service("orders").changelog.partition_of(key.encode())


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
