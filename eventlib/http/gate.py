"""The gate before an ASGI app: who calls, from where, and whether the route serves that role; before a body is read."""

import logging
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from eventlib.errors import WiringError
from eventlib.http.front import READS, peer_of, refuse_foreign
from eventlib.http.problems import Refusal, problem, try_later
from eventlib.http.rate_limit import CALLER
from eventlib.identity.identity import Identity
from eventlib.identity.principal import IdentityUnavailable, Principal, Role, Rule, Unauthenticated, rule_of

_log = logging.getLogger("eventlib.identity")

PRINCIPAL = "eventlib.principal"
"""The member of an ASGI scope with the principal; none for a public route."""
_PUBLIC_PATHS = frozenset({"/openapi.json", "/docs/oauth2-redirect"})
"""Routes that FastAPI adds; they hold no data."""
_JSON = ("application/json",)
_CORS_HEADERS = ["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Prefer"]


class Gate:
    """Serves an app to those whom its routes' rules let in.

    The rules are those of the app's routes (`@allow`, `@public`), or the given `rules`. `content_types` are what a body
    may be. Guarantee: nothing of a body is read before the caller is known, and may do what the route does.
    Raises: WiringError at the app's start for a route without a rule.
    """

    def __init__(
        self,
        app: ASGIApp,
        identity: Identity,
        rules: Iterable[Rule] | None = None,
        content_types: Sequence[str] = _JSON,
    ) -> None:
        self._app = app
        self._identity = identity
        self._content_types = content_types
        self._routes = None if rules is None else _compiled(rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no websockets are served"})
            return
        routes = self._routes
        if routes is None:  # at the first message, when all routes are there
            try:
                routes = self._routes = _compiled(rules_of(scope["app"]))
            except WiringError as error:
                if scope["type"] == "lifespan":  # else a server takes the app for one without a lifespan, and goes on
                    await receive()
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
        if scope["type"] == "http":
            try:
                await self._admit(scope, routes)
            except Refusal as refusal:
                await problem(refusal, scope.get("app"))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, routes: "_Routes") -> None:
        """Let a request pass. Raises: Refusal."""
        refuse_foreign(scope, self._identity)
        headers, peer = dict(scope["headers"]), peer_of(scope)
        rule = _rule(routes, scope["method"], scope["path"].removeprefix(scope.get("root_path", "")))
        if rule is not None and not rule.roles:
            return
        try:
            principal = await self._identity.principal(scope["headers"], peer)
        except Unauthenticated as error:
            challenge = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "unauthenticated", str(error), headers=challenge) from error
        except IdentityUnavailable as error:
            _log.warning("%s", error)
            raise try_later(
                "identity-unavailable", "the identity provider is out of reach; nothing was done"
            ) from error
        scope[PRINCIPAL] = principal
        if principal.scope:
            scope[CALLER] = principal.by
        if rule is None:
            raise Refusal(404, "", "Not Found")
        if principal.roles.isdisjoint(rule.roles):
            served = ", ".join(sorted(rule.roles - {Role.ADMIN}) or [Role.ADMIN])
            raise Refusal(403, "not-allowed", f"this takes the role {served}, which {principal.by} does not have")
        if scope["method"] not in READS:
            self._check_write(headers)

    def _check_write(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a body of another kind, which a page could make a browser send without asking. Raises: Refusal."""
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if has_body and kind not in self._content_types:
            accepted = ", ".join(self._content_types)
            raise Refusal(415, "no-json", f"send the body as {accepted}", headers={"Accept-Post": accepted})


_Routes = Sequence[tuple[Any, Rule]]


def rules_of(app: FastAPI) -> list[Rule]:
    """Return the rules of an app's routes, in their order. Raises: WiringError for routes without one."""
    found, missing = list[Rule](), list[str]()
    for route in iter_route_contexts(app.routes):
        path, methods = route.path or "", frozenset(route.methods or ())
        roles = frozenset[Role]() if path in _PUBLIC_PATHS else rule_of(route.endpoint)
        if roles is None:
            missing.append(f"{'/'.join(sorted(methods))} {path}".strip())
        else:
            found.append(Rule(path, methods, roles))
    if missing:
        raise WiringError(
            f"no rule says who may call {', '.join(missing)}: put `@allow(Role.SHOP)`, or `@public`, above its function"
        )
    return found


async def principal_of(request: Request) -> Principal:  # not sync: FastAPI would ask a thread, for milliseconds
    """Return who sends a request that has passed the gate."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


Caller = Annotated[Principal, Depends(principal_of)]
"""A parameter of a route's function: the principal that calls."""


def guard(app: FastAPI, identity: Identity) -> None:
    """Put the gate before an app, describe in OpenAPI who may call what, and answer the origins that may call (CORS)."""
    app.state.has_gate = True
    app.add_middleware(Gate, identity=identity)
    if origins := identity.options.listed("origins"):
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=_CORS_HEADERS
        )
    describe = app.openapi

    def described() -> dict[str, Any]:
        schema = describe()
        schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
        if not schemes:
            schemes["token"] = {"type": "http", "scheme": "bearer", "description": "A named token, or an access token."}
            for rule in rules_of(app):
                for method in rule.methods:
                    operation = schema["paths"].get(rule.path, {}).get(method.lower())
                    if operation is not None and rule.roles:
                        operation["security"] = [{"token": []}]
                        operation["x-roles"] = sorted(rule.roles)
        return schema

    app.openapi = described  # type: ignore[method-assign]  # how FastAPI's documentation extends OpenAPI


def _compiled(rules: Iterable[Rule]) -> _Routes:
    return [(compile_path(rule.path)[0], rule) for rule in rules]


def _rule(routes: _Routes, method: str, path: str) -> Rule | None:
    """Return the rule of the route that the app will choose: the first one with this path and method.

    A method that no route of the path has is judged by the first of them: the app refuses it.
    """
    of_path: Rule | None = None
    for pattern, rule in routes:
        if pattern.match(path):
            if method in rule.methods:
                return rule
            of_path = of_path or rule
    return of_path
