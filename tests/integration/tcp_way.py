"""A TCP proxy on this machine that can be shut, and that can drop connections half way."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Self

from eventlib.devtools.kafka.config import HOST
from tests.ports import free_port
from tests.serving import serving

_CHUNK_BYTES = 1 << 16


class Way:
    """The way to what listens at a port: nothing listens at its own `port` until it is opened.

    `drops` connections are reset as soon as something has been sent through them.
    """

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.drops = 0
        self._target = target
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Reset what is left."""
        await self._open.aclose()

    async def open(self) -> None:
        """Let connections pass from now on."""
        await self._open.enter_async_context(serving(self._pass, port=self.port))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.drops:
            self.drops -= 1
            await reader.read(_CHUNK_BYTES)
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(HOST, self._target)
        try:
            async with asyncio.TaskGroup() as ways:
                both = [ways.create_task(_copy(reader, back)), ways.create_task(_copy(there, writer))]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for way in both:
                    way.cancel()
        finally:
            writer.transport.abort()
            back.transport.abort()
            with suppress(OSError):
                await back.wait_closed()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK_BYTES):
            target.write(data)
            await target.drain()
