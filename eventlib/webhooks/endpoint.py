"""Posts signed requests to one subscriber, and reads its answer: bounded in time and size, and no redirect is followed."""

import asyncio
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from importlib.metadata import version

import httpx

from eventlib.ground.http_client import http_client
from eventlib.model.kept_error import KeptError
from eventlib.values import escaped
from eventlib.webhooks.addresses import AddressRefused, Resolver
from eventlib.webhooks.cloudevents import Content
from eventlib.webhooks.signing import STANDARD_WEBHOOKS
from eventlib.webhooks.subscribers import Subscriber

_READ_BYTES = 16_384
"""Of an answer's body, so that its connection can be used again; what is longer is cut off with its connection."""
_BODY_S = 1.0
_SHOWN = 200
_LONGEST_AFTER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: `error` is None when it was taken.

    `after_s` is the least pause that was asked for; the endpoint `is_gone` for good; `is_final` when another attempt
    could not go better.
    """

    error: str | None = None
    after_s: float = 0.0
    is_gone: bool = False
    is_final: bool = False


class Endpoint:
    """One subscriber's endpoint. Guarantee: `post` returns within the subscriber's `timeout_s`, whatever is answered.

    Raises: WiringError when a secret cannot be read, or is none.
    """

    def __init__(self, subscriber: Subscriber) -> None:
        self._timeout_s = subscriber.timeout_s
        self._withholds = subscriber.personal  # an answer may quote what was sent, and the error is kept on the log
        self._url = httpx.URL(subscriber.url)
        self._secrets = subscriber.signing_secrets()
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        self._host = self._url.raw_host.decode("ascii")
        self._resolver = Resolver(self._host, port, private=subscriber.private)
        limits = httpx.Limits(max_connections=subscriber.concurrency, max_keepalive_connections=subscriber.concurrency)
        self._client = http_client(
            _READ_BYTES, verify=trust(), trust_env=False, limits=limits, timeout=subscriber.timeout_s
        )

    async def post(self, webhook_id: str, content: Content, traceparent: str | None = None) -> Answer:
        """Send a request, signed with each secret; the answer says what to do when it was not taken."""
        now_s = int(time.time())
        headers = {
            **content.headers,
            **STANDARD_WEBHOOKS.sign(self._secrets, webhook_id, now_s, content.body),
            "user-agent": _user_agent(),
            "host": self._url.netloc.decode("ascii"),
        }
        if traceparent is not None:
            headers["traceparent"] = traceparent
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._posted(content.body, headers)
        except TimeoutError:
            return Answer(f"no answer within {self._timeout_s:g} s")
        except AddressRefused as error:
            return Answer(str(error))
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            is_quoted = self._withholds and isinstance(error, httpx.ProtocolError | httpx.DecodingError)
            return Answer(escaped(KeptError.of(error, personal=is_quoted).reason)[:_SHOWN])

    async def _posted(self, body: bytes, headers: dict[str, str]) -> Answer:
        addresses = await self._resolver.addresses()
        for address in addresses[:-1]:
            try:
                return await self._posted_to(address, body, headers)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._posted_to(addresses[-1], body, headers)

    async def _posted_to(self, address: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Post to an address; the certificate has to be that of the URL's host."""
        url = self._url.copy_with(host=address)
        named = {"sni_hostname": self._host}
        async with self._client.stream("POST", url, content=body, headers=headers, extensions=named) as response:
            self._client.cookies.clear()  # nothing that an endpoint sends is kept
            answer = answer_of(response)
            try:
                async with asyncio.timeout(_BODY_S):
                    text = (await response.aread()).decode("utf-8", "replace")
            except (httpx.HTTPError, TimeoutError):  # the status has come: nothing is needed of the body
                text = ""
        if answer.error is None or not text.strip() or self._withholds:
            return answer
        return Answer(f"{answer.error}: {escaped(text.strip())[:_SHOWN]}", answer.after_s, answer.is_gone)

    async def close(self) -> None:
        """Close its connections."""
        self._resolver.close()
        await self._client.aclose()


def answer_of(response: httpx.Response) -> Answer:
    """Return what a status means: 2xx is taken, 410 ends the subscription, and anything else is tried again."""
    status = response.status_code
    if response.is_success:
        return Answer()
    known = f"{status} {HTTPStatus(status).phrase}" if status in {each.value for each in HTTPStatus} else str(status)
    if response.is_redirect:
        return Answer(f"{known}: redirects are not followed: give the URL that it leads to")
    return Answer(known, _after_s(response.headers.get("retry-after", "")), status == HTTPStatus.GONE)


def _after_s(text: str) -> float:
    """Return the pause in a Retry-After header: seconds or a date (RFC 9110, 10.2.3), a day at most; 0 for none."""
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_AFTER_S)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(max((at - datetime.now(UTC)).total_seconds(), 0.0), _LONGEST_AFTER_S)


@lru_cache(maxsize=1)
def trust() -> ssl.SSLContext:
    """Return the certificates that are trusted: those of SSL_CERT_FILE or SSL_CERT_DIR, if they are set."""
    return httpx.create_ssl_context()


@lru_cache(maxsize=1)
def _user_agent() -> str:
    return f"eventlib/{version('eventlib-sagas')}"
