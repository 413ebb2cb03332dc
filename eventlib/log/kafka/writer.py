"""Transactions of a process: what its tasks append at one time is committed together."""

import asyncio
from collections.abc import Callable, Sequence

from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.failures import Fenced, Undecided
from eventlib.log.kafka.groups import Group
from eventlib.log.kafka.looking import Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.sharing import Enter, Refuse, Transaction
from eventlib.log.port import Record, Share

_TURNS = ("a", "b")


class Writer:
    """Commits appends, each group of them in one transaction: a transaction costs a broker much, a partition in it little.

    Two producers take turns, since a broker lets the next transaction of one wait until the former is all put away.
    `seizes` says that it is there for one short act. `on_end` is called when it is of no use any more, with whether
    somebody else has ended it.
    """

    def __init__(self, cluster: Cluster, largest: Callable[[str], int], written: Written, name: str, lane: str) -> None:
        self.name = name
        self.is_spent = False
        self.seizes = False
        self.on_end: Callable[[bool], None] = lambda _: None
        self._written = written
        self._producers = [Producer(cluster, lane, largest, turn) for turn in producer_names(name)]
        self._group = Group(self._commit, f"transactions of {name}")

    async def start(self) -> None:
        """Make its transactional ids its own. Raises: Fenced, LogUnavailable, LogDenied."""
        await asyncio.gather(*(producer.start() for producer in self._producers))

    def append(self, records: Sequence[Record]) -> "asyncio.Future[list[int]]":
        """Append records with the next transaction; the future may raise Fenced, and what `Producer.commit` does."""
        return self._group.append(records)

    def enlist(self, share: Share, enter: Enter, refuse: Refuse) -> None:
        """Give a share a transaction of its own, after those before it."""
        transaction = Transaction(self, share, enter, refuse)
        self._group.alone(transaction.run).add_done_callback(transaction.is_over)

    async def close(self) -> None:
        """Stop, and fail what still waits."""
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
        """Return whose turn it is. Raises: Fenced."""
        if self.is_spent:
            raise Fenced("its writer was ended")
        self._producers.reverse()
        return self._producers[-1]

    def spend(self, error: Fenced) -> None:
        """Be of no use any more."""
        self.is_spent = True
        self.on_end(not isinstance(error, Undecided))

    def wrote(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """Take note of what was committed."""
        self._written.wrote(records, offsets)


def producer_names(writer: str) -> list[str]:
    """Return the transactional ids of a writer: who takes its place fences them all."""
    return [f"{writer}.{turn}" for turn in _TURNS]
