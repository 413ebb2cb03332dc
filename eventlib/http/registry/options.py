"""How the registry's server is set up: from variables EVENTLIB_SCHEMAS_…; the command line wins over them."""

from typing import Annotated, Any

from pydantic import AnyHttpUrl, Field
from pydantic_settings import SettingsConfigDict

from eventlib.ground.url import no_userinfo
from eventlib.ground.variables import Variables, read_settings
from eventlib.registry.compatibility import Level


class SchemasOptions(Variables):
    """The server's settings, besides those that every HTTP server has."""

    model_config = SettingsConfigDict(
        env_prefix="EVENTLIB_SCHEMAS_", env_ignore_empty=True, frozen=True, extra="forbid"
    )

    port: Annotated[str, Field(description="a port of this machine, or HOST:PORT")] = "8081"
    compatibility: Annotated[Level, Field(description="the level of subjects for which none was set")] = (
        Level.FULL_TRANSITIVE
    )
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


def schemas_options(**given: Any) -> SchemasOptions:
    """Return the server's settings; what is given, and not None, wins over the environment. Raises: SettingsError."""
    return read_settings(SchemasOptions, given)
