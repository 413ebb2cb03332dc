"""How the registry's server is set up: from variables EVENTLIB_SCHEMAS_…; the command line wins over them."""

import json
from typing import Any, Literal, Self

from pydantic import AnyHttpUrl, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from eventlib.registry.compatibility import Level
from eventlib.variables import Variables, read_settings

_NOBODY = SecretStr("{}")


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
    readers: SecretStr = _NOBODY
    writers: SecretStr = _NOBODY
    certificate: str | None = None
    key: str | None = None
    key_password: SecretStr | None = None
    ca: str | None = None
    address: AnyHttpUrl | None = None

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
        """Whether one has to say who one is."""
        return bool(self.users("readers") or self.users("writers"))

    def users(self, kind: Literal["readers", "writers"]) -> dict[str, str]:
        """Return the users of a kind and their passwords."""
        secret: SecretStr = getattr(self, kind)
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
