"""How the registry's server is set up: from variables EVENTLIB_SCHEMAS_…; the command line wins over them."""

from typing import Annotated, Any, Self

from pydantic import AnyHttpUrl, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.registry.compatibility import Level
from eventlib.variables import Variables, read_settings

Users = dict[Annotated[str, Field(min_length=1, pattern=r"^[^:]+$")], SecretStr]


class SchemasOptions(Variables):
    """The server's settings.

    `compatibility` is the level of subjects for which none was set. `readers` and `writers` are who may come, and
    their passwords, as JSON: {"name": "password"}; with neither, everybody may do everything. `certificate` and `key`
    are PEM files, and turn TLS on; `ca` is what other instances' certificates are trusted by. `address` is where other
    instances reach this one; by default where it listens.
    """

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_SCHEMAS_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    port: str = "8081"
    compatibility: Level = Level.FULL_TRANSITIVE
    readers: Users = Field(default_factory=dict)
    writers: Users = Field(default_factory=dict)
    certificate: str | None = None
    key: str | None = None
    key_password: SecretStr | None = None
    ca: str | None = None
    address: AnyHttpUrl | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together: give both, or none")
        both = self.readers.keys() & self.writers.keys()
        if both:
            raise ValueError(f"{', '.join(sorted(both))}: is a reader or a writer, not both")
        return self

    @property
    def has_users(self) -> bool:
        """Whether one has to say who one is."""
        return bool(self.readers or self.writers)


def schemas_options(**given: Any) -> SchemasOptions:
    """Return the server's settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(SchemasOptions, given)
