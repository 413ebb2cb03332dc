"""Who may come, and what they may do. Source: RFC 7617, "Basic" authentication."""

import base64
import binascii
import hashlib
import secrets

from fastapi import Request

from eventlib.registry.errors import Refused
from eventlib.registry.server.options import SchemasOptions

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Access:
    """Lets readers read and writers write; everybody, when there are no users."""

    def __init__(self, options: SchemasOptions) -> None:
        self._has_users = options.has_users
        self._readers = {name: _digest(each) for name, each in options.users("readers").items()}
        self._writers = {name: _digest(each) for name, each in options.users("writers").items()}

    def check(self, request: Request) -> None:
        """Refuse who may not come, or may not do that. Raises: Refused."""
        if not self._has_users:
            return
        name, password = _credentials(request.headers.get("authorization", ""))
        given = _digest(password)
        known = self._writers.get(name) or self._readers.get(name) or _digest("")
        # Compared in any case, so that the time it takes does not tell which names there are.
        if not secrets.compare_digest(given, known) or name not in {*self._writers, *self._readers}:
            raise Refused(401, 401, "Unauthorized: say who you are by Basic authentication, with the right password")
        if name not in self._writers and _writes(request):
            raise Refused(403, 40301, f"User '{name[:80]}' may only read")


def _writes(request: Request) -> bool:
    if request.method in _READS:
        return False
    path = request.url.path
    asks = request.method == "POST" and (
        path.startswith("/compatibility/") or not path.rstrip("/").endswith("/versions")
    )
    return not asks


def _credentials(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
