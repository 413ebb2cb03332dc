"""The keys of an OpenID Connect issuer: fetched, kept for a while, and asked for again when a token names another one."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from eventlib.ground.url import is_loopback
from eventlib.identity.options import IdentityOptions
from eventlib.identity.principal import IdentityUnavailable

_log = logging.getLogger("eventlib.identity")

TIMEOUT_S = 5.0
"""How long the issuer may take for an answer."""
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
_KEYS_COUNT_S = 300.0
_KEYS_LAST_S = 3_600.0
_ASK_AGAIN_S = 1.0
"""How long a request waits at most before the issuer is asked again, for a key that it had not a moment ago."""
_DISCOVERY = "/.well-known/openid-configuration"
_MISFITS = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class IssuerKeys:
    """The keys that an issuer signs with.

    They are fetched when they are first needed, every few minutes, and when a token names an unknown one, at most once a
    second, for all requests together. While the issuer is out of reach, its last keys count for an hour. A key that the issuer has removed
    counts for five minutes at most while the issuer is within reach.
    """

    def __init__(
        self, options: IdentityOptions, clock: Callable[[], float], client: Callable[[], httpx.AsyncClient]
    ) -> None:
        self.issuer = str(options.issuer).rstrip("/")
        self._url = None if options.jwks_url is None else str(options.jwks_url)
        self._clock = clock
        self._client = client
        self._keys: KeySet | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._has_failed = False
        self._fetching = asyncio.Lock()

    async def current(self) -> KeySet:
        """Return the keys. Raises: IdentityUnavailable."""
        age_s = self._age_s()
        if self._keys is not None and age_s <= _KEYS_COUNT_S:
            return self._keys
        if self._keys is None or age_s > _KEYS_LAST_S or not self._fetching.locked():
            async with self._fetching:  # requests that come meanwhile do not wait for it, if they have keys
                await self._renew()
        if self._keys is None or self._age_s() > _KEYS_LAST_S:
            raise self._unavailable()
        return self._keys

    async def other_than(self, known: KeySet) -> KeySet:
        """Return newer keys than those known, where another request has not fetched them meanwhile.

        Raises: IdentityUnavailable when the issuer did not answer, so that it may have others.
        """
        async with self._fetching:
            if self._keys is known:
                await asyncio.sleep(max(0.0, _ASK_AGAIN_S - abs(self._clock() - self._tried_at)))
                await self._renew(at_once=True)
        if self._keys is None or self._has_failed:
            raise self._unavailable()
        return self._keys

    def _age_s(self) -> float:
        return abs(self._clock() - self._fetched_at)  # a clock that is set back must not keep keys

    def _unavailable(self) -> IdentityUnavailable:
        return IdentityUnavailable(f"the identity provider {self.issuer} does not give its keys")

    async def _renew(self, *, at_once: bool = False) -> None:
        """Fetch the keys, unless that was just tried, or anyway `at_once`."""
        now = self._clock()
        if not at_once and abs(now - self._tried_at) < _ASK_AGAIN_S:
            return
        self._tried_at, self._has_failed = now, True
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._keys, self._fetched_at = await self._fetched(), now
            self._has_failed = False
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, *_MISFITS) as error:
            reason = str(error) or type(error).__name__
            _log.warning("the keys of %s cannot be fetched: %s", self.issuer, reason)

    async def _fetched(self) -> KeySet:
        async with self._client() as client:
            url = self._url
            if url is None:
                found = await _json(client, f"{self.issuer}{_DISCOVERY}")
                if str(found["issuer"]).rstrip("/") != self.issuer:
                    raise ValueError(f"its discovery document names another issuer, {found['issuer']!r}")
                url = str(found["jwks_uri"])
                _refuse_unprotected(url)
            return _key_set(await _json(client, url))


def _refuse_unprotected(url: str) -> None:
    """Refuse keys that others on the way could replace. Raises: ValueError."""
    parsed = httpx.URL(url)
    if parsed.scheme != "https" and not is_loopback(parsed.host):
        raise ValueError(f"its discovery document names {url!r} for the keys, which is not https")


def _key_set(found: Any) -> KeySet:
    """Return the keys that verify signatures; one that is not understood is passed over (RFC 7517, 5)."""
    keys = [key for each in found["keys"] if (key := _key(each)) is not None]
    if not keys:
        raise ValueError("none of them verifies signatures by an algorithm that is accepted")
    return KeySet(keys)


def _key(found: Any) -> Key | None:
    try:
        is_usable = found["kty"] in _KEY_TYPES and found.get("use", "sig") == "sig"
        return JWKRegistry.import_key(found) if is_usable else None
    except _MISFITS as error:
        _log.warning("a key of the issuer is passed over: %s", str(error) or type(error).__name__)
        return None


async def _json(client: httpx.AsyncClient, url: str) -> Any:
    answer = await client.get(url)
    answer.raise_for_status()
    return answer.json()
