"""Logins: kept by this process, and checked against what let them in; a browser has a sealed cookie with their ids."""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from secrets import token_bytes, token_urlsafe
from time import time
from typing import Any

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from pydantic_core import from_json, to_json
from starlette.responses import Response

from eventlib.identity.identity import Headers, Identity
from eventlib.identity.options import IdentityOptions
from eventlib.identity.principal import Principal, Unauthenticated

SESSION, LOGIN, FORMS = "eventlib_session", "eventlib_login", "eventlib_forms"
"""The cookies: who has logged in, a login that is under way, and what forms are bound to."""
_ALGORITHMS = ["dir", "A256GCM"]
_MOST = 4_000
_KEY_BYTES = 32
_MOST_SESSIONS = 10_000
_RENEWED_EVERY_S = 60
_OVER = "the login is over: log in again"


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


@dataclass(frozen=True, slots=True)
class Grant:
    """What lets a person in: a token, and what the issuer gives another one for (None: nothing does)."""

    token: str
    refresh: str | None = None


@dataclass(slots=True)
class _Session:
    grant: Grant
    subject: str
    until: float
    renewed_at: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


Renew = Callable[[str], Awaitable[Grant]]
"""Asks the issuer for a new grant. Raises: Unauthenticated, IdentityUnavailable."""


class SessionIdentity(Identity):
    """Authenticates callers by the settings; and those who have logged in, by their cookie.

    Guarantee: a session is over at once after a logout, and when its named token is removed; with the issuer's tokens when the
    issuer does not renew them, asked once a minute, or when they expire, where it gives no refresh token. Roles are those that
    the token has now. Sessions end with the process. Raises: as `Identity` does.
    """

    def __init__(self, options: IdentityOptions, seconds: int = 3_600, clock: Callable[[], float] = time) -> None:
        super().__init__(options, clock)
        self.seals = Seals(self.derived_key("console"), clock)
        self.seconds = seconds
        self.renew: Renew | None = None
        self._now = clock
        self._sessions = OrderedDict[str, _Session]()

    async def principal(self, headers: Headers, peer: str | None) -> Principal:
        """See `Identity.principal`; an Authorization header wins over a cookie."""
        given = [*headers]
        if self.is_configured and all(name != b"authorization" for name, _ in given):
            found = self._session_of(given)
            if found is not None:
                return await self._current(found)
        return await super().principal(given, peer)

    def logged_in(self, response: Response, principal: Principal, grant: Grant, *, secure: bool) -> None:
        """Let an answer begin a session of a principal."""
        now, name = self._now(), token_urlsafe(_KEY_BYTES)
        self._sessions[name] = _Session(grant, principal.subject, now + self.seconds, now)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        set_cookie(response, SESSION, self.seals.seal(SESSION, name, self.seconds), self.seconds, secure=secure)

    def log_out(self, headers: Headers) -> None:
        """End the session that a request belongs to, wherever its cookie is."""
        self._sessions.pop(self._name_in([*headers]) or "", None)

    def _name_in(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        sealed = cookie_of(headers, SESSION)
        return None if sealed is None else str(self.seals.open(SESSION, sealed))

    def _session_of(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        """Return the name of a request's session; None without a cookie. Raises: Unauthenticated for one that is over."""
        name = self._name_in(headers)
        if name is not None and (name not in self._sessions or self._now() >= self._sessions[name].until):
            self._sessions.pop(name, None)
            raise Unauthenticated(_OVER)
        return name

    async def _current(self, name: str) -> Principal:
        """Return who a session's token stands for now. Raises: Unauthenticated, IdentityUnavailable."""
        session = self._sessions[name]
        try:
            async with session.turn:  # a refresh token may count once
                await self._renewed(session)
                principal = await self.of_token(session.grant.token)
            if principal.subject != session.subject:
                raise Unauthenticated(_OVER)  # noqa: TRY301  handled as the others are
        except Unauthenticated:
            self._sessions.pop(name, None)
            raise Unauthenticated(_OVER) from None
        if name not in self._sessions:  # logged out meanwhile
            raise Unauthenticated(_OVER)
        return principal

    async def _renewed(self, session: _Session) -> None:
        refresh, now = session.grant.refresh, self._now()
        if self.renew is None or refresh is None or now - session.renewed_at < _RENEWED_EVERY_S:
            return
        grant = await self.renew(refresh)
        session.grant = Grant(grant.token, grant.refresh or refresh)
        session.renewed_at = now


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
