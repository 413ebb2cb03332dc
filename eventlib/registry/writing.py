"""The one instance that may write: elected as the owner of a task is, fenced by its claim."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from eventlib.errors import ContractError, EventlibError, OwnershipLost, RetryableError
from eventlib.ground.startup import Startup
from eventlib.log.base import Claim, Log
from eventlib.model.record import Record
from eventlib.registry.errors import store_failed, too_large
from eventlib.registry.following import View
from eventlib.registry.records import SCHEMAS, WRITERS, Entry, record_of
from eventlib.values import now_ms

_SERVICE = SCHEMAS.name
_PARTITION = 0
_WRITER_KEY = b"writer"
_PAUSE_S = 0.2


class NotTheWriter(OwnershipLost):
    """Another instance may write, or none; this one may not, or not any more.

    `may_have_written`: it lost that while it wrote, and on a log of several machines it is unknown how that ended.
    """

    def __init__(self, sentence: str, *, may_have_written: bool = False) -> None:
        super().__init__(sentence)
        self.may_have_written = may_have_written


class Writer:
    """What this instance writes while it owns the task.

    Guarantee: writes come one after the other, each decided on a catalogue that holds all before it; one that was
    decided on less fails, and nothing of it is on the log. An embedded application that registers a schema of its own
    takes the claim for a moment (`Log.seize`); this instance has it back within seconds.
    """

    def __init__(self, log: Log, view: View, url: str) -> None:
        self._log = log
        self._view = view
        self._url = url
        self._claim: Claim | None = None
        self._is_fresh = False
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_elected(self) -> bool:
        """Whether this instance may write, as far as it knows."""
        return self._claim is not None

    async def stand(self, startup: Startup) -> None:
        """Stand for election, and keep what is won, until cancelled. Raises: as `Membership.changed` does."""
        member = await startup.run("the right to write schemas", lambda: self._log.join(_SERVICE, 1))
        try:
            held: dict[int, Claim] = {}
            while True:
                held = dict(await member.moved(held))
                await self._take(held.get(_PARTITION))
        finally:
            self._claim = None
            with suppress(EventlibError):
                await member.leave()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for this instance's turn to decide and write, with an up-to-date catalogue.

        Raises: NotTheWriter; Refused when the log cannot be read.
        """
        async with self._one_at_a_time:
            self._checked()
            if not self._is_fresh:
                await self._catch_up()
            yield

    async def write(self, entries: Sequence[Entry]) -> None:
        """Write what was decided in a turn, all or nothing, and wait until the catalogue has it.

        Raises: NotTheWriter when another instance may write now; Refused when the log refuses, or it is unknown whether
        it was written.
        """
        claim = self._checked()
        records = [record_of(each) for each in entries]
        self._refuse_large(records)
        self._is_fresh = False
        try:
            offsets = await self._log.append(records, claim)
            await self._view.reach(offsets[-1] + 1)
        except OwnershipLost as error:
            self._claim = None
            raise NotTheWriter(str(error), may_have_written=True) from error
        except ContractError as error:
            raise too_large(SCHEMAS.max_event_bytes) from error
        except EventlibError as error:
            raise store_failed(str(error)) from error
        self._is_fresh = True

    async def _take(self, claim: Claim | None) -> None:
        async with self._one_at_a_time:
            self._claim, self._is_fresh = claim, False
            if claim is None:
                return
            if not await self._announced(claim):
                self._claim = None

    async def _announced(self, claim: Claim) -> bool:
        """Say where this instance is reached, however long that takes; False when it is no longer the one."""
        while True:
            try:
                here = Record(WRITERS.name, 0, -1, now_ms(), _WRITER_KEY, self._url.encode())
                await self._log.append([here], claim)
            except OwnershipLost:
                return False
            except RetryableError:
                await asyncio.sleep(_PAUSE_S)
            else:
                return True

    async def _catch_up(self) -> None:
        # No older claim can append from here on: it ended when this one was made.
        try:
            await self._view.catch_up()
        except EventlibError as error:
            raise store_failed(str(error)) from error
        self._is_fresh = True

    def _checked(self) -> Claim:
        if self._claim is None:
            raise NotTheWriter("another instance may write")
        return self._claim

    def _refuse_large(self, records: Sequence[Record]) -> None:
        largest = max((len(each.value or b"") for each in records), default=0)
        if largest > SCHEMAS.max_event_bytes:
            raise too_large(SCHEMAS.max_event_bytes)
