"""Where schemas are kept, and whether they are registered by themselves: from variables EVENTLIB_…."""

from typing import Annotated

from pydantic import Field, SecretStr

from eventlib.urls import no_userinfo
from eventlib.variables import Variables


class RegistryOptions(Variables):
    """Where schemas are kept, and whether new ones are registered by whoever writes with them first.

    They are for schemas in the log, whose services and data come and go together, and not for a registry's, which
    others rely on.
    """

    registry: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_REGISTRY_USER and EVENTLIB_REGISTRY_PASSWORD"),
        Field(description="a schema registry's URL, https://host:port; unset: schemas are kept in the log"),
    ] = None
    registry_user: Annotated[str | None, Field(description="the user's name there")] = None
    registry_password: Annotated[SecretStr | None, Field(description="the user's password there")] = None
    registry_ca: Annotated[str | None, Field(description="a PEM file with whom the registry is trusted by")] = None
    auto_register: Annotated[
        bool | None,
        Field(
            description="whether who writes with a new schema first registers it; unset: in the log, not in a registry"
        ),
    ] = None

    @property
    def registry_auth(self) -> tuple[str, str] | None:
        """The user's name and password; None without a user."""
        secret = self.registry_password
        return None if self.registry_user is None else (self.registry_user, secret.get_secret_value() if secret else "")

    @property
    def registers(self) -> bool:
        """Whether a schema that is new is registered by whoever writes with it first."""
        return self.registry is None if self.auto_register is None else self.auto_register
