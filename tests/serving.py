"""Servers of a test, in its own process."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import uvicorn

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


@asynccontextmanager
async def serving_app(app: Any, **options: Any) -> AsyncIterator[str]:
    """Serve an application, and give its address; at the end no connection is left, answered or not."""
    with socket.create_server((HOST, 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = _Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, **options))
        running = asyncio.create_task(server.serve([listening]))
        try:
            while not (server.started or running.done()):
                await asyncio.sleep(0.01)
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
            for connection in [*server.server_state.connections]:
                connection.transport.abort()
            await asyncio.sleep(0)


class _Server(uvicorn.Server):
    """A server that leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
