"""Transactions of a process: concurrent appends of its tasks are committed together."""

import asyncio
from collections.abc import Callable, Sequence

from eventlib.log.base import Batch, Claim, Share
from eventlib.log.kafka.append_batcher import AppendBatch
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Fenced, Undecided
from eventlib.log.kafka.point_reads import Written
from eventlib.log.kafka.producer import Producer
from eventlib.model.record import Record

Enter = Callable[[Claim, "asyncio.Future[None]"], None]
"""Checks a claim, and registers the in-flight transaction with its owner. Raises: OwnershipLost."""

_ENOUGH = 1_000
LONG_ENOUGH_S = 0.25
"""After so many records, or so long, a transaction commits: readers see nothing behind an open one."""


Refuse = Callable[[Sequence[Record]], None]
"""Refuses records that are invalid for this log. Raises: ContractError."""


class Transaction(Batch):
    """See `Batch`: one transaction for one share.

    Its records have their offsets at once, and are invisible to readers until it commits.
    """

    def __init__(self, writer: "Writer", share: Share, enter: Enter, refuse: Refuse) -> None:
        loop = asyncio.get_running_loop()
        self._writer = writer
        self._share = share
        self._enter = enter
        self._refuse = refuse
        self._under_way: asyncio.Future[None] = loop.create_future()
        self._clock = loop.time
        self._began_s = 0.0
        self._producer: Producer | None = None
        self._records: list[Record] = []
        self._offsets: list[int] = []
        self._is_told = False

    def enter(self, claim: Claim) -> None:
        """See `Batch.enter`: a takeover of the claim waits for this transaction, or fences it."""
        self._enter(claim, self._under_way)

    async def append(self, records: Sequence[Record]) -> list[int]:
        """See `Batch.append`."""
        self._refuse(records)
        if not records:
            return []
        if self._producer is None:
            self._producer = self._writer.next_producer()
        offsets = await self._producer.write(records)
        self._records += records
        self._offsets += offsets
        return offsets

    @property
    def is_full(self) -> bool:
        """See `Batch.is_full`."""
        return len(self._records) >= _ENOUGH or self._clock() - self._began_s >= LONG_ENOUGH_S

    async def run(self) -> None:
        """Run the share, and commit."""
        self._began_s = self._clock()
        try:
            await self._write()
        except Fenced as error:
            self._writer.spend(error)
            self._fail(error)
        except Exception as error:  # noqa: BLE001  any error must reach the share
            self._fail(error)
        else:
            self._is_told = True
            self._writer.wrote(self._records, self._offsets)
            self._share.committed()

    async def _write(self) -> None:
        try:
            await self._share.write(self)
        except Fenced:
            raise
        except Exception as error:
            if self._producer is not None:
                await self._producer.give_up(error)
            raise
        if self._producer is not None:
            await self._producer.end()

    def is_over(self, turn: "asyncio.Future[list[int]]") -> None:
        """Handle the end of its turn; if that did not begin, or was cut short, the share learns of it here."""
        error = turn.exception()
        if isinstance(error, Exception) and not self._is_told:
            self._fail(error)
        if not self._under_way.done():
            self._under_way.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._is_told = True
        self._share.failed(error)


_TURNS = ("a", "b")


class Writer:
    """Commits appends in groups, one transaction each: a transaction is expensive, a partition in it is cheap.

    Two producers alternate, since a broker delays a producer's next transaction until the last one is complete.
    `seizes` marks a writer for one short operation. `on_end` is called when it is unusable, with whether another owner
    fenced it.
    """

    def __init__(self, cluster: Cluster, largest: Callable[[str], int], written: Written, name: str, lane: str) -> None:
        self.name = name
        self.is_spent = False
        self.seizes = False
        self.on_end: Callable[[bool], None] = lambda _: None
        self._written = written
        self._producers = [Producer(cluster, lane, largest, turn) for turn in producer_names(name)]
        self._group = AppendBatch(self._commit, f"transactions of {name}")

    async def start(self) -> None:
        """Acquire its transactional ids. Raises: Fenced, LogUnavailable, LogDenied."""
        await asyncio.gather(*(producer.start() for producer in self._producers))

    def append(self, records: Sequence[Record]) -> "asyncio.Future[list[int]]":
        """Append records with the next transaction; the future may raise Fenced, and what `Producer.commit` does."""
        return self._group.append(records)

    def enlist(self, share: Share, enter: Enter, refuse: Refuse) -> None:
        """Give a share its own transaction, after the queued ones."""
        transaction = Transaction(self, share, enter, refuse)
        self._group.alone(transaction.run).add_done_callback(transaction.is_over)

    async def close(self) -> None:
        """Stop, and fail what is queued."""
        self.is_spent = True
        await self._group.close()

    async def _commit(self, records: Sequence[Record]) -> list[int]:
        producer = self.next_producer()
        try:
            offsets = await producer.commit(records)
        except Fenced as error:
            self.spend(error)
            raise
        self.wrote(records, offsets)
        return offsets

    def next_producer(self) -> Producer:
        """Return the next producer in turn. Raises: Fenced."""
        if self.is_spent:
            raise Fenced("its writer was ended")
        self._producers.reverse()
        return self._producers[-1]

    def spend(self, error: Fenced) -> None:
        """Mark the writer as unusable."""
        self.is_spent = True
        self.on_end(not isinstance(error, Undecided))

    def wrote(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """Record a commit."""
        self._written.wrote(records, offsets)


def producer_names(writer: str) -> list[str]:
    """Return a writer's transactional ids: a takeover fences all of them."""
    return [f"{writer}.{turn}" for turn in _TURNS]
