"""A transaction of a writer that is worked out while it is being made."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eventlib.errors import LogUnavailable
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.producer import Producer
from eventlib.log.port import Batch, Claim, Record, Share

if TYPE_CHECKING:
    from eventlib.log.kafka.writer import Writer

Enter = Callable[[Claim, "asyncio.Future[None]"], None]
"""Looks whether a claim counts, and lets its owner know of what is under way. Raises: OwnershipLost."""

_ENOUGH = 1_000
_LONG_ENOUGH_S = 0.25
"""After so many records, or so long, others wait long enough: readers see nothing behind an open transaction."""


Refuse = Callable[[Sequence[Record]], None]
"""Refuses what is not for this log. Raises: ContractError."""


class Transaction(Batch):
    """See `Batch`: one transaction for one share.

    What it writes has its offset at once, and is seen by nobody before it is committed.
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
        """See `Batch.enter`: whoever takes the claim over lets this end, or fences it."""
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
        return len(self._records) >= _ENOUGH or self._clock() - self._began_s >= _LONG_ENOUGH_S

    async def run(self) -> None:
        """Let the share write, and commit that."""
        self._began_s = self._clock()
        try:
            await self._write()
        except Fenced as error:
            self._writer.spend(error)
            self._fail(error)
        except Exception as error:  # noqa: BLE001  whatever it is, the share has to hear of it
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
        """Take note that its turn is over, or never came."""
        error = None if turn.cancelled() else turn.exception()
        if not self._is_told:
            self._fail(error if isinstance(error, Exception) else LogUnavailable("the log was closed meanwhile"))
        if not self._under_way.done():
            self._under_way.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._is_told = True
        self._share.failed(error)
