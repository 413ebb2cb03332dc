"""What the tests of a log begin with: an empty log with a few topics."""
# ruff: noqa: S101  a test speaks in asserts

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from eventlib.log.base import Log
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

TOPICS = (
    Topic("a", partitions=2),
    Topic("b", partitions=2),
    Topic("c", partitions=2),
    Topic("small", partitions=1, max_event_bytes=1_000),
    Topic("hour", partitions=1, retention=timedelta(hours=1)),
    Topic("kilobytes", partitions=1, retention_bytes=10_000),
    Topic("compact", partitions=2, compacted=True),
)
PATIENCE_S = 120.0
"""How long a test waits for what should happen within seconds, on a slow machine."""


class LogFixture:
    """Opens the log of a test, and closes it after."""

    durable = True
    """Whether opening the same place again gives the same log, also while it is open."""

    compacts_now = True
    """Whether `compact()` has dropped what is not kept when it returns; a broker may do that in its own time."""

    shares_tasks = False
    """Whether the members of a service share its partitions out; otherwise the first owns all, and others stand by."""

    seen_at_once = True
    """Whether others, and readers, see an append as soon as it has returned; a log that ends transactions in its own
    time may take moments. `Log.read` and `Log.end` of the handle that made it always do."""

    can_be_damaged = True
    """Whether its records stand in bytes of a disk, which may change; then `change` has to say how."""

    place: Path
    handles: list[Log]

    async def open_log(self, place: Path) -> Log:
        """Open the log at a place of the test's own: an adapter's suite says how."""
        raise NotImplementedError(f"{type(self).__name__} has to say how its log is opened: define open_log({place})")

    async def change(self, written: Record, bits: int) -> None:
        """Change one bit, or several, of a record's value where the log keeps it: an adapter's suite says how."""
        raise NotImplementedError(
            f"{type(self).__name__} has to say how {bits} bits of {written.topic}/{written.partition}/{written.offset} are "
            "changed below the log: define change(written, bits), or set can_be_damaged = False"
        )

    @pytest_asyncio.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[Log]:
        """Open an empty log with the suite's topics."""
        self.place = tmp_path
        self.handles = []
        log = await self.another_handle()
        await log.create_topics(TOPICS)
        yield log
        for handle in self.handles:
            await handle.close()

    async def another_handle(self) -> Log:
        """Open the test's log once more, as another process would."""
        log = await self.open_log(self.place / "log")
        self.handles.append(log)
        return log

    def only_for_durable_logs(self) -> None:
        """Skip a test that opens the log twice, when that gives two logs."""
        if not self.durable:
            pytest.skip("opening this log twice gives two logs")

    def only_where_members_stand_by(self) -> None:
        """Skip a test of members that wait for their turn."""
        if self.shares_tasks:
            pytest.skip("the members of this log share a service's partitions")

    def only_where_members_share(self) -> None:
        """Skip a test of members that share."""
        if not self.shares_tasks:
            pytest.skip("the first member of this log owns all")

    async def until_there(self, log: Log, topic: str, expected: list[bytes]) -> None:
        """Check what another handle reads of a topic's first partition, in moments at the latest."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.seen_at_once and len(await values(log, topic, 0)) < len(expected):  # noqa: ASYNC110  a log
                await asyncio.sleep(0.01)
        assert await values(log, topic, 0) == expected

    def only_where_compact_is_now(self) -> None:
        """Skip a test that looks at what compaction has left."""
        if not self.compacts_now:
            pytest.skip("this log compacts in its own time")


def flipped(value: bytes, bits: int) -> bytes:
    """Return a value of which so many bits have flipped, each in a byte of its own."""
    return bytes(byte ^ (1 << place % 8 if place < bits else 0) for place, byte in enumerate(value))


def record(topic: str, value: bytes | None, *, key: bytes | None = b"k", partition: int = 0) -> Record:
    """Return a record as a writer makes it."""
    return Record(topic, partition, -1, now_ms(), key, value)


async def values(log: Log, topic: str, partition: int) -> list[bytes | None]:
    """Return what stands in a partition."""
    return [r.value for r in await log.read(topic, partition, 0, 10_000)]
