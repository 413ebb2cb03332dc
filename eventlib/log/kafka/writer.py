"""Transactions of a process: what its tasks append at one time is committed together."""

import asyncio
from collections.abc import Callable, Sequence

from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.failures import Fenced, Undecided
from eventlib.log.kafka.groups import Group
from eventlib.log.kafka.looking import Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.port import Record

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

    async def close(self) -> None:
        """Stop, and fail what still waits."""
        self.is_spent = True
        await self._group.close()

    async def _commit(self, records: Sequence[Record]) -> list[int]:
        if self.is_spent:
            raise Fenced("its writer was ended")
        producer = self._producers[0]
        self._producers.reverse()
        try:
            offsets = await producer.commit(records)
        except Fenced as error:
            self.is_spent = True
            self.on_end(not isinstance(error, Undecided))
            raise
        self._written.wrote(records, offsets)
        return offsets


def producer_names(writer: str) -> list[str]:
    """Return the transactional ids of a writer: who takes its place fences them all."""
    return [f"{writer}.{turn}" for turn in _TURNS]
