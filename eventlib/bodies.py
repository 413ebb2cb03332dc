"""Bodies of HTTP requests, no larger than an application takes, whatever they declare."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def bounded(receive: Receive, most_bytes: int, refusal: Callable[[], Exception]) -> Receive:
    """Return an ASGI `receive` that raises a refusal once a body has more bytes than that."""
    read = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most_bytes:
            raise refusal()
        return message

    return counted
