"""Connections that can be cut in the middle of a call, as by a broken network."""

import asyncio
from contextlib import suppress
from typing import Any, ClassVar, cast

from starlette.requests import Request

from eventlib.http import BoundedProtocol

Address = tuple[str, int]


class Line(BoundedProtocol):
    """One client's connection; `Line.of` finds that of a request."""

    open: ClassVar[dict[Address, "Line"]] = {}

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._address: Address = ("", 0)
        self._gone = asyncio.Event()

    @classmethod
    def of(cls, request: Request) -> "Line":
        """Return the connection that a request came on."""
        client = request.client
        assert client is not None  # noqa: S101  it came over TCP
        return cls.open[client.host, client.port]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Register a connection."""
        super().connection_made(transport)
        self._address = cast("Address", transport.get_extra_info("peername")[:2])
        Line.open[self._address] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister a connection."""
        super().connection_lost(exc)
        Line.open.pop(self._address, None)
        self._gone.set()

    def cut(self) -> None:
        """Close the connection at once, unsent data included."""
        self.transport.abort()

    async def hang(self, longest_s: float) -> None:
        """Wait until the client closes the connection, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._gone.wait()
