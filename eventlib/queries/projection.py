"""Follows a log, and keeps a view of it."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from eventlib.errors import ContractError, LogUnavailable, RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.ground.tasks import cancelled
from eventlib.log.base import TopicPartition
from eventlib.log.sqlite.errors import explained
from eventlib.model.kept_error import KeptError, kept_reason
from eventlib.model.record import Record
from eventlib.personal.opening import has_personal
from eventlib.queries.freshness import Freshness
from eventlib.queries.projection_file import WHAT, View, ViewFile
from eventlib.queries.projection_reader import ViewReader
from eventlib.queries.waiters import Waiters

_log = logging.getLogger(__name__)
_RETRY_S = 0.2
_CHANGED = "changed"
_MISFITS = (ContractError, ValueError, ArithmeticError, sqlite3.DataError, sqlite3.IntegrityError)
"""What `apply` raises about one record's values, and not for want of a log or a file, or for a bug such as a missing name."""


class ProjectionBehind(LogUnavailable):
    """A projection has not read all of the log yet, so it cannot prove that something is missing."""


class Projection:
    """Reads a view's topics from where it was, writes what follows, and goes on as the log does.

    `async with Projection(log, view) as points: points.db.execute("SELECT …")`. The file lies beside an SQLite log's
    own, each process with one of its own (`path` names another); for a log in memory it is in memory. It is a cache:
    deleting it, or `rebuild`, has it made again from the log. With `topics` it reads those of the view's only: what follows
    from others stays as it was, and is right as soon as they are read, too, if `apply` does not depend on their order.
    Guarantee: each record counts once, whatever interrupts it, also `kill -9`: tables and positions are one
    transaction. A partition's records come in order; within a batch, all of them by time. A record that is damaged on the
    log is gone past and stays named in `damaged`; once it has been repaired, the next start reads everything again. A record
    whose values the tables do not take (`apply` raises ContractError, ValueError, ArithmeticError or IntegrityError, as for NaN
    in a column that is NOT NULL) is left out, logged, and named in `misfits`: it does not end what the others are read by.
    Memory: one batch, and 64 records of each partition.
    """

    batch = 500
    """How many records a transaction has at most: with fewer, what else this event loop does waits less, also while it catches up."""
    waits_for_topics = False
    """Whether it waits for the first service on a log that has no topic of its application, and does not end."""

    def __init__(
        self, log: EventLog, view: View, path: Path | str | None = None, *, topics: Collection[str] | None = None
    ) -> None:
        check(log, EventLog, "log", A_LOG)
        check(
            view,
            View,
            "view",
            'give a view: `View("points", topics=["orders"], tables="CREATE TABLE ...", apply=apply)`',
        )
        self.log = log
        self.view = view
        self._path = None if path is None else Path(path)
        self._topics = frozenset(view.inputs if topics is None else topics)
        self._is_personal = has_personal(log.choreography)
        self._reader = self._reader_of(view)
        self._waiters = Waiters()
        self._freshness = Freshness(self._has_reached)
        self._file: ViewFile | None = None
        self._following: asyncio.Task[None] | None = None
        self._anew = False
        self._fits = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        """Open the file, and begin to follow the log. Raises: LogUnavailable when another process has the file."""
        self._file = ViewFile.opened(self.view, self._path, self.log.port, self._topics)
        if self._file.view is not self.view:
            self.view, self._reader = self._file.view, self._reader_of(self._file.view)
        self._following = asyncio.create_task(self._follow(), name=f"projection {self.view.name}")
        return self

    def _reader_of(self, view: View) -> ViewReader:
        return ViewReader(self.log, view, [each for each in view.inputs if each in self._topics])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop after the transaction at hand, and close the file."""
        await cancelled(self._following)
        self._waiters.fail(LogUnavailable(f"the projection {self.view.name} was closed"))
        self._opened.close()

    @property
    def db(self) -> sqlite3.Connection:
        """The tables, as of the last transaction; only `apply` writes to them."""
        return self._opened.db

    @property
    def file(self) -> Path:
        """Where the tables are."""
        return self._opened.path

    def rows(self, question: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """Return what a query of the tables finds. Raises: LogUnavailable, LogCorrupt when the file cannot be read."""
        try:
            return self.db.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self._opened.path, WHAT) from error

    @property
    def error(self) -> Exception | None:
        """What has ended it for good; None as long as it follows the log."""
        return self._error

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition that it has not applied yet."""
        return self._opened.positions

    @property
    def damaged(self) -> Collection[tuple[str, int, int]]:
        """The topic, partition and offset of each record that cannot be read, and so is not in the tables."""
        return self._opened.damaged

    @property
    def lost(self) -> Mapping[TopicPartition, int]:
        """How many offsets of a partition were gone from the log before this process could read them."""
        return self._reader.lost

    @property
    def misfits(self) -> Mapping[tuple[str, int, int], str]:
        """The topic, partition and offset of each record that the tables did not take, with the reason."""
        found = self.rows("SELECT topic, partition, offset, reason FROM eventlib_misfits ORDER BY 1, 2, 3")
        return {(topic, partition, offset): reason for topic, partition, offset, reason in found}

    async def reached(self, topic: str, partition: int, offset: int, timeout_s: float) -> bool:
        """Wait until the record at an offset has been applied; False when it was not in time.

        Raises: ContractError for a topic that it does not read; what has ended it for good.
        """
        self._refuse_ended()
        if topic not in self._topics:
            raise ContractError(f"projection {self.view.name} does not read topic {topic!r}")
        topic_partition = topic, partition
        return await self._waiters.until(
            topic_partition, lambda: self._fits and self.positions.get(topic_partition, 0) > offset, timeout_s
        )

    async def until(self, key: Hashable, met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `met()`; it is asked again whenever `apply` has changed rows of this key. False when it was not in time.

        Cost: a change costs what waits for its keys, however many wait for others. Raises: what has ended it for good.
        """
        self._refuse_ended()
        return await self._waiters.until((_CHANGED, key), met, timeout_s)

    async def caught_up(self, timeout_s: float) -> bool:
        """Wait until all has been applied that is on the log now; False when it was not in time."""
        self._refuse_ended()
        asked_at, ends = monotonic(), await self.ends()
        if not await self.has_read(ends, timeout_s):
            return False
        self._freshness.was_current(asked_at)
        return True

    async def has_read(self, ends: Mapping[TopicPartition, int], timeout_s: float) -> bool:
        """Wait until all before these ends has been applied; False when it was not in time."""
        self._refuse_ended()
        return await self._waiters.until(None, lambda: self._has_reached(ends), timeout_s)

    async def up_to_date(self, topic_partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Wait until all has been applied that is on these partitions now: what is not in the tables then, is not.

        But for what is in `misfits`, which the tables did not take.
        Raises: ProjectionBehind when that was not in time, or a record there is damaged, so that a missing row means
        nothing; what has ended it for good.
        """
        self._refuse_ended()
        try:
            async with asyncio.timeout(timeout_s):
                ends = {
                    topic_partition: await self.log.port.decided_end(*topic_partition)
                    for topic_partition in topic_partitions
                }
                reached = await self._waiters.until(None, lambda: self._has_reached(ends), timeout_s)
        except TimeoutError:
            reached = False
        if not reached:
            raise ProjectionBehind(
                f"the projection {self.view.name} has not read in {timeout_s:g} s what is on the log"
            )
        for topic, partition, offset in sorted(self.damaged):
            if (topic, partition) in topic_partitions:
                raise ProjectionBehind(
                    f"the projection {self.view.name} lacks {topic}/{partition}/{offset}, which is damaged on the log: "
                    "see `eventlib doctor --deep`"
                )

    async def is_younger(self, age_s: float, timeout_s: float) -> bool:
        """Tell whether it is at most so old (see `age_s`); what is on the log and not in it yet has so long to come."""
        if await self.age_s() <= age_s:
            return True
        return await self._waiters.until(None, lambda: self._freshness.age_s <= age_s, timeout_s)

    async def age_s(self, fresh_s: float = 0.25) -> float:
        """Return how old it is at most (s): all that was on the log so long ago has been applied.

        It asks the log where it ends, when it has not done so for `fresh_s`, and then one of many callers waits for
        that; while the log does not answer, the age grows.
        """
        return await self._freshness.asked(self._reader.known_ends, fresh_s)

    async def ends(self) -> dict[TopicPartition, int]:
        """Return where the partitions that it reads end now.

        Raises: WiringError when the log is another application's; LogUnavailable if it `waits_for_topics`.
        """
        return await self._reader.ends(waits_for_topics=self.waits_for_topics)

    async def rebuild(self) -> None:
        """Forget everything, and read the log from its beginning; `caught_up` waits for the end of that."""
        self._opened.begin_anew()
        self._anew = True
        self._reader.wake()

    async def failed(self) -> None:
        """Wait until something ends it for good, and raise that."""
        assert self._following is not None, "enter the projection first"  # noqa: S101  a misuse, not a state
        await asyncio.shield(self._following)

    # --- following

    @property
    def _opened(self) -> ViewFile:
        assert self._file is not None, "enter the projection first"  # noqa: S101  a misuse, not a state
        return self._file

    def _refuse_ended(self) -> None:
        if self._error is not None:
            raise self._error

    def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        positions = self.positions
        return self._fits and all(positions.get(topic_partition, 0) >= end for topic_partition, end in ends.items())

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_on()
            except RetryableError as error:
                _log.warning("projection %s cannot go on, tries again: %s", self.view.name, error)
                await asyncio.sleep(_RETRY_S)
            except Exception as error:
                kept = KeptError.of(error, personal=self._is_personal)
                _log.error("projection %s has ended: it needs a person\n%s", self.view.name, kept.traceback)
                self._error = error
                self._waiters.fail(error)
                raise

    async def _read_on(self) -> None:
        self._anew = False
        await self._reader.begin(self._opened, await self.ends())
        self._fits = True  # until here the file may have been one that is begun again
        self._waiters.wake([None, *self.positions])
        try:
            while True:
                batch = await self._reader.next(self.positions, self.batch)
                if self._anew or not self._reader.is_complete:
                    return
                if batch.changes or batch.positions != self.positions:
                    self._apply(*batch)
        finally:
            await self._reader.close()

    def _apply(
        self,
        changes: Sequence[tuple[Record, Any]],
        positions: Mapping[TopicPartition, int],
        damaged: Collection[tuple[str, int, int]],
    ) -> None:
        apply, before = self.view.apply, self._opened.positions
        changed = set[Hashable]()

        def act(db: sqlite3.Connection) -> None:
            for record, event in changes:
                changed.update(apply(db, record, event) or ())

        def act_singly(db: sqlite3.Connection) -> None:
            for record, event in changes:
                try:
                    with _savepoint(db):
                        changed.update(apply(db, record, event) or ())
                except _MISFITS as error:
                    self._leave_out(db, record, error)

        try:
            self._opened.write(act, positions, damaged)
        except _MISFITS:  # nothing of it is written: again, with each record by itself
            self._opened.write(act_singly, positions, damaged)
        self._waiters.wake(
            [
                None,
                *((_CHANGED, key) for key in changed),
                *(
                    topic_partition
                    for topic_partition, offset in positions.items()
                    if before.get(topic_partition) != offset
                ),
            ]
        )

    def _leave_out(self, db: sqlite3.Connection, record: Record, error: Exception) -> None:
        reason = kept_reason(error, personal=self._is_personal)
        place = record.topic, record.partition, record.offset
        _log.warning("projection %s leaves %s/%d/%d out: %s", self.view.name, *place, reason)
        db.execute("INSERT OR REPLACE INTO eventlib_misfits VALUES (?, ?, ?, ?)", (*place, reason))


@contextmanager
def _savepoint(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("SAVEPOINT one_record")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK TO one_record")
        raise
    finally:
        db.execute("RELEASE one_record")
