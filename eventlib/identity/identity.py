"""The identity of callers: from a request's headers and its peer to a principal."""

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import time
from typing import TYPE_CHECKING, Any

from eventlib.errors import WiringError
from eventlib.ground.arguments import check
from eventlib.ground.url import is_address, is_loopback
from eventlib.identity.options import IdentityOptions, identity_options
from eventlib.identity.principal import LOCAL, Principal, Role, Unauthenticated
from eventlib.identity.tokens import NamedTokens

if TYPE_CHECKING:
    from eventlib.identity.oidc import Oidc

Headers = Iterable[tuple[bytes, bytes]]
_KEY_HEX = 40
INTERNAL = "internal"
"""The name of the token that the processes of an installation share."""
_FORWARDING = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})


class Identity:
    """Authenticates callers by the settings; one for all servers of a process.

    Without any configured source, callers are served from this machine's loopback addresses only, and may do everything.
    `clock` is the time that tokens are judged by (seconds since 1970); `own` are further tokens, by their SHA-256.
    Raises: WiringError for settings that cannot work.
    """

    def __init__(
        self, options: IdentityOptions, clock: Callable[[], float] = time, own: Mapping[bytes, Principal] | None = None
    ) -> None:
        check(options, IdentityOptions, "options", "give the settings: `IdentityOptions()`")
        self.options = options
        self._clock = clock
        self.is_configured = options.is_configured or bool(own)
        text = None if options.tokens is None else options.tokens.get_secret_value()
        self._named = NamedTokens(options.tokens_file, text)
        self._key = options.installation_key()
        self._oidc = None if options.issuer is None else _oidc(options, clock)
        self._proxies = [ip_network(each) for each in options.listed("proxies")]
        header = options.certificate_header
        self._certificate_header = None if header is None else header.lower().encode("latin-1", "replace")
        self._own = own if own is not None else self._internal()
        self._hosts = frozenset(each.lower() for each in options.listed("hosts"))

    async def principal(self, headers: Headers, peer: str | None) -> Principal:
        """Return who sends a request from an address (None: a local socket).

        Raises: Unauthenticated; IdentityUnavailable when the identity provider is out of reach.
        """
        given = [*headers]
        if not self.is_configured:
            return self._unidentified({name for name, _ in given}, peer)
        credentials = _only(given, b"authorization")
        if credentials is not None:
            return await self._of_credentials(credentials.decode("latin-1"))
        header = self._certificate_header
        certificate = _only(given, header) if header is not None and self._is_proxy(given, peer) else None
        if certificate is not None:
            principal = self._named.of_certificate(certificate.decode("utf-8", "replace"))
            if principal is not None:
                return principal
            raise Unauthenticated("the certificate is valid, and has no role here")
        raise Unauthenticated("give a token: Authorization: Bearer TOKEN")

    async def of_token(self, token: str) -> Principal:
        """Return the principal of a token. Raises: Unauthenticated, IdentityUnavailable."""
        principal = self._own.get(_digest(token)) or self._named.of_token(token)
        if principal is not None:
            return principal
        if self._oidc is None:
            raise Unauthenticated("the token is unknown")
        return await self._oidc.principal(token)

    def with_tokens(self, name: str, texts: Sequence[str], *roles: Role) -> "Identity":
        """Return this identity with further tokens, which one server has; without any, itself."""
        if not texts:
            return self
        names = [name, *(f"{name}-{number}" for number in range(2, len(texts) + 1))]
        own = {
            _digest(text): Principal(subject=each, source="token", roles=frozenset(roles))
            for each, text in zip(names, texts, strict=True)
        }
        return Identity(self.options, self._clock, {**self._own, **own})

    @property
    def internal_token(self) -> str:
        """The token by which the processes of an installation know each other: it follows from the key; "" without identity."""
        key = self.derived_key(INTERNAL) if self.is_configured else None
        return "" if key is None else key.hex()

    def derived_key(self, purpose: str) -> bytes | None:
        """Return 32 secret bytes for a purpose, which follow from the installation's key; None without one."""
        return None if self._key is None else hmac.new(self._key, purpose.encode(), "sha256").digest()

    def _internal(self) -> dict[bytes, Principal]:
        token, roles = self.internal_token, frozenset({Role.SHOP, Role.OPERATOR, Role.AUDITOR, Role.MONITOR})
        return {_digest(token): Principal(subject=INTERNAL, source="token", roles=roles)} if token else {}

    def scoped(self, caller: Principal, idempotency_key: str) -> str:
        """Return the text that stands for a caller's idempotency key: it cannot be guessed, and no other caller has it."""
        key = self._key
        if not caller.scope or key is None:
            return idempotency_key
        # With its length, since both parts may hold any character.
        message = f"{len(caller.scope)}\x1f{caller.scope}\x1f{idempotency_key}".encode("utf-8", "surrogatepass")
        return hmac.new(key, message, "sha256").hexdigest()[:_KEY_HEX]

    def serves_host(self, host: str, peer: str | None) -> bool:
        """Return whether a request from an address may name a host (its port does not matter).

        Without identity, a page of another host could make a browser call this machine (DNS rebinding).
        """
        name = host_name(host)
        if not self.is_configured and not self.options.insecure:
            return is_loopback(name) or not is_address(peer or "")  # only the same process has a peer without address
        return not self._hosts or name.lower() in self._hosts

    def refuse_open(self, host: str, where: str) -> None:
        """Refuse to listen where others can reach a server without identity. Raises: WiringError."""
        if not (self.is_configured or self.options.insecure or is_loopback(host)):
            raise WiringError(
                f"{where}: other machines reach this address, and no identity is configured: set EVENTLIB_IDENTITY_TOKENS_FILE "
                "or EVENTLIB_IDENTITY_ISSUER, listen on 127.0.0.1, or give --insecure to let everyone in"
            )

    def _unidentified(self, headers: set[bytes], peer: str | None) -> Principal:
        if not self.options.insecure:
            if peer is not None and is_address(peer) and not is_loopback(peer):
                raise Unauthenticated("this server has no identity configured, and serves its own machine only")
            if not _FORWARDING.isdisjoint(headers):
                raise Unauthenticated("this server has no identity configured, and serves nothing behind a proxy")
        return LOCAL

    async def _of_credentials(self, credentials: str) -> Principal:
        scheme, _, rest = credentials.partition(" ")
        value = rest.strip(" \t")
        match scheme.lower():
            case "bearer":
                return await self.of_token(value)
            case "basic":  # clients of registries know no other: the name and the text of a token
                return self._of_basic(value)
            case _:
                raise Unauthenticated("give a token: Authorization: Bearer TOKEN")

    def _of_basic(self, value: str) -> Principal:
        try:
            name, _, token = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError) as error:
            raise Unauthenticated("the credentials are no name and token in base64") from error
        principal = self._own.get(_digest(token)) or self._named.of_token(token)
        if principal is None or principal.subject != name:
            raise Unauthenticated("the token is unknown, or has another name")
        return principal

    def _is_proxy(self, headers: Headers, peer: str | None) -> bool:
        """Return whether a request comes from a configured proxy itself.

        A server may take the peer's address from X-Forwarded-For, as Uvicorn does for what comes from this machine. What
        that header names is no proxy: one adds the address that it sees, not its own.
        """
        address = _address(peer or "")
        if address is None or not any(address in network for network in self._proxies):
            return False
        forwarded = [value.decode("latin-1").split(",") for name, value in headers if name == b"x-forwarded-for"]
        return all(_address(each) != address for values in forwarded for each in values)


def host_name(host: str) -> str:
    """Return the name in a header Host, without its port."""
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host


def identity_of(options: IdentityOptions | None = None, **given: Any) -> Identity:
    """Return the identity that the settings describe. Raises: SettingsError, WiringError."""
    return Identity(options or identity_options(**given))


def _only(headers: Headers, name: bytes) -> bytes | None:
    """Return a header's value; None without it. Raises: Unauthenticated when there are several: a proxy may read another."""
    found = [value for each, value in headers if each == name]
    if len(found) > 1:
        raise Unauthenticated(f"the request has {len(found)} headers {name.decode('latin-1')}: send one")
    return found[0] if found else None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, which may have a port, as X-Forwarded-For may; None for what is none."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return ip_address(host)
    except ValueError:
        return None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _oidc(options: IdentityOptions, clock: Callable[[], float]) -> "Oidc":
    try:
        from eventlib.identity.oidc import Oidc
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"joserfc", "cryptography"}:
            raise
        raise WiringError("an issuer needs the package joserfc: install eventlib-sagas[identity]") from error
    return Oidc(options, clock)
