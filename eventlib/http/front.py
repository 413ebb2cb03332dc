"""What stands before every app that is served, so that none is without it: hosts, origins, and the size of bodies."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.ground.body_limit import bounded
from eventlib.http.problems import Refusal, problem
from eventlib.identity.identity import Identity, host_name

READS = frozenset({"GET", "HEAD", "OPTIONS"})


def refuse_foreign(scope: Scope, identity: Identity, own_host: str | None = None) -> None:
    """Refuse a request that names another host, and a write that a page of another origin makes a browser send.

    `own_host` is a name that this server has besides those that the identity knows. Raises: Refusal.
    """
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    if host and host_name(host) != own_host and not identity.serves_host(host, peer_of(scope)):
        raise Refusal(421, "another-host", "this server does not serve the host that the request names")
    origin = headers.get(b"origin", b"").decode("latin-1")
    is_own = not origin or origin.partition("://")[2] == host or origin in identity.options.listed("origins")
    if scope["method"] not in READS and not is_own:
        raise Refusal(403, "another-origin", "pages of this origin may not call: see EVENTLIB_IDENTITY_ORIGINS")


def peer_of(scope: Scope) -> str | None:
    """Return the address that a request comes from; None for a local socket."""
    return scope["client"][0] if scope.get("client") else None


class Front:
    """Passes on what is meant for this server, and not too large.

    `identity` tells which hosts it serves (None: the app has its own identity). A refusal has `error_code` and `message`, too,
    by which clients of a schema registry know it.
    """

    def __init__(self, app: ASGIApp, identity: Identity | None, body_bytes: int, own_host: str | None = None) -> None:
        self._app = app
        self._identity = identity
        self._body_bytes = body_bytes
        self._own_host = own_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def answered(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            self._judge(scope)
            await self._app(scope, bounded(receive, self._body_bytes, lambda: too_large(self._body_bytes)), answered)
        except Refusal as refusal:
            if is_answered:
                raise
            refusal.extra = {"error_code": refusal.status_code, "message": refusal.detail}
            await problem(refusal, None)(scope, receive, send)

    def _judge(self, scope: Scope) -> None:
        if self._identity is not None:
            refuse_foreign(scope, self._identity, self._own_name(scope))
        if declared_bytes(scope) > self._body_bytes:
            raise too_large(self._body_bytes)

    def _own_name(self, scope: Scope) -> str | None:
        """Return a name that a request may give. One without a dot is of a network's own: nobody's page leads it elsewhere."""
        name = host_name(dict(scope["headers"]).get(b"host", b"").decode("latin-1"))
        return self._own_host if "." in name or ":" in name else name


def too_large(most: int) -> Refusal:
    """Return the refusal of a body with more bytes than that."""
    return Refusal(413, "too-large", f"the body may have at most {most:,} bytes: split the request")


def declared_bytes(scope: Scope) -> int:
    """Return how many bytes a request says that its body has; 0 where it says nothing."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(each[:20]) for each in lengths if each.isdigit()), default=0)
