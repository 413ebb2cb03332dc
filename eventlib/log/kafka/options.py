"""The settings of a Kafka log: from its URL, and from variables EVENTLIB_KAFKA_…."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.errors import WiringError
from eventlib.ground.url import is_host, no_userinfo, refuse_userinfo
from eventlib.ground.variables import Variables, read_settings

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$")]

_SECRETS = frozenset({"password", "tls_key_password", "oauth_client_secret"})
_LARGEST_PORT = 65_535
_FORM = "kafka://host:port[,host:port…]/[?prefix=…&application=…]"


class KafkaOptions(Variables):
    """Connection and topic settings of a Kafka log. All but secrets may also be given in the URL."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_KAFKA_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    prefix: Annotated[Name, Field(description="prefix of every topic, consumer group and transactional id")] = ""
    application: Annotated[
        Name,
        Field(min_length=1, description="prefix of groups and transactional ids: unique per application"),
    ] = "eventlib"
    replication_factor: Annotated[
        Count | None, Field(description="replicas of new topics; unset: three, or the number of brokers if smaller")
    ] = None
    min_insync_replicas: Annotated[
        Count | None,
        Field(description="in-sync replicas that an append requires; unset: all but one, at least one"),
    ] = None
    compression: Annotated[Literal["none", "gzip"], Field(description="compression of batches: none or gzip")] = "none"
    inflated_bytes: Annotated[
        Count, Field(description="limit on the inflated size of one fetch's compressed batches (bytes)")
    ] = 64_000_000
    address: Annotated[str, Field(description="address at which clients reach this process")] = ""
    request_timeout_s: Annotated[Seconds, Field(description="timeout of a request (seconds)")] = 10
    append_timeout_s: Annotated[Seconds, Field(description="timeout of an append (seconds)")] = 30
    transaction_timeout_s: Annotated[
        Seconds, Field(description="time after which brokers abort a transaction (seconds)")
    ] = 10
    session_timeout_s: Annotated[
        Seconds, Field(description="time without heartbeats after which a member loses its tasks (seconds)")
    ] = 6
    max_blocked_s: Annotated[
        Seconds,
        Field(
            description="how long a member keeps its tasks while a handler or an effect blocks its process, if that is above the session timeout (seconds)"
        ),
    ] = 60

    tls: Annotated[bool, Field(description="whether connections are encrypted")] = False
    tls_ca: Annotated[str | None, Field(description="PEM file with trusted authorities; unset: the system's")] = None
    tls_cert: Annotated[str | None, Field(description="PEM file with this client's certificate")] = None
    tls_key: Annotated[str | None, Field(description="PEM file with the key of that certificate")] = None
    tls_key_password: Annotated[SecretStr | None, Field(description="password of that key")] = None
    sasl: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None,
        Field(description="SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    ] = None
    user: Annotated[str | None, Field(description="user name, for PLAIN and SCRAM")] = None
    password: Annotated[SecretStr | None, Field(description="password of that user")] = None
    oauth_token_url: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_KAFKA_OAUTH_CLIENT_ID and EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET"),
        Field(description="URL of the token server, for OAUTHBEARER"),
    ] = None
    oauth_client_id: Annotated[str | None, Field(description="client id at the token server")] = None
    oauth_client_secret: Annotated[SecretStr | None, Field(description="client secret at the token server")] = None
    oauth_scope: Annotated[str | None, Field(description="requested scope")] = None

    @property
    def writers(self) -> str:
        """The prefix of the transactional ids of this user's processes; no other user needs a right to them."""
        user = self.user or self.oauth_client_id
        return f"{self.prefix}{self.application}~{user}~" if self.sasl else f"{self.prefix}{self.application}~"

    def locks(self, service: str) -> str:
        """Return the prefix of the transactional ids that lock a service's tasks during takeovers."""
        return f"{self.prefix}{self.application}-{service}-"

    def group(self, service: str) -> str:
        """Return the consumer group of a service's processes."""
        return f"{self.prefix}{self.application}.{service}"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed: tuple[str, ...] = ()
        if self.sasl == "OAUTHBEARER":
            needed = ("oauth_token_url", "oauth_client_id", "oauth_client_secret")
        elif self.sasl is not None:
            needed = ("user", "password")
        missing = [f"EVENTLIB_KAFKA_{name.upper()}" for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"sasl={self.sasl} also needs {', '.join(missing)}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: set both, or neither")
        return self


def parse_url(url: str) -> tuple[list[str], KafkaOptions]:
    """Return the bootstrap brokers (host:port) and the options of `kafka://host:port[,host:port]/[?…]`.

    Raises: WiringError for an invalid URL or an unknown option; its SettingsError for an invalid value.
    """
    refuse_userinfo(url, "the log", "set EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_PASSWORD")
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"  # the rest may contain a misplaced secret
    hosts = [host if _has_port(host) else f"{host}:9092" for host in parts.netloc.split(",")]
    if "" in parts.netloc.split(",") or parts.path.strip("/") or parts.fragment:
        raise WiringError(
            f"the log {shown!r} is not of the form {_FORM}; users and passwords are EVENTLIB_KAFKA_… variables"
        )
    for host, _, port in (each.rpartition(":") for each in hosts):
        if not is_host(host) or not 0 < int(port) <= _LARGEST_PORT:
            raise WiringError(f"the log {url!r} names {host}:{port}, which is not a valid host and port: {_FORM}")
    given = options_in(url)
    for name in given:
        if name in _SECRETS:
            raise WiringError(
                f"a URL is shown in messages, so {name} does not belong there: set EVENTLIB_KAFKA_{name.upper()}"
            )
        if name not in KafkaOptions.model_fields:
            raise WiringError(f"the log {shown!r} has the unknown option {name!r}; known: {', '.join(_in_url())}")
    return hosts, read_settings(KafkaOptions, given)


def options_in(url: str) -> dict[str, str]:
    """Return the options in a log's URL, unparsed."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _in_url() -> list[str]:
    return [name for name in KafkaOptions.model_fields if name not in _SECRETS]


def _has_port(host: str) -> bool:
    return re.search(r":\d+$", host) is not None
