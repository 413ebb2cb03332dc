"""HTTP request bodies within a limit, as strict JSON (RFC 8259)."""

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from json import detect_encoding
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from eventlib.strict_json import JsonRefused, decode_json

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


class RefusedJson(HTTPException):
    """A body that strict readers of JSON refuse; `member` is the name of the member that it is about, if it is one."""

    def __init__(self, error: JsonRefused) -> None:
        super().__init__(400 if error.member is None else 422, str(error))
        self.member = error.member


class RefusedEncoding(HTTPException):
    """A body that is compressed: nothing here inflates what others send."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            415, f"send the body as it is, without Content-Encoding: {encoding}", {"Accept-Encoding": "identity"}
        )


def compression_of(request: Request) -> str | None:
    """Return how a request's body is compressed; None for one that is sent as it is."""
    encoding = request.headers.get("content-encoding", "identity")
    return None if encoding.lower() == "identity" else encoding


class StrictRoute(APIRoute):
    """An operation whose body is JSON as `decode_json` reads it; a compressed one is refused with 415."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_Strict(request.scope, request.receive))

        return handle_strictly


class _Strict(Request):
    async def body(self) -> bytes:
        if (encoding := compression_of(self)) is not None:
            raise RefusedEncoding(encoding)
        return await super().body()

    async def json(self) -> object:
        body = await self.body()
        try:
            return decode_json(body.decode(detect_encoding(body)))
        except JsonRefused as error:
            raise RefusedJson(error) from error
