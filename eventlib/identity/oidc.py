"""Access tokens of an OpenID Connect issuer: their signature, their claims, and whether they were revoked."""

import asyncio
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import httpx
from joserfc import jwt
from joserfc.errors import (
    ExpiredTokenError,
    InvalidClaimError,
    InvalidKeyIdError,
    JoseError,
    MissingClaimError,
    MissingKeyError,
)
from joserfc.jwk import KeySet

from eventlib.errors import WiringError
from eventlib.http.client import http_client
from eventlib.identity.options import IdentityOptions
from eventlib.identity.principal import IdentityUnavailable, Principal, Role, Unauthenticated

_log = logging.getLogger("eventlib.identity")

# Asymmetric ones only: with a shared secret, everyone who verifies could sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
_MOST_BYTES = 1_000_000
_MOST_TOKEN = 16_384
_TIMEOUT_S = 5.0
_KEYS_COUNT_S = 300.0
_KEYS_LAST_S = 3_600.0
_ASK_AGAIN_S = 10.0
_MOST_ANSWERS = 10_000
_DISCOVERY = "/.well-known/openid-configuration"


class Oidc:
    """Verifies the access tokens of one issuer.

    The issuer's keys are fetched when they are first needed, every few minutes, and when a token names an unknown one.
    While the issuer is out of reach, its last keys count for an hour.
    """

    def __init__(self, options: IdentityOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._issuer = str(options.issuer).rstrip("/")
        # The signed claim is compared as a text: with and without the slash that a URL's normal form ends with.
        expected: Any = {"essential": True, "values": [self._issuer, f"{self._issuer}/"]}
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(clock()),
            leeway=options.leeway_s,
            iss=expected,
            aud={"essential": True, "value": options.audience or ""},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._keys: KeySet | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()
        self._revocations = OrderedDict[bytes, tuple[float, bool]]()

    async def principal(self, token: str) -> Principal:
        """Return the principal of a token. Raises: Unauthenticated; IdentityUnavailable when that cannot be known."""
        if len(token) > _MOST_TOKEN:
            raise Unauthenticated("the token is too long")
        claims = self._verified(await self._signed(token))
        if self._options.introspection_url is not None and not await self._is_active(token):
            raise Unauthenticated("the token was revoked")
        return self._principal(claims)

    async def _signed(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature is the issuer's."""
        keys = await self._current_keys()
        try:
            return _decoded(token, keys)
        except InvalidKeyIdError:
            renewed = await self._renewed_keys()
            if renewed is keys:
                raise Unauthenticated("the token is signed with a key that the issuer does not have") from None
        try:
            return _decoded(token, renewed)
        except InvalidKeyIdError:
            raise Unauthenticated("the token is signed with a key that the issuer does not have") from None

    def _verified(self, claims: dict[str, Any]) -> dict[str, Any]:
        try:
            self._claims.validate(claims)
        except ExpiredTokenError as error:
            raise Unauthenticated("the token has expired: log in again, or refresh it") from error
        except MissingClaimError as error:
            raise Unauthenticated(f"the token lacks the claim {error.claim}") from error
        except InvalidClaimError as error:
            reason = _WRONG.get(error.claim or "", "is invalid")
            raise Unauthenticated(f"the token's claim {error.claim} {reason}") from error
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        named = _at(claims, self._options.roles_claim)
        texts = {each for each in named if isinstance(each, str)} if isinstance(named, list) else set()
        roles = frozenset(role for role in Role if role.value in texts)
        customer = _at(claims, self._options.customer_claim)
        display = claims.get("preferred_username")
        return Principal(
            subject=str(claims["sub"]),
            source="oidc",
            roles=roles,
            issuer=self._issuer,
            display=display if isinstance(display, str) else "",
            customer=customer if Role.CUSTOMER in roles and isinstance(customer, str) and customer else None,
        )

    async def _current_keys(self) -> KeySet:
        if self._keys is None or self._clock() - self._fetched_at > _KEYS_COUNT_S:
            return await self._renewed_keys()
        return self._keys

    async def _renewed_keys(self) -> KeySet:
        """Fetch the keys, unless that was just done; return those of before while they cannot be fetched."""
        async with self._fetching:
            now = self._clock()
            if now - self._tried_at >= _ASK_AGAIN_S:
                self._tried_at = now
                try:
                    self._keys, self._fetched_at = await self._fetched_keys(), now
                except (httpx.HTTPError, ValueError, KeyError, TypeError, JoseError) as error:
                    _log.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
        if self._keys is None or now - self._fetched_at > _KEYS_LAST_S:
            raise IdentityUnavailable(f"the identity provider {self._issuer} does not give its keys")
        return self._keys

    async def _fetched_keys(self) -> KeySet:
        async with self._client() as client:
            url = self._options.jwks_url
            if url is None:
                found = await _json(client, f"{self._issuer}{_DISCOVERY}")
                if str(found["issuer"]).rstrip("/") != self._issuer:
                    raise ValueError(f"its discovery document names another issuer, {found['issuer']!r}")
                url = found["jwks_uri"]
            keys = (await _json(client, str(url)))["keys"]
        usable = [each for each in keys if each.get("kty") in _KEY_TYPES and each.get("use", "sig") == "sig"]
        return KeySet.import_key_set({"keys": usable})

    async def _is_active(self, token: str) -> bool:
        """Return whether the issuer still honours a token (RFC 7662). Raises: IdentityUnavailable."""
        key, now = sha256(token.encode()).digest(), self._clock()
        known = self._revocations.get(key)
        if known is not None and now - known[0] < self._options.introspection_s:
            return known[1]
        options = self._options
        assert options.client_id is not None  # noqa: S101  the settings go together
        assert options.client_secret is not None  # noqa: S101  as above
        try:
            async with self._client() as client:
                user = httpx.BasicAuth(options.client_id, options.client_secret.get_secret_value())
                answer = await client.post(str(options.introspection_url), data={"token": token}, auth=user)
                answer.raise_for_status()
                is_active = answer.json()["active"] is True
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise IdentityUnavailable(
                f"the identity provider does not say whether the token counts: {error}"
            ) from error
        self._revocations[key] = now, is_active
        self._revocations.move_to_end(key)
        while len(self._revocations) > _MOST_ANSWERS:
            self._revocations.popitem(last=False)
        return is_active

    def _client(self) -> httpx.AsyncClient:
        verify: Any = True
        if self._options.ca is not None:
            try:
                verify = ssl.create_default_context(cafile=self._options.ca)
            except (OSError, ssl.SSLError) as error:
                raise WiringError(f"EVENTLIB_IDENTITY_CA={self._options.ca}: it holds no certificates") from error
        return http_client(_MOST_BYTES, timeout=_TIMEOUT_S, verify=verify)


_WRONG = {
    "iss": "names another issuer",
    "aud": "names another audience",
    "nbf": "is in the future: compare the clocks of the issuer and of this server",
    "iat": "is in the future: compare the clocks of the issuer and of this server",
}


def _decoded(token: str, keys: KeySet) -> dict[str, Any]:
    """Return the claims of a token with a valid signature. Raises: InvalidKeyIdError; Unauthenticated."""
    try:
        return jwt.decode(token, keys, algorithms=_ALGORITHMS).claims
    except InvalidKeyIdError:
        raise
    except (JoseError, ValueError, TypeError, KeyError, MissingKeyError) as error:
        raise Unauthenticated("the token is not one of the issuer's") from error


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim; a dot in its name goes into an object, unless a claim has the whole name."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


async def _json(client: httpx.AsyncClient, url: str) -> Any:
    answer = await client.get(url)
    answer.raise_for_status()
    return answer.json()
