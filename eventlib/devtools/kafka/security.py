"""Who may come in, and how: SASL, TLS and access rules on the listener for clients.

Nodes connect to each other on listeners of their own, in the clear and on the loopback interface: this protects nothing,
it lets a client be tried against what will protect something elsewhere.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import time

from pydantic_core import to_json

from eventlib.errors import BrokerFailed

STORE_PASSWORD = "changeit"  # noqa: S105  it protects a key that lies beside it, because Java wants one
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9._~-]+")
_MODULES = "org.apache.kafka.common.security"


class Sasl(StrEnum):
    """How clients authenticate."""

    PLAIN = "plain"
    SCRAM = "scram"
    OAUTHBEARER = "oauthbearer"

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Kafka's names for it, the best one first."""
        return ("SCRAM-SHA-512", "SCRAM-SHA-256") if self is Sasl.SCRAM else (self.value.upper(),)


@dataclass(frozen=True, slots=True)
class Security:
    """What clients have to bring. `users` are names and passwords, and the first of them may do everything.

    With `authorize` no other user may do anything without an access rule (Kafka's StandardAuthorizer). With
    `Sasl.OAUTHBEARER` any token that `unsigned_token` makes is good: it shows how tokens are brought, not who is who.
    """

    sasl: Sasl | None = None
    tls: bool = False
    authorize: bool = False
    users: Mapping[str, str] = field(default_factory=lambda: {"admin": "admin-secret"})

    def __post_init__(self) -> None:
        """Refuse what cannot be had. Raises: BrokerFailed."""
        if self.authorize and self.sasl is None:
            raise BrokerFailed("access rules are about users, and without SASL there are none: choose one with --sasl")
        if not self.users:
            raise BrokerFailed("name at least one user: the first one may do everything")
        for name, password in self.users.items():
            if not (_PLAIN_TEXT.fullmatch(name) and _PLAIN_TEXT.fullmatch(password)):
                raise BrokerFailed(
                    f"user {name!r}: names and passwords are of letters, digits and '._~-', at least one of them"
                )

    @property
    def protocol(self) -> str:
        """Kafka's name for it."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")

    def properties(self, key_store: Path) -> dict[str, str]:
        """Return a node's settings for it; `key_store` holds its key and certificate."""
        found: dict[str, str] = {}
        if self.sasl is not None:
            found["listener.name.client.sasl.enabled.mechanisms"] = ",".join(self.sasl.mechanisms)
            for mechanism in self.sasl.mechanisms:
                found[f"listener.name.client.{mechanism.lower()}.sasl.jaas.config"] = self._jaas(self.sasl)
        if self.tls:
            found["ssl.keystore.location"] = str(key_store)
            found["ssl.keystore.password"] = STORE_PASSWORD
            found["ssl.keystore.type"] = "PKCS12"
        if self.authorize:
            found["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            # The nodes themselves are anonymous, on listeners where no client comes.
            found["super.users"] = f"User:ANONYMOUS;User:{next(iter(self.users))}"
        return found

    def format_arguments(self) -> list[str]:
        """Return what a node has to be formatted with."""
        if self.sasl is not Sasl.SCRAM:
            return []
        made = (
            f"{mechanism}=[name={name},password={password}]"
            for mechanism in self.sasl.mechanisms
            for name, password in self.users.items()
        )
        return [argument for scram in made for argument in ("--add-scram", scram)]

    def environment(self, user: str | None, certificate: Path) -> dict[str, str]:
        """Return the variables for a client that comes as a user, by default the first one."""
        found: dict[str, str] = {}
        if self.tls:
            found |= {"EVENTLIB_KAFKA_TLS": "true", "EVENTLIB_KAFKA_TLS_CA": str(certificate)}
        if self.sasl is not None:
            found["EVENTLIB_KAFKA_SASL"] = self.sasl.mechanisms[0]
        if self.sasl in {Sasl.PLAIN, Sasl.SCRAM}:
            name = next(iter(self.users)) if user is None else user
            found |= {"EVENTLIB_KAFKA_USER": name, "EVENTLIB_KAFKA_PASSWORD": self.users[name]}
        return found

    def _jaas(self, sasl: Sasl) -> str:
        match sasl:
            case Sasl.PLAIN:
                users = "".join(f' user_{name}="{password}"' for name, password in self.users.items())
                return f"{_MODULES}.plain.PlainLoginModule required{users};"
            case Sasl.SCRAM:
                return f"{_MODULES}.scram.ScramLoginModule required;"
            case Sasl.OAUTHBEARER:
                module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
                return f'{module} required unsecuredLoginStringClaim_sub="broker";'


def unsigned_token(user: str, lifetime_s: float = 3600) -> str:
    """Return a token (RFC 7519, unsecured) with the user's name, for brokers that trust every client."""
    now = time()
    claims = {"sub": user, "iat": now, "exp": now + lifetime_s}
    parts = [urlsafe_b64encode(to_json(part)).decode().rstrip("=") for part in ({"alg": "none"}, claims)]
    return ".".join([*parts, ""])
