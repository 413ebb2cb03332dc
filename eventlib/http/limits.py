"""What one HTTP server gives its clients: bytes, time and connections; and the certificate that it shows them."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.ground.variables import Variables, read_settings

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class HttpLimits(Variables):
    """The limits of each HTTP server of a process.

    An answer to a client that is over a limit is short, and its connection is closed.
    """

    model_config = SettingsConfigDict(env_prefix="EVENTLIB_HTTP_", env_ignore_empty=True, frozen=True, extra="forbid")

    header_bytes: ClassVar[int] = 65_536
    """The most bytes of a request line and its headers (431)."""
    header_count: ClassVar[int] = 100
    """The most headers of a request (431)."""
    body_rate: ClassVar[int] = 10_000
    """The least rate of a body: so many bytes give it one second more."""
    body_longest_s: ClassVar[float] = 300.0
    """How long a body may take at most, whatever its rate (408)."""

    header_s: Annotated[
        Seconds, Field(description="how long the headers of a request may take to arrive (408) (seconds)")
    ] = 10.0
    idle_s: Annotated[Count, Field(description="how long a connection may wait for its next request (seconds)")] = 5
    body_s: Annotated[
        Seconds,
        Field(description="how long a body may take to arrive, beside a second for each 10,000 bytes (408) (seconds)"),
    ] = 10.0
    body_bytes: Annotated[
        Count, Field(description="the most bytes of a body (413); an API has a limit of its own below it")
    ] = 10_000_000
    write_s: Annotated[
        Seconds, Field(description="how long a client may leave an answer unread before it is disconnected (seconds)")
    ] = 30.0
    connections: Annotated[
        Count,
        Field(description="the most connections of a server (503); fewer where the process may open fewer files"),
    ] = 1_000
    connections_per_address: Annotated[
        Count | None,
        Field(
            description="the most connections from one address (503); unset: 256, and no limit for the loopback interface, "
            "where a proxy may have them all. Behind a proxy elsewhere, set it to EVENTLIB_HTTP_CONNECTIONS"
        ),
    ] = None


def http_limits() -> HttpLimits:
    """Return the limits as the environment has them. Raises: SettingsError."""
    return read_settings(HttpLimits, {})


class Tls(Variables):
    """The certificate of the HTTP servers of a process, and its key; without them they speak plain HTTP.

    Live views have none: their workers ask each other over HTTP.
    """

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_TLS_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    certificate: Annotated[
        str | None,
        Field(description="a PEM file; with a key, all HTTP servers of the process but live views speak TLS"),
    ] = None
    key: Annotated[str | None, Field(description="a PEM file with the certificate's key")] = None
    key_password: Annotated[SecretStr | None, Field(description="the password of that key")] = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both, or none")
        return self
