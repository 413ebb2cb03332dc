"""Logins that a browser keeps: sealed in cookies that only this installation reads, and that end by themselves."""

import hmac
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from secrets import token_bytes
from time import time
from typing import Any

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from pydantic_core import from_json, to_json
from starlette.responses import Response

from eventlib.identity.identity import Headers, Identity
from eventlib.identity.options import IdentityOptions
from eventlib.identity.principal import Principal, Role, Unauthenticated

SESSION, LOGIN, FORMS = "eventlib_session", "eventlib_login", "eventlib_forms"
"""The cookies: who has logged in, a login that is under way, and what forms are bound to."""
_ALGORITHMS = ["dir", "A256GCM"]
_MOST = 4_000
_KEY_BYTES = 32


class Seals:
    """Seals values into texts that only this key reads and makes, each for one purpose and a time.

    `key` has 32 bytes; None: one that ends with this process. `clock` gives seconds since 1970.
    """

    def __init__(self, key: bytes | None, clock: Callable[[], float] = time) -> None:
        self._secret = key or token_bytes(_KEY_BYTES)
        self._key = OctKey.import_key(self._secret)
        self._clock = clock

    def seal(self, purpose: str, value: Any, seconds: int) -> str:
        """Return a value as a text that lasts so long."""
        content = {"for": purpose, "until": int(self._clock()) + seconds, "value": value}
        header = {"alg": "dir", "enc": "A256GCM"}
        return jwe.encrypt_compact(header, to_json(content), self._key, algorithms=_ALGORITHMS)

    def open(self, purpose: str, text: str) -> Any:
        """Return the value in a text; None for one that was not sealed here, for something else, or is over."""
        try:
            plain = jwe.decrypt_compact(text, self._key, algorithms=_ALGORITHMS).plaintext
            content = from_json(plain or b"")
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        is_valid = content["for"] == purpose and self._clock() < content["until"]
        return content["value"] if is_valid else None

    def token(self, bound_to: str) -> str:
        """Return the text that forms carry which are bound to something."""
        return hmac.new(self._secret, f"form\x1f{bound_to}".encode(), "sha256").hexdigest()


class SessionIdentity(Identity):
    """Authenticates callers by the settings; and those who have logged in, by their cookie. Raises: as `Identity` does."""

    def __init__(self, options: IdentityOptions, seconds: int = 3_600, clock: Callable[[], float] = time) -> None:
        super().__init__(options, clock)
        self.seals = Seals(self.derived_key("console"), clock)
        self.seconds = seconds

    async def principal(self, headers: Headers, peer: str | None) -> Principal:
        """See `Identity.principal`; an Authorization header wins over a cookie."""
        given = [*headers]
        if self.is_configured and all(name != b"authorization" for name, _ in given):
            sealed = cookie_of(given, SESSION)
            if sealed is not None:
                found = self.seals.open(SESSION, sealed)
                if found is None:
                    raise Unauthenticated("the login is over: log in again")
                return _principal(found)
        return await super().principal(given, peer)

    def logged_in(self, response: Response, principal: Principal, *, secure: bool) -> None:
        """Let an answer begin a session of a principal."""
        value = {
            "subject": principal.subject,
            "source": principal.source,
            "issuer": principal.issuer,
            "display": principal.display[:200],
            "roles": sorted(principal.roles),
        }
        set_cookie(response, SESSION, self.seals.seal(SESSION, value, self.seconds), self.seconds, secure=secure)


def set_cookie(response: Response, name: str, value: str, seconds: int | None, *, secure: bool) -> None:
    """Set a cookie that no script reads, and no page of another site sends with a form."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")


def cookie_of(headers: Iterable[tuple[bytes, bytes]], name: str) -> str | None:
    """Return a cookie's value; None without it."""
    for header, value in headers:
        if header == b"cookie" and len(value) <= 4 * _MOST:
            try:
                found = SimpleCookie(value.decode("latin-1")).get(name)
            except CookieError:
                continue
            if found is not None and len(found.value) <= _MOST:
                return found.value
    return None


def _principal(value: dict[str, Any]) -> Principal:
    roles = frozenset(Role(each) for each in value.pop("roles"))
    return Principal(**value, roles=roles)
