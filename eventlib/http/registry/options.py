"""How the registry's server is set up: from variables EVENTLIB_SCHEMAS_…; the command line wins over them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AnyHttpUrl, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.ground.url import no_userinfo
from eventlib.ground.variables import Variables, read_settings
from eventlib.registry.comparing import CompareLimits
from eventlib.registry.compatibility import Level


class SchemasOptions(Variables):
    """The server's settings; with neither readers nor writers, every client may read and write."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_SCHEMAS_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    port: Annotated[str, Field(description="a port of this machine, or HOST:PORT")] = "8081"
    compatibility: Annotated[Level, Field(description="the level of subjects for which none was set")] = (
        Level.FULL_TRANSITIVE
    )
    readers: Annotated[SecretStr | None, Field(description='who may read, as JSON: {"name": "password"}')] = None
    writers: Annotated[SecretStr | None, Field(description="who may write as well, in the same form")] = None
    certificate: Annotated[str | None, Field(description="a PEM file; with a key, it turns TLS on")] = None
    key: Annotated[str | None, Field(description="a PEM file with the certificate's key")] = None
    key_password: Annotated[SecretStr | None, Field(description="the password of that key")] = None
    ca: Annotated[str | None, Field(description="a PEM file of authorities that other instances are trusted by")] = None
    compare_pairs: Annotated[
        int, Field(ge=1, description="the most pairs of types that a comparison with earlier versions takes (422)")
    ] = CompareLimits.pairs
    compare_s: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False, description="the most seconds that such a comparison takes (422)"),
    ] = CompareLimits.seconds
    certificate_name: Annotated[
        str | None,
        Field(
            min_length=1,
            description="the host name in the certificates of all instances; unset: each has its address's",
        ),
    ] = None
    address: Annotated[
        AnyHttpUrl | None,
        no_userinfo("leave them out"),
        Field(description="where other instances reach this one; unset: where it listens"),
    ] = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both, or none")
        both = self.users("readers").keys() & self.users("writers").keys()
        if both:
            raise ValueError(f"{', '.join(sorted(both))}: is a reader or a writer, not both")
        return self

    @property
    def has_users(self) -> bool:
        """Whether clients have to authenticate."""
        return bool(self.users("readers") or self.users("writers"))

    def users(self, kind: Literal["readers", "writers"]) -> dict[str, str]:
        """Return the users of a kind and their passwords."""
        secret: SecretStr | None = getattr(self, kind)
        if secret is None:
            return {}
        try:
            found = json.loads(secret.get_secret_value())
        except ValueError:  # whose sentence may show a password
            found = None
        if not isinstance(found, dict) or not all(isinstance(each, str) and each for each in found.values()):
            raise ValueError(f'{kind} has to be JSON, names and passwords: {{"ann": "her password"}}')
        if any(not name or ":" in name for name in found):
            raise ValueError(f"{kind}: a name is not empty, and has no colon")
        return found


def schemas_options(**given: Any) -> SchemasOptions:
    """Return the server's settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(SchemasOptions, given)
