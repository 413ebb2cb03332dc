"""Faust's way to the brokers, where ours differs: what is read, and when a position counts as done.

Read in Faust 0.15.3: it asks for committed records only in its exactly-once mode; its `flush` gives up after 0.1 s
without an answer, so that a commit may come before the changelog; and it takes what follows a gap in the offsets
(every transaction leaves one) for handled.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from faust.transport.drivers import aiokafka as driver
from faust.types import TP

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp


class _Thread(driver.AIOKafkaConsumerThread):
    """The thread that reads."""

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001  Faust passes no such setting on
        return consumer


class _Consumer(driver.Consumer):
    """Commits a position when all that followed from what stands before it is on the brokers."""

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    async def create_topic(self, topic: str, *_: Any, **__: Any) -> None:
        """Do nothing: the app has created its topics as the log's are."""

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: see `_new_offset`."""

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset after the last record that is done.

        Guarantee: a partition's records are done in their order, since views take them one by one; so all before it
        are, and what has no record (a transaction's end) needs nothing.
        """
        acked = self._acked[tp]
        if not acked:
            return None
        done = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return done

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        await cast("LiveApp", self.app).settled()
        return await super()._commit_offsets(offsets, start_new_transaction)


class _Producer(driver.Producer):
    """Writes to topics that are there."""

    async def create_topic(self, topic: str, *_: Any, **__: Any) -> None:
        """Do nothing: the app has created its topics as the log's are."""


class Transport(driver.Transport):
    """Faust's connections, with the differences above."""

    Consumer = _Consumer
    Producer = _Producer


class Sent:
    """What was sent and is not on the brokers yet; it tells who asks when all of that is."""

    def __init__(self) -> None:
        self._waiting = set[asyncio.Future[Any]]()
        self._failed: BaseException | None = None

    def add(self, sent: "asyncio.Future[Any]") -> None:
        """Take note of something that is on its way."""
        self._waiting.add(sent)
        sent.add_done_callback(self._done)

    def _done(self, sent: "asyncio.Future[Any]") -> None:
        self._waiting.discard(sent)
        if not sent.cancelled() and (error := sent.exception()) is not None:
            self._failed = error

    async def settled(self) -> None:
        """Wait until all that was sent before is on the brokers. Raises: what kept something from it, for good."""
        if waiting := tuple(self._waiting):
            await asyncio.wait(waiting)
        if self._failed is not None:
            raise self._failed
