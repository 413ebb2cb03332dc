"""The settings of identity: variables EVENTLIB_IDENTITY_…."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AnyHttpUrl, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.errors import WiringError
from eventlib.ground.url import is_loopback, no_userinfo
from eventlib.ground.variables import Variables, read_settings

KEY_BYTES = 16
_A_KEY = "32 hex digits or more: `openssl rand -hex 32`"


class IdentityOptions(Variables):
    """How callers prove who they are; without tokens, issuer and certificates there is no identity: only loopback is served."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_IDENTITY_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    leeway_s: ClassVar[int] = 60
    """How far the issuer's clock and this one may differ."""
    introspection_s: ClassVar[float] = 30.0
    """For how long an issuer's answer counts that a token was not revoked."""

    tokens_file: Annotated[
        Path | None,
        Field(
            description="a JSON file of named tokens and certificates (`eventlib token`); read again when it changes"
        ),
    ] = None
    tokens: Annotated[SecretStr | None, Field(description="the same JSON, as a setting")] = None
    issuer: Annotated[
        AnyHttpUrl | None,
        no_userinfo("leave them out"),
        Field(description="the OpenID Connect issuer whose access tokens are accepted"),
    ] = None
    audience: Annotated[
        str | None, Field(min_length=1, description="the `aud` that access tokens have; goes with the issuer")
    ] = None
    jwks_url: Annotated[
        AnyHttpUrl | None,
        no_userinfo("leave them out"),
        Field(description="where the issuer's keys are; unset: where its discovery document says"),
    ] = None
    ca: Annotated[
        Path | None, Field(description="a PEM file of authorities that the issuer is trusted by; unset: the system's")
    ] = None
    roles_claim: Annotated[
        str, Field(min_length=1, description="the claim with the roles; a dot goes into an object (realm_access.roles)")
    ] = "roles"
    customer_claim: Annotated[str, Field(min_length=1, description="the claim with a customer's id")] = "sub"
    introspection_url: Annotated[
        AnyHttpUrl | None,
        no_userinfo("set EVENTLIB_IDENTITY_CLIENT_ID and EVENTLIB_IDENTITY_CLIENT_SECRET"),
        Field(
            description="where the issuer is asked, every 30 s, whether a token was revoked; unset: a token counts until it expires"
        ),
    ] = None
    client_id: Annotated[str | None, Field(description="this server's user at the introspection")] = None
    client_secret: Annotated[SecretStr | None, Field(description="the password of that user")] = None
    certificate_header: Annotated[
        str | None,
        Field(min_length=1, description="the header in which a proxy gives the subject of a client's certificate"),
    ] = None
    proxies: Annotated[
        str,
        Field(description="the addresses or networks of the proxies that this header is accepted from, with commas"),
    ] = ""
    hosts: Annotated[str, Field(description="the host names that requests may name, with commas; unset: any")] = ""
    origins: Annotated[
        str, Field(description="the origins whose pages in a browser may call, with commas; unset: none but the own")
    ] = ""
    key: Annotated[
        SecretStr | None,
        Field(
            description="the installation's secret (32 hex digits or more), from which ids under idempotency keys follow"
        ),
    ] = None
    key_file: Annotated[Path | None, Field(description="a file with that secret")] = None
    insecure: Annotated[
        bool, Field(description="serve every address without identity: everyone who reaches it may do everything")
    ] = False

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.issuer is None) != (self.audience is None):
            raise ValueError("issuer and audience go together: give both, or none")
        for name in ("issuer", "jwks_url", "introspection_url"):
            url: AnyHttpUrl | None = getattr(self, name)
            if url is not None and url.scheme != "https" and not is_loopback(url.host or ""):
                raise ValueError(f"{name} has to be https: what it answers decides who gets in")
        if (self.certificate_header is None) != (not self.proxies):
            raise ValueError("certificate_header and proxies go together: give both, or none")
        for each in self.listed("proxies"):
            ip_network(each)
        if self.introspection_url is not None and (self.client_id is None or self.client_secret is None):
            raise ValueError("introspection_url needs client_id and client_secret")
        if self.is_configured and self.insecure:
            raise ValueError("insecure contradicts the other settings of identity: leave it out")
        return self

    @property
    def is_configured(self) -> bool:
        """Whether callers have to prove who they are."""
        return any((self.tokens_file, self.tokens, self.issuer, self.certificate_header))

    def listed(self, name: str) -> list[str]:
        """Return the parts of a setting that is a list with commas."""
        return [part for each in str(getattr(self, name)).split(",") if (part := each.strip())]

    def installation_key(self) -> bytes | None:
        """Return the installation's key; None without identity. Raises: WiringError when it is missing, or no key."""
        if self.key is None and self.key_file is None:
            if self.is_configured:
                raise WiringError(f"with identity, a key is needed, too: set EVENTLIB_IDENTITY_KEY to {_A_KEY}")
            return None
        try:
            text = "" if self.key_file is None else self.key_file.read_text()
            found = bytes.fromhex((text if self.key is None else self.key.get_secret_value()).strip())
        except OSError as error:
            raise WiringError(f"EVENTLIB_IDENTITY_KEY_FILE={self.key_file} cannot be read: {error.strerror}") from error
        except ValueError:  # whose sentence would quote it
            found = b""
        if len(found) < KEY_BYTES:
            raise WiringError(f"EVENTLIB_IDENTITY_KEY is {_A_KEY}")
        return found


def identity_options(**given: Any) -> IdentityOptions:
    """Return the settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(IdentityOptions, given)
