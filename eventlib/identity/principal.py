"""Principals and their roles, and the rule of a route: which roles may call it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from eventlib.errors import RetryableError, WiringError
from eventlib.values import escaped

F = TypeVar("F", bound=Callable[..., Any])
_RULE = "__eventlib_roles__"


class Role(StrEnum):
    """What a principal may do; a route names the roles that it serves, and `admin` is served by every route."""

    CUSTOMER = "customer"
    """Acts for one customer, and sees what is that customer's."""
    SHOP = "shop"
    """Acts for any customer."""
    OPERATOR = "operator"
    """Sees everything, and handles what is parked."""
    AUDITOR = "auditor"
    """Sees everything, and changes nothing."""
    MONITOR = "monitor"
    """Reads metrics, and nothing else."""
    ADMIN = "admin"
    """Everything."""


READERS = (Role.OPERATOR, Role.AUDITOR)
"""The roles that see the console and the admin API; operators act, too."""
METRICS_READERS = frozenset({Role.MONITOR, Role.OPERATOR, Role.AUDITOR, Role.ADMIN})


class Unauthenticated(Exception):
    """A caller has no valid credentials; the sentence says what is wrong with them, and quotes none of them."""


class IdentityUnavailable(RetryableError):
    """The identity provider did not answer, so it is unknown whether a token is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    `subject` is the name that its source gives it: a token's name, the `sub` claim of the issuer, the subject of a
    certificate, the operating system's user; `display` is a name for people. `customer` is the customer that it acts
    for in the role `customer`.
    """

    subject: str
    source: Literal["token", "oidc", "certificate", "os", "local"]
    roles: frozenset[Role]
    issuer: str = ""
    display: str = ""
    customer: str | None = None

    @property
    def by(self) -> str:
        """The principal as it is recorded with an act, for instance `token:ci` or `oidc:7f0c (ada)`."""
        name = f"{self.source}:{self.subject}"
        shown = f"{name} ({self.display})" if self.display and self.display != self.subject else name
        return escaped(shown).replace(": ", ":")  # behind a name, `: ` begins the reason

    @property
    def scope(self) -> str:
        """What separates this principal's idempotency keys from those of others; "" where callers have no identity."""
        return "" if self.source == "local" else f"{self.source}\x1f{self.issuer}\x1f{self.subject}"

    def has(self, *roles: Role) -> bool:
        """Return whether the principal has one of these roles, or is an admin."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    @property
    def sees_personal(self) -> bool:
        """Whether personal fields are shown: to customers, shops and operators, and masked for auditors."""
        return self.has(Role.CUSTOMER, Role.SHOP, Role.OPERATOR)

    def only_customer(self, *unless: Role) -> str | None:
        """Return the one customer whose data the principal may use; None for any, which the roles `unless` may.

        Guarantee: a principal without such a role is bound to a customer, to none (an empty text) if it has no customer.
        """
        return None if self.has(*unless) else self.customer or ""


LOCAL = Principal(subject="loopback", source="local", roles=frozenset(Role))
"""The caller of a server without identity, which answers this machine only."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A route and the roles that it serves; none for everyone. `path` is a template, such as `/orders/{order_id}`."""

    path: str
    methods: frozenset[str]
    roles: frozenset[Role]


def allow(*roles: Role) -> Callable[[F], F]:
    """Declare the roles that a route serves, above its function: `@allow(Role.SHOP)`; `admin` is always served.

    Raises: WiringError without roles.
    """
    if not roles or not all(isinstance(role, Role) for role in roles):
        raise WiringError("allow(...) takes roles: `@allow(Role.SHOP, Role.AUDITOR)`; for everyone, `@public`")
    return _ruled(frozenset(roles) | {Role.ADMIN})


def public(endpoint: F) -> F:
    """Declare that a route serves callers without an identity, too: health, and what holds no data."""
    return _ruled(frozenset())(endpoint)


def rule_of(endpoint: object) -> frozenset[Role] | None:
    """Return the roles that an endpoint serves, none for everyone; None for an endpoint without a rule."""
    rule: frozenset[Role] | None = getattr(endpoint, _RULE, None)
    return rule


def _ruled(roles: frozenset[Role]) -> Callable[[F], F]:
    def ruled(endpoint: F) -> F:
        target = getattr(endpoint, "__func__", endpoint)  # a bound method has no attributes of its own
        setattr(target, _RULE, roles)
        return endpoint

    return ruled
