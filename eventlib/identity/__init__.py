"""Who calls over HTTP, and what each role may do: tokens, OpenID Connect, certificates, and the gate before an ASGI app.

It knows the ground floor; the gate itself is `eventlib.http.gate`. Begin with `identity`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.ground.private_files import write_private
    from eventlib.http.gate import Caller, Gate, guard
    from eventlib.identity.identity import Identity, identity_of
    from eventlib.identity.options import IdentityOptions
    from eventlib.identity.principal import IdentityUnavailable, Principal, Role, Rule, Unauthenticated, allow, public
    from eventlib.identity.tokens import add_token

__all__ = [
    "Caller",
    "Gate",
    "Identity",
    "IdentityOptions",
    "IdentityUnavailable",
    "Principal",
    "Role",
    "Rule",
    "Unauthenticated",
    "add_token",
    "allow",
    "guard",
    "identity_of",
    "public",
    "write_private",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
