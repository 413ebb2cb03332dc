"""Keeps a catalogue up to date with the log."""

import asyncio

from eventlib.errors import EventlibError, RetryableError
from eventlib.log.base import Log
from eventlib.log.losses import warn_of_lost
from eventlib.registry.catalogue import Catalogue
from eventlib.registry.compatibility import Level
from eventlib.registry.records import SCHEMAS, WRITERS, entry_of

_AT_ONCE = 1_000
_POLL_S = 1.0
_PAUSE_S = 0.2


class View:
    """A catalogue that follows the log; it serves what is durable, never what might be.

    `position` is the next offset of `_schemas` that it will look at, `writer` where the instance answers that was
    the last that may write.
    """

    def __init__(self, log: Log, default: Level) -> None:
        self.catalogue = Catalogue(default)
        self.position = 0
        self.writer: str | None = None
        self._log = log
        self._moved = asyncio.Event()
        self._error: EventlibError | None = None

    async def follow(self) -> None:
        """Follow the log until cancelled. Raises: UndecodableRecord; what keeps the log from being read for good."""
        reader = self._log.reader({(SCHEMAS.name, 0): 0, (WRITERS.name, 0): 0})
        try:
            while True:
                try:
                    records = await reader.poll(_AT_ONCE, _POLL_S)
                    warn_of_lost(reader, "the registry")
                except RetryableError:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                for record in records:
                    if record.topic == WRITERS.name:
                        self.writer = None if record.value is None else record.value.decode(errors="replace")
                    elif (entry := entry_of(record)) is not None:
                        self.catalogue.learn(entry)
                self.position = reader.position((SCHEMAS.name, 0))
                self._tell()
        except EventlibError as error:
            self._error = error
            self._tell()
            raise
        finally:
            await reader.close()

    async def reach(self, position: int) -> None:
        """Wait until all before an offset is in the catalogue. Raises: what has ended the following."""
        while self.position < position:
            if self._error is not None:
                raise self._error
            await self._moved.wait()

    async def moved(self) -> None:
        """Wait until something new was read, or a second."""
        moved = self._moved
        try:
            async with asyncio.timeout(_POLL_S):
                await moved.wait()
        except TimeoutError:
            pass

    async def catch_up(self) -> None:
        """Wait until all that is on the log now is in the catalogue."""
        await self.reach(await self._log.decided_end(SCHEMAS.name, 0))

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
