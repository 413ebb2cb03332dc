"""How a Kafka log is reached and set up: from its URL, and from variables EVENTLIB_KAFKA_…."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.config.variables import Variables, read_settings
from eventlib.errors import WiringError
from eventlib.log.url import is_host, no_userinfo, refuse_userinfo

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$")]

_SECRETS = frozenset({"password", "tls_key_password", "oauth_client_secret"})
_LARGEST_PORT = 65_535
_FORM = "kafka://host:port[,host:port…]/[?prefix=…&application=…]"


class KafkaOptions(Variables):
    """How a Kafka log is reached, and what it asks of its brokers. All but secrets can stand in the URL as well."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_KAFKA_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    prefix: Annotated[Name, Field(description="goes before every topic, consumer group and transactional id")] = ""
    application: Annotated[
        Name,
        Field(min_length=1, description="goes before groups and transactional ids: another one for each application"),
    ] = "eventlib"
    replication_factor: Annotated[
        Count | None, Field(description="replicas of new topics; unset: three, or as many as there are brokers")
    ] = None
    min_insync_replicas: Annotated[
        Count | None,
        Field(description="replicas that have an append before it counts; unset: all but one, at least one"),
    ] = None
    compaction_lag_s: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="how long compaction leaves a record alone (seconds)")
    ] = 0
    compression: Annotated[Literal["none", "gzip"], Field(description="how batches are compressed: none or gzip")] = (
        "none"
    )
    inflated_bytes: Annotated[
        Count, Field(description="how many bytes the compressed batches of one fetch may have when they are inflated")
    ] = 64_000_000
    address: Annotated[str, Field(description="where others reach this process")] = ""
    request_timeout_s: Annotated[Seconds, Field(description="within which a request is answered (seconds)")] = 10
    append_timeout_s: Annotated[Seconds, Field(description="within which an append is acknowledged (seconds)")] = 30
    transaction_timeout_s: Annotated[
        Seconds, Field(description="after which brokers abort a transaction (seconds)")
    ] = 10
    session_timeout_s: Annotated[
        Seconds, Field(description="after which a member that is not heard of loses its tasks (seconds)")
    ] = 6

    tls: Annotated[bool, Field(description="whether connections are encrypted")] = False
    tls_ca: Annotated[
        str | None, Field(description="a PEM file with whom to trust; unset: the system's authorities")
    ] = None
    tls_cert: Annotated[str | None, Field(description="a PEM file with this client's certificate")] = None
    tls_key: Annotated[str | None, Field(description="a PEM file with its key")] = None
    tls_key_password: Annotated[SecretStr | None, Field(description="the password of that key")] = None
    sasl: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None,
        Field(description="how this client signs in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    ] = None
    user: Annotated[str | None, Field(description="the user's name, for PLAIN and SCRAM")] = None
    password: Annotated[SecretStr | None, Field(description="the user's password")] = None
    oauth_token_url: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_KAFKA_OAUTH_CLIENT_ID and EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET"),
        Field(description="where tokens are had, for OAUTHBEARER"),
    ] = None
    oauth_client_id: Annotated[str | None, Field(description="this client's name there")] = None
    oauth_client_secret: Annotated[SecretStr | None, Field(description="its secret")] = None
    oauth_scope: Annotated[str | None, Field(description="the scope that is asked for")] = None

    @property
    def writers(self) -> str:
        """What the transactional ids of this user's processes begin with: nobody else needs a right to them."""
        user = self.user or self.oauth_client_id
        return f"{self.prefix}{self.application}~{user}~" if self.sasl else f"{self.prefix}{self.application}~"

    def locks(self, service: str) -> str:
        """Return what the transactional ids begin with under which a service's tasks are taken over."""
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
            raise ValueError(f"sasl={self.sasl} needs {', '.join(missing)} as well")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both, or none")
        return self


def parse_url(url: str) -> tuple[list[str], KafkaOptions]:
    """Return the brokers to begin with (host:port), and the options, of `kafka://host:port[,host:port]/[?…]`.

    Raises: WiringError, and its SettingsError for an option that is wrong or unknown.
    """
    refuse_userinfo(url, "the log", "set EVENTLIB_KAFKA_USER and EVENTLIB_KAFKA_PASSWORD")
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"  # what else is there may be a secret, misplaced
    hosts = [host if _has_port(host) else f"{host}:9092" for host in parts.netloc.split(",")]
    if "" in parts.netloc.split(",") or parts.path.strip("/") or parts.fragment:
        raise WiringError(
            f"the log {shown!r} is not of the form {_FORM}; users and passwords are EVENTLIB_KAFKA_… variables"
        )
    for host, _, port in (each.rpartition(":") for each in hosts):
        if not is_host(host) or not 0 < int(port) <= _LARGEST_PORT:
            raise WiringError(f"the log {url!r} names {host}:{port}, and there can be no such host or port: {_FORM}")
    given = options_in(url)
    for name in given:
        if name in _SECRETS:
            raise WiringError(
                f"a URL is shown in messages, so {name} does not belong there: set EVENTLIB_KAFKA_{name.upper()}"
            )
        if name not in KafkaOptions.model_fields:
            raise WiringError(f"the log {shown!r} has no option {name!r}: there are {', '.join(_in_url())}")
    return hosts, read_settings(KafkaOptions, given)


def options_in(url: str) -> dict[str, str]:
    """Return the options that a log's URL gives, as they stand there."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _in_url() -> list[str]:
    return [name for name in KafkaOptions.model_fields if name not in _SECRETS]


def _has_port(host: str) -> bool:
    return re.search(r":\d+$", host) is not None
