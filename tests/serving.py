"""Servers of a test, in its own process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from eventlib.devtools.kafka.config import HOST

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[int]:
    """Serve each connection until `serve` returns, and give the port; at the end none is left, answered or not."""
    open_now = dict[asyncio.Task[None], asyncio.StreamWriter]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now[task] = writer
        with suppress(OSError, EOFError, asyncio.CancelledError):  # the client is gone, or the test is over
            await serve(reader, writer)
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        del open_now[task]

    async with await asyncio.start_server(accept, HOST, port, ssl=tls) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            left = {**open_now}
            for task, writer in left.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*left)


_TURNS = 10
"""More turns of the loop than asyncio takes from accepting a connection to its handler; that is not a matter of time."""
