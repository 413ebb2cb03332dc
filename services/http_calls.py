"""Calls over HTTP to somebody who knows idempotency keys, and what each kind of answer means.

An answer in the agreed shape, a refusal included, is a value. Whatever leaves open if the call has acted, or only says
"not now", is OutcomeUnknown: no connection, no answer in time, a cut one, 5xx, 408, 409, 425, 429, an answer that
nobody understands. Any other answer is Terminal, since the same call would get it again: a wrong address or password,
a body that is refused, a key that was used for something else (422).

Source: the Idempotency-Key header field, draft-ietf-httpapi-idempotency-key-header (409: the first call with this key
is still being answered).
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx
from pydantic import AnyHttpUrl, BaseModel, TypeAdapter, ValidationError

from eventlib.errors import OutcomeUnknown, Terminal
from services.settings import ShopSettings

A = TypeVar("A", bound=BaseModel)

_SERVER_ERROR = 500
_ASK_AGAIN = frozenset({408, 409, 425, 429})


class Calls:
    """Calls to one address; see the module for what they raise."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(self, path: str, key: str, body: Mapping[str, object], answers: TypeAdapter[A]) -> A:
        """Post a body under an idempotency key, and return the answer. Raises: OutcomeUnknown, Terminal."""
        what = f"POST {self._client.base_url}{path} ({key})"
        try:
            answer = await self._client.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError as error:
            raise OutcomeUnknown(f"{what}: {str(error) or type(error).__name__}") from error
        except httpx.DecodingError as error:
            raise OutcomeUnknown(f"{what}: an answer that is not what it says: {error}") from error
        if answer.status_code >= _SERVER_ERROR or answer.status_code in _ASK_AGAIN:
            raise OutcomeUnknown(f"{what}: status {answer.status_code}")
        if not answer.is_success:
            raise Terminal(f"{what}: status {answer.status_code}: {answer.text[:200]}")
        try:
            return answers.validate_json(answer.content)
        except ValidationError as error:
            raise OutcomeUnknown(f"{what}: an answer in no known shape: {answer.text[:200]!r}") from error


@asynccontextmanager
async def open_calls(url: AnyHttpUrl, settings: ShopSettings) -> AsyncIterator[Calls]:
    """Open a pool of connections to an address."""
    # A call that waits for a free connection was not sent: that is not the other side's silence.
    timeout = httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s, pool=None)
    limits = httpx.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections)
    async with httpx.AsyncClient(base_url=str(url), timeout=timeout, limits=limits, trust_env=False) as client:
        yield Calls(client)
