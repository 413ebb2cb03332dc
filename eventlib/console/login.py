"""Logging in: at the OpenID Connect issuer (authorization code with PKCE), or by a named token; and out."""

import base64
import hmac
from hashlib import sha256
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.config.console import ConsoleOptions
from eventlib.console.browser import own_path
from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, is_secure
from eventlib.console.sessions import LOGIN, SESSION, Grant, SessionIdentity, cookie_of, set_cookie
from eventlib.errors import WiringError
from eventlib.ground.url import is_loopback
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, IdentityUnavailable, Principal, Unauthenticated, allow, public

_DISCOVERY = "/.well-known/openid-configuration"
_UNDER_WAY_S = 600
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, KeyError, TypeError, AttributeError)


class IssuerLogin:
    """Logins at the configured issuer. Raises: WiringError without one."""

    def __init__(self, identity: SessionIdentity, options: ConsoleOptions) -> None:
        if identity.options.issuer is None:
            raise WiringError("EVENTLIB_CONSOLE_CLIENT_ID needs an issuer: set EVENTLIB_IDENTITY_ISSUER")
        from eventlib.identity.oidc import Oidc

        self._identity = identity
        self._options = options
        self.issuer = str(identity.options.issuer).rstrip("/")
        about_client = {"audience": options.client_id, "introspection_url": None}
        self._id_tokens = Oidc(identity.options.model_copy(update=about_client))
        self._redirect = f"{str(options.url).rstrip('/')}/login/callback"
        identity.renew = self._renewed

    async def begin(self, back: str) -> tuple[str, dict[str, str]]:
        """Return where the browser goes, and what it has to bring back. Raises: IdentityUnavailable."""
        kept = {"state": token_urlsafe(32), "nonce": token_urlsafe(32), "verifier": token_urlsafe(48), "back": back}
        challenge = base64.urlsafe_b64encode(sha256(kept["verifier"].encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._options.client_id,
            "redirect_uri": self._redirect,
            "scope": self._options.scope,
            "state": kept["state"],
            "nonce": kept["nonce"],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = await self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", kept

    async def finish(self, code: str, kept: dict[str, str]) -> tuple[Principal, Grant]:
        """Return who has logged in, and by what. Raises: Unauthenticated, IdentityUnavailable."""
        about = {"redirect_uri": self._redirect, "code_verifier": kept["verifier"]}
        given = await self._tokens({"grant_type": "authorization_code", "code": code, **about})
        claims = await self._id_tokens.claims(str(given.get("id_token", "")))
        principal = await self._identity.of_token(str(given.get("access_token", "")))
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), kept["nonce"].encode()):
            raise Unauthenticated("the issuer's answer belongs to another login")
        if str(claims["sub"]) != principal.subject:
            raise Unauthenticated("the issuer's tokens are about two people")
        return principal, _grant(given)

    async def _renewed(self, refresh: str) -> Grant:
        return _grant(await self._tokens({"grant_type": "refresh_token", "refresh_token": refresh}))

    async def _tokens(self, wanted: dict[str, str]) -> dict[str, Any]:
        asked = {**wanted, "client_id": self._options.client_id or ""}
        secret = self._options.client_secret
        user = httpx.BasicAuth(self._options.client_id or "", secret.get_secret_value()) if secret else None
        endpoint = await self._endpoint("token_endpoint")
        try:
            async with self._id_tokens.client() as client:
                answer = await client.post(endpoint, data=asked, auth=user or httpx.USE_CLIENT_DEFAULT)
                if answer.status_code == HTTPStatus.BAD_REQUEST:
                    raise Unauthenticated("the issuer does not let this login go on: log in again")
                answer.raise_for_status()
                found: dict[str, Any] = answer.json()
                return {**found}
        except _FAILURES as error:
            raise IdentityUnavailable(f"the issuer gives no tokens: {error}") from error

    async def _endpoint(self, name: str) -> str:
        try:
            async with self._id_tokens.client() as client:
                answer = await client.get(f"{self.issuer}{_DISCOVERY}")
                answer.raise_for_status()
                url = str(answer.json()[name])
            parsed = httpx.URL(url)
            if parsed.scheme != "https" and not is_loopback(parsed.host):
                raise ValueError(f"{url!r} is not https")
        except _FAILURES as error:
            raise IdentityUnavailable(f"the issuer does not say where its {name} is: {error}") from error
        return url


def _grant(given: dict[str, Any]) -> Grant:
    refresh = given.get("refresh_token")
    return Grant(str(given.get("access_token", "")), refresh if isinstance(refresh, str) else None)


def login_routes(pages: Pages, identity: SessionIdentity, issuer: IssuerLogin | None) -> APIRouter:  # noqa: C901  one function for each route
    """Return the routes by which people log in and out."""
    routes = APIRouter()

    def shown(request: Request, back: str, wrong: str = "", status: int = 200) -> Response:
        by_token = any((identity.options.tokens, identity.options.tokens_file))
        named = None if issuer is None else httpx.URL(issuer.issuer).host
        return pages.render(
            request, "login.html", status, back=own_path(back), wrong=wrong, issuer=named, by_token=by_token
        )

    def welcome(request: Request, principal: Principal, grant: Grant, back: str) -> Response:
        if not principal.has(*READERS):
            wrong = f"{principal.by} has no role that sees the console: it takes {' or '.join(READERS)}"
            return shown(request, back, wrong, 403)
        answer = RedirectResponse(own_path(back), HTTPStatus.SEE_OTHER)
        identity.logged_in(answer, principal, grant, secure=is_secure(request))
        answer.delete_cookie(LOGIN)
        return answer

    @routes.get("/login")
    @public
    async def login(request: Request, next: str = "/") -> Response:  # noqa: A002  the query has this name
        return shown(request, next)

    @routes.post("/login")
    @public
    async def login_by_token(request: Request, form: OwnForm) -> Response:
        token = form.get("token").strip()
        try:
            principal = await identity.of_token(token)
        except Unauthenticated as error:
            return shown(request, form.get("next", "/"), str(error), 401)
        return welcome(request, principal, Grant(token), form.get("next", "/"))

    @routes.get("/login/issuer")
    @public
    async def login_at_issuer(request: Request, next: str = "/") -> Response:  # noqa: A002  as above
        if issuer is None:
            raise Refusal(404, "", "Not Found")
        where, kept = await issuer.begin(own_path(next))
        answer = RedirectResponse(where, HTTPStatus.SEE_OTHER)
        sealed = identity.seals.seal(LOGIN, kept, _UNDER_WAY_S)
        set_cookie(answer, LOGIN, sealed, _UNDER_WAY_S, secure=is_secure(request))
        return answer

    @routes.get("/login/callback")
    @public
    async def callback(request: Request, code: str = "", state: str = "", iss: str = "") -> Response:
        sealed = cookie_of(request.scope["headers"], LOGIN)
        kept = None if sealed is None else identity.seals.open(LOGIN, sealed)
        if issuer is None or kept is None or not hmac.compare_digest(kept["state"].encode(), state.encode()):
            return shown(request, "/", "this login was not begun here, or took too long: begin it again", 401)
        if not code or (iss and iss.rstrip("/") != issuer.issuer):
            return shown(request, kept["back"], "the issuer did not let you in", 401)
        try:
            return welcome(request, *await issuer.finish(code, kept), kept["back"])
        except Unauthenticated as error:
            return shown(request, kept["back"], str(error), 401)

    @routes.post("/logout")
    @allow(*READERS)
    async def logout(request: Request, form: OwnForm) -> Response:
        del form
        identity.log_out(request.scope["headers"])
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(SESSION)
        return answer

    return routes
