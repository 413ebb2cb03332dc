"""Posts signed requests to one subscriber, and reads its answer: bounded in time and size, and no redirect is followed."""

import asyncio
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from importlib.metadata import version
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from time import monotonic

import httpx

from eventlib.ground.http_client import http_client
from eventlib.model.kept_error import kept_reason
from eventlib.values import escaped
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
            return Answer(escaped(kept_reason(error, personal=is_quoted))[:_SHOWN])

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


_KEPT_S = 30.0
_NAT64 = IPv6Network("64:ff9b::/96")
"""Where a network without IPv4 reaches a public IPv4 address (RFC 6052); 64:ff9b:1::/48 leads into a network's own."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""What IANA assigns to networks; all other IPv6 addresses have a meaning of their own."""

_SPECIAL_IPV4 = [
    *map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
]
_SPECIAL_IPV6 = [
    *map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
]
"""What the IANA special-purpose address registries take out, multicast and the returned 3ffe::/16 too.

They are listed here, since Python's tables differ by its version and leave some forms out.
"""


class AddressRefused(Exception):
    """A host has no address that a webhook may go to."""


class Resolver:
    """The addresses of one subscriber's host; a name server that hangs keeps no other subscriber waiting.

    Guarantee: the address that was looked at is the one that is connected to, whatever a second question would answer.
    """

    def __init__(self, host: str, port: int, *, private: bool) -> None:
        self._host = host
        self._port = port
        self._private = private
        self._thread = ThreadPoolExecutor(1, "eventlib-webhook-names")
        self._known: tuple[float, list[str]] = (float("-inf"), [])

    async def addresses(self) -> list[str]:
        """Return the host's addresses. Raises: AddressRefused when none may be used; OSError when it has none."""
        at, known = self._known
        if monotonic() - at > _KEPT_S:
            known = await asyncio.get_running_loop().run_in_executor(self._thread, self._looked_up)
            self._known = monotonic(), known
        return known

    def _looked_up(self) -> list[str]:
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = [*dict.fromkeys(str(each[4][0]) for each in found)]
        allowed = [each for each in addresses if self._private or is_public(each)]
        if not allowed:
            raise AddressRefused(
                f"{self._host} is {addresses[0]}, which is not a public address: `private = true` allows it"
            )
        return allowed

    def close(self) -> None:
        """End its thread, once a question that is under way is answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def is_public(address: str) -> bool:
    """Return whether an address is one that networks of the public Internet are given.

    An IPv6 address that stands for an IPv4 address (IPv4-mapped, or NAT64's well-known prefix) is judged by that one. What is
    not allowed is refused: addresses of a link, a site or a tunnel, those with a meaning of their own, and unassigned space.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = _inner(found)
        if inner is None:
            return found in _GLOBAL_UNICAST and not any(found in network for network in _SPECIAL_IPV6)
        found = inner
    return not any(found in network for network in _SPECIAL_IPV4)


def _inner(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.ipv4_mapped
