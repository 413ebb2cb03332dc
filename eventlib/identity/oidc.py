"""Access tokens of an OpenID Connect issuer: their signature, their claims, and whether they were revoked."""

import asyncio
import json
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import httpx
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, InvalidKeyIdError, JoseError, MissingClaimError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from eventlib.errors import WiringError
from eventlib.ground.http_client import http_client
from eventlib.ground.strict_json import JsonRefused, decode_json
from eventlib.identity.issuer_keys import TIMEOUT_S, IssuerKeys
from eventlib.identity.options import IdentityOptions
from eventlib.identity.principal import IdentityUnavailable, Principal, Role, Unauthenticated

# Asymmetric ones only: with a shared secret, everyone who verifies could sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
_MOST_BYTES = 1_000_000
_MOST_TOKEN = 16_384
_MOST_ANSWERS = 10_000


class Oidc:
    """Verifies the access tokens of one issuer, by its keys (`IssuerKeys`). Raises: WiringError for a CA file without any."""

    def __init__(self, options: IdentityOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._tls = _tls(options)
        self._keys = IssuerKeys(options, clock, self.client)
        self._issuer = self._keys.issuer
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
        self._revocations = OrderedDict[bytes, tuple[float, bool]]()

    async def principal(self, token: str) -> Principal:
        """Return the principal of a token. Raises: Unauthenticated; IdentityUnavailable when that cannot be known."""
        if len(token) > _MOST_TOKEN:
            raise Unauthenticated("the token is too long")
        claims = await self.claims(token)
        if self._options.introspection_url is not None and not await self._is_active(token):
            raise Unauthenticated("the token was revoked")
        return self._principal(claims)

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that the issuer has signed for this audience, and that is valid now. Raises: as above."""
        return self._verified(await self._signed(token))

    def client(self) -> httpx.AsyncClient:
        """Return a client that trusts the issuer as the settings say."""
        return http_client(_MOST_BYTES, timeout=TIMEOUT_S, verify=self._tls)

    async def _signed(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature is the issuer's."""
        keys = await self._keys.current()
        try:
            return _decoded(token, keys)
        except InvalidKeyIdError:
            keys = await self._keys.other_than(keys)
        try:
            return _decoded(token, keys)
        except InvalidKeyIdError:
            raise Unauthenticated("the token is signed with a key that the issuer does not have") from None

    def _verified(self, claims: dict[str, Any]) -> dict[str, Any]:
        try:
            self._claims.validate(claims)
        except ExpiredTokenError as error:
            raise Unauthenticated(_EXPIRED) from error
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

    async def _is_active(self, token: str) -> bool:
        """Return whether the issuer still honours a token (RFC 7662). Raises: IdentityUnavailable."""
        key, now = sha256(token.encode()).digest(), self._clock()
        known = self._revocations.get(key)
        if known is not None and abs(now - known[0]) < self._options.introspection_s:
            return known[1]
        options = self._options
        assert options.client_id is not None  # noqa: S101  the settings go together
        assert options.client_secret is not None  # noqa: S101  as above
        try:
            async with asyncio.timeout(TIMEOUT_S), self.client() as client:
                user = httpx.BasicAuth(options.client_id, options.client_secret.get_secret_value())
                answer = await client.post(str(options.introspection_url), data={"token": token}, auth=user)
                answer.raise_for_status()
                is_active = answer.json()["active"] is True
        except (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise IdentityUnavailable(
                f"the identity provider does not say whether the token counts: {error}"
            ) from error
        self._revocations[key] = now, is_active
        self._revocations.move_to_end(key)
        while len(self._revocations) > _MOST_ANSWERS:
            self._revocations.popitem(last=False)
        return is_active


def _tls(options: IdentityOptions) -> ssl.SSLContext:
    """Return what the issuer is trusted by; made once, since it takes a client's time."""
    if options.ca is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=options.ca)
    except (OSError, ssl.SSLError) as error:
        raise WiringError(f"EVENTLIB_IDENTITY_CA={options.ca}: it holds no certificates") from error


_CLOCKS = "compare the clocks of the issuer and of this server"
_EXPIRED = f"the token has expired: log in again, or refresh it; if it is a new one, {_CLOCKS}"
_WRONG = {
    "iss": "names another issuer",
    "aud": "names another audience",
    "nbf": f"is in the future: {_CLOCKS}",
    "iat": f"is in the future: {_CLOCKS}",
}


class _StrictClaims(json.JSONDecoder):
    """Claims that every reader takes for the same: no member twice, no NaN."""

    def decode(self, s: str, *_: Any) -> Any:
        """Return the claims. Raises: JsonRefused, ValueError."""
        return decode_json(s)


def _registry() -> JWSRegistry:
    """Return the headers and algorithms of tokens; a header that is not understood is ignored, unless it is critical."""
    found = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
    del found.header_registry["b64"]  # no JWT has it (RFC 7797, 7)
    return found


_REGISTRY = _registry()


def _decoded(token: str, keys: KeySet) -> dict[str, Any]:
    """Return the claims of a token with a valid signature. Raises: InvalidKeyIdError; Unauthenticated."""
    try:
        return jwt.decode(token, keys, registry=_REGISTRY, decoder_cls=_StrictClaims).claims
    except InvalidKeyIdError:
        raise
    except (JoseError, JsonRefused, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unauthenticated("the token is not one of the issuer's") from error


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim; a dot in its name goes into an object, unless a claim has the whole name."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
