"""HTTP calls to a server that supports idempotency keys, and the outcome of each kind of answer.

An answer that matches the schema, a refusal included, is a value. If it is unknown whether the call took effect, or the
server asks to retry later, it is OutcomeUnknown: no connection, a timeout, a truncated answer, 5xx, 408, 409, 425, 429,
an unreadable answer. Any other answer is Terminal, since a retry would get it again: a wrong address or password,
a refused body, a key that was used for another request (422).

Source: the Idempotency-Key header field, draft-ietf-httpapi-idempotency-key-header (409: the first call with this key
is still being answered).
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar

import httpx
from pydantic import AnyHttpUrl, BaseModel, TypeAdapter, ValidationError

from eventlib import OutcomeUnknown, TerminalError
from eventlib.errors import is_final
from eventlib.http import http_client
from services.settings import ShopSettings

User = tuple[str, str]
"""A name and a password."""

A = TypeVar("A")

_MOST_BYTES = 1_000_000


class _Answer(BaseModel):
    outcome: str


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Calls:
    """Calls to one address; see the module for what they raise."""

    def __init__(self, client: httpx.AsyncClient, user: User | None = None) -> None:
        self._client = client
        self._hidden = () if user is None else _as_sent(user)

    async def post(self, path: str, key: str, body: Mapping[str, object], answers: Mapping[str, type[A]]) -> A:
        """Post a body under an idempotency key, and return the answer: a dataclass by the `outcome` that it names.

        Raises: OutcomeUnknown, TerminalError.
        """
        what = f"POST {self._client.base_url}{path} ({key})"
        try:
            answer = await self._client.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError as error:
            raise OutcomeUnknown(f"{what}: {str(error) or type(error).__name__}") from error
        except httpx.DecodingError as error:
            raise OutcomeUnknown(f"{what}: an answer that is not what it says: {error}") from error
        try:
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            if is_final(error):
                raise TerminalError(f"{what}: status {answer.status_code}: {self._shown(answer)}") from error
            raise OutcomeUnknown(f"{what}: status {answer.status_code}") from error
        try:
            kind = answers[_Answer.model_validate_json(answer.content).outcome]
            found: A = _adapter(kind).validate_json(answer.content)  # type: ignore[arg-type]  # a class can be hashed
        except (ValidationError, KeyError) as error:
            raise OutcomeUnknown(f"{what}: an answer in no known shape: {self._shown(answer)!r}") from error
        return found

    def _shown(self, answer: httpx.Response) -> str:
        """Return the start of an answer with the password masked, since it is stored in records."""
        text = answer.text
        for secret in self._hidden:
            text = text.replace(secret, "…")
        return text[:200]


def _as_sent(user: User) -> tuple[str, ...]:
    name, password = user
    return b64encode(f"{name}:{password}".encode()).decode(), *filter(None, [password])


@asynccontextmanager
async def open_calls(url: AnyHttpUrl, settings: ShopSettings, user: User | None = None) -> AsyncIterator[Calls]:
    """Open a pool of connections to an address, as a user of it."""
    # A call waiting for a free connection was not sent: not a timeout of the server.
    timeout = httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s, pool=None)
    limits = httpx.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections)
    async with http_client(
        _MOST_BYTES, base_url=str(url), timeout=timeout, limits=limits, auth=user, trust_env=False
    ) as opened:
        yield Calls(opened, user)
