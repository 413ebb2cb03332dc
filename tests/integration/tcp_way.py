"""A TCP proxy on this machine that can be shut, and that can drop connections half way."""

import asyncio
from contextlib import suppress
from typing import Self

from eventlib.devtools.kafka.config import HOST
from tests.ports import free_port

_CHUNK_BYTES = 1 << 16


class Way:
    """The way to what listens at a port: nothing listens at its own `port` until it is opened.

    `drops` connections are reset as soon as something has been sent through them.
    """

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.drops = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._passing = set[asyncio.Task[None]]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Reset what is left."""
        if self._server is not None:
            self._server.close()
        for passing in [*self._passing]:
            passing.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def open(self) -> None:
        """Let connections pass from now on."""
        self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        try:
            await self._pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either side is gone, or the test is over
        finally:
            await _aborted(writer)
            self._passing.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.drops:
            self.drops -= 1
            await reader.read(_CHUNK_BYTES)
            return
        there, back = await asyncio.open_connection(HOST, self._target)
        try:
            ways = [asyncio.ensure_future(_copy(reader, back)), asyncio.ensure_future(_copy(there, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            await _aborted(back)


async def _aborted(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK_BYTES):
            target.write(data)
            await target.drain()
