"""Faust's way to the brokers, where ours differs: what is read, and when a position counts as done.

Read in Faust 0.15.3, and seen in tests that kill it: it asks for committed records only in its exactly-once mode. Its
`flush` gives up after 0.1 s without an answer, so that a commit may come before the changelog. After a recovery it
reads streams for a moment before it empties their queues, and what was in these, or in a fetch, is lost. Gaps in the offsets (every
transaction leaves one) it keeps account of record by record. For each record that it takes it makes four tasks. A
commit that the brokers refuse, since the group has gone on, it remembers like one that they took.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import iscoroutine
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from mode.services import WaitResults

from eventlib.errors import LogUnavailable
from eventlib.live.losses import Followed

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp


_PAUSE_S = 0.1
_COMPARE_S = 5.0


class _FullBuffer(logging.Filter):
    """Turns Faust's warning that its producer's buffer is full into a message for debugging.

    The buffer is a bound at which streams wait for the producer: it is full many times a second in normal work.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if not record.getMessage().startswith("producer buffer full"):
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


logging.getLogger("faust.transport.producer").addFilter(_FullBuffer())


class _Thread(driver.AIOKafkaConsumerThread):
    """The thread that reads."""

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001  Faust passes no such setting on
        return consumer

    def _stopped_set(self) -> None:
        if not self.thread_loop.is_closed():  # as it is when the thread has failed: Faust logs that as a second fault
            super()._stopped_set()

    async def places(self, partitions: Iterable[TP]) -> dict[TP, tuple[int, int]]:
        """Return where each partition will be read next, and where it ends: brokers are asked. Raises: KafkaError."""
        return cast("dict[TP, tuple[int, int]]", await self.call_thread(self._places, [*partitions]))

    async def _places(self, partitions: Sequence[TP]) -> dict[TP, tuple[int, int]]:
        consumer = self._ensure_consumer()
        ends = await consumer.end_offsets(partitions)
        return {tp: (await consumer.position(tp), ends[tp]) for tp in partitions}

    async def take_back(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        """Let records that were fetched and not delivered be fetched again, where a partition's position is behind them."""
        firsts = {tp: records[0].offset for tp, records in fetched.items() if records}
        await self.call_thread(self._take_back, firsts)

    async def _take_back(self, firsts: Mapping[TP, int]) -> None:
        consumer = self._ensure_consumer()
        for tp, first in firsts.items():
            with suppress(driver.KafkaError):  # type: ignore[attr-defined]  # aiokafka's: it is another worker's by now
                if await consumer.position(tp) > first:
                    consumer.seek(tp, first)


class Consumer(driver.Consumer):
    """Commits a position when all that followed from what stands before it is on the brokers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held = set[TP]()
        self._recovering = True
        self._delivered: defaultdict[TP, deque[int]] = defaultdict(deque)
        self._followed = Followed()
        self._compared_at = 0.0
        self._seeks = 0

    async def lags(self) -> dict[TP, int]:
        """Return how much of each partition that is read here is not finished. Raises: KafkaError."""
        here = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        places = await cast("_Thread", self._thread).places(here)
        return {tp: max(0, end - min(at, self._oldest_open(tp, at))) for tp, (at, end) in places.items()}

    def _oldest_open(self, tp: TP, otherwise: int) -> int:
        """Return the first record of a partition that was taken and is not done."""
        done = self._acked_index[tp]
        return next((offset for offset in self._delivered.get(tp, ()) if offset not in done), otherwise)

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    async def create_topic(self, topic: str, *_: Any, **__: Any) -> None:
        """Do nothing: the app has created its topics as the log's are."""

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """See Faust's; after a recovery streams wait for `resume_flow`, before which their queues are emptied."""
        known = set(tps)
        if self._recovering:
            self._held |= {tp for tp in known if not self._is_changelog_tp(tp)}
            known -= self._held
        super().resume_partitions(known)

    def resume_flow(self) -> None:
        """See Faust's."""
        if self._held:
            held, self._held = self._held, set()
            self._recovering = False
            super().resume_partitions(held)
        super().resume_flow()

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109  Faust's
        """See Faust's; of the partitions that are active now, however that changes meanwhile.

        Faust hands on its own set: when that is emptied during a fetch, aiokafka takes none for all, and what it reads
        of paused partitions is dropped. So is what a fetch brings that began before a rebalance and ends after it: aiokafka
        goes on with it at the new positions, and Faust knows the partitions by then that are active now.
        """
        active, seeks = set(self.assignment()) if active_partitions is None else set(active_partitions), self._seeks
        if not active:
            await asyncio.sleep(_PAUSE_S)
            return {}
        fetched = await super()._getmany(active, timeout)
        if seeks != self._seeks:
            await cast("_Thread", self._thread).take_back(fetched)
            return {}
        self._count(fetched)
        await self._name_losses({tp: records for tp, records in fetched.items() if not self._is_changelog_tp(tp)})
        return {tp: self._worth_taking(records) for tp, records in fetched.items()}

    def _count(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        app = cast("LiveApp", self.app)
        for tp, records in fetched.items():
            if not self._is_changelog_tp(tp):
                app.counters.took(app.connection.logical(tp.topic), records)

    async def _name_losses(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        """Name what was gone before it was read; brokers that do not answer now are asked again."""
        self._followed.took(fetched)
        if monotonic() - self._compared_at >= _COMPARE_S:
            self._compared_at = monotonic()
            with suppress(LogUnavailable):
                await cast("LiveApp", self.app).compare_topics()
        with suppress(driver.KafkaError):  # type: ignore[attr-defined]  # aiokafka's
            for lost in await self._followed.losses(self._starts, is_idle=not fetched):
                cast("LiveApp", self.app).note_loss(*lost)

    async def _starts(self, partitions: Sequence[TP]) -> Mapping[TP, int]:
        return await self.earliest_offsets(*partitions)

    def _worth_taking(self, records: Sequence[Any]) -> Sequence[Any]:
        """Return those of a partition's records that a view wants, and the last: its position is theirs."""
        wants = cast("LiveApp", self.app).wants
        return [*(record for record in records[:-1] if wants(record.headers)), *records[-1:]]

    async def wait_first(self, *coros: Any, timeout: Any = None) -> Any:  # noqa: ASYNC109  mode's
        """See mode's; for a message that is taken at once no task is made but its own."""
        first, *others = coros
        if timeout is not None or not iscoroutine(first):
            return await super().wait_first(*coros, timeout=timeout)
        taking = asyncio.ensure_future(first)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            taking.cancel()
            raise
        if not taking.done():
            return await super().wait_first(taking, *others)
        for each in filter(iscoroutine, others):
            each.close()
        return WaitResults([taking], [taking.result()], stopped=False)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """See Faust's."""
        self._held.clear()
        self._delivered.clear()
        self._recovering = True
        await super().on_partitions_revoked(revoked)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """See Faust's."""
        found = cast("Mapping[TP, int | None]", await super().seek_to_committed())
        known = {tp: at for tp, at in found.items() if at is not None and at >= 0 and not self._is_changelog_tp(tp)}
        self._followed.begin(known)
        return cast("Mapping[TP, int]", found)

    async def perform_seek(self) -> None:
        """See Faust's."""
        self._delivered.clear()
        self._seeks += 1
        await super().perform_seek()
        self._seeks += 1

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        delivered = self._delivered[tp]
        if not delivered or record.offset > delivered[-1]:
            delivered.append(record.offset)
        return super()._to_message(tp, record)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: see `_new_offset`."""

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset after the records that are done without exception; gaps have none, and need nothing."""
        delivered, acked = self._delivered[tp], self._acked_index[tp]
        done = None
        while delivered and delivered[0] in acked:
            done = delivered.popleft()
            acked.discard(done)
        if done is None:
            return None
        self._acked[tp] = [offset for offset in self._acked[tp] if offset > done]
        return done + 1

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        await cast("LiveApp", self.app).settled()
        before = {tp: self._committed_offset[tp] for tp in offsets}
        did_commit = await super()._commit_offsets(offsets, start_new_transaction)
        if not did_commit:  # the group has gone on without this worker, and what it reads again is committed again
            self._committed_offset.update(before)
        return did_commit


class _Producer(driver.Producer):
    """Writes to topics that are there."""

    async def create_topic(self, topic: str, *_: Any, **__: Any) -> None:
        """Do nothing: the app has created its topics as the log's are."""


class Transport(driver.Transport):
    """Faust's connections, with the differences above."""

    Consumer = Consumer
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
