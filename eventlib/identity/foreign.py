"""Requests that are not meant for a server: for another host, or made by a page of another origin."""

from starlette.types import Scope

from eventlib.identity.identity import Identity, host_name

READS = frozenset({"GET", "HEAD", "OPTIONS"})


def foreign(scope: Scope, identity: Identity, own_host: str | None = None) -> tuple[int, str, str] | None:
    """Return why a request is none for this server: HTTP's status, a problem's kind, a sentence; None for one that is.

    That is one that names another host, and a write that a page of another origin makes a browser send. `own_host` is a
    name that this server has besides those that the identity knows.
    """
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    if host and host_name(host) != own_host and not identity.serves_host(host, peer_of(scope)):
        return 421, "another-host", "this server does not serve the host that the request names"
    origin = headers.get(b"origin", b"").decode("latin-1")
    is_own = not origin or origin.partition("://")[2] == host or origin in identity.options.listed("origins")
    if scope["method"] not in READS and not is_own:
        return 403, "another-origin", "pages of this origin may not call: see EVENTLIB_IDENTITY_ORIGINS"
    return None


def peer_of(scope: Scope) -> str | None:
    """Return the address that a request comes from; None for a local socket."""
    return scope["client"][0] if scope.get("client") else None
