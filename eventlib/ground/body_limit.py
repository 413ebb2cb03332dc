"""HTTP request bodies within a limit, as strict JSON (RFC 8259)."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from json import detect_encoding
from typing import Annotated, Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import Scope

from eventlib.ground.pydantic_errors import first_errors
from eventlib.ground.strict_json import JsonRefused, decode_json

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
METER = "eventlib.meter"
"""The member of an ASGI scope that charges the request's caller, where an app has limits."""
_BYTES_OF_A_UNIT = 1_000


def charge(request: Request, work: float) -> None:
    """Charge a request's caller for its work, 1 and more, once that is known. Raises: Refusal (429)."""
    meter = request.scope.get(METER)
    if meter is not None:
        meter.charge(work)


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


class RefusedBody(HTTPException):
    """A body that is no value of its operation's model: the first errors as Pydantic has them, of `count`."""

    def __init__(self, errors: Sequence[Mapping[str, Any]], count: int) -> None:
        super().__init__(422, f"body {'.'.join(map(str, errors[0]['loc']))}: {errors[0]['msg']}"[:1_000])
        self.errors = errors
        self.count = count


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
    """An operation whose body is JSON as `decode_json` reads it; a compressed one is refused with 415.

    Guarantee: what is wrong with a body is listed only as far as an answer shows it, whatever the body is.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        validated = self._validated()
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_Strict(request.scope, request.receive, validated))

        return handle_strictly

    def _validated(self) -> Callable[[Any], Any]:
        """Return the function that validates a decoded body. FastAPI takes what it returns, and would list every error."""
        field = self.body_field
        if field is None or field is not self.dependant.body_params[0]:  # several bodies in one, by name
            return lambda value: value
        adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.field_info.annotation, field.field_info])  # type: ignore[arg-type]  # known at run time

        def validated(value: Any) -> Any:
            try:
                return adapter.validate_python(value, from_attributes=True)
            except ValidationError as error:
                raise RefusedBody(first_errors(error), error.error_count()) from None

        return validated


class _Strict(Request):
    def __init__(self, scope: Scope, receive: Any, validated: Callable[[Any], Any]) -> None:
        super().__init__(scope, receive)
        self._validated = validated

    async def body(self) -> bytes:
        if (encoding := compression_of(self)) is not None:
            raise RefusedEncoding(encoding)
        return await super().body()

    async def json(self) -> object:
        body = await self.body()
        charge(self, max(1, len(body) / _BYTES_OF_A_UNIT))
        try:
            decoded = decode_json(body.decode(detect_encoding(body)))
        except JsonRefused as error:
            raise RefusedJson(error) from error
        return self._validated(decoded)
