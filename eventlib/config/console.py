"""The settings of the console: variables EVENTLIB_CONSOLE_…."""

from typing import Annotated, Any, Self

from pydantic import AnyHttpUrl, Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.ground.url import is_loopback, no_userinfo
from eventlib.ground.variables import Variables, read_settings


class ConsoleOptions(Variables):
    """How browsers reach the console, and log in at the issuer that EVENTLIB_IDENTITY_ISSUER names."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_CONSOLE_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    url: Annotated[
        AnyHttpUrl | None,
        no_userinfo("leave them out"),
        Field(description="the address that browsers have for the console, to which the issuer sends them back"),
    ] = None
    client_id: Annotated[
        str | None,
        Field(min_length=1, description="the console's client at the issuer; unset: people log in by tokens"),
    ] = None
    client_secret: Annotated[
        SecretStr | None,
        Field(description="the password of that client; unset for a public one, which proves itself by PKCE"),
    ] = None
    scope: Annotated[str, Field(min_length=1, description="what is asked for at the login")] = "openid profile"
    session_s: Annotated[
        int, Field(ge=60, le=86_400, description="how long a login lasts, whose roles are read only then (seconds)")
    ] = 3_600

    trace_url: Annotated[
        str | None,
        Field(
            description="the address of a trace in your tracing tool, with {trace_id} in it; sagas that are traced link to it"
        ),
    ] = None

    @field_validator("trace_url")
    @classmethod
    def _of_a_trace(cls, text: str | None) -> str | None:
        if text is not None and not (text.startswith(("https://", "http://")) and "{trace_id}" in text):
            raise ValueError("give an address with {trace_id} in it: https://jaeger.example.org/trace/{trace_id}")
        return text

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.client_id is None) != (self.url is None):
            raise ValueError("client_id and url go together: give both, or none")
        if self.url is not None and self.url.scheme != "https" and not is_loopback(self.url.host or ""):
            raise ValueError("url has to be https: sessions are sent there")
        return self


def console_options(**given: Any) -> ConsoleOptions:
    """Return the settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(ConsoleOptions, given)
