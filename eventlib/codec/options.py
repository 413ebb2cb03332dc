"""Where schemas are kept, and whether they are registered by themselves: from variables EVENTLIB_…."""

from typing import Annotated

from pydantic import SecretStr

from eventlib.meaning import Means
from eventlib.variables import Variables


class RegistryOptions(Variables):
    """Where schemas are kept, and whether new ones are registered by whoever writes with them first.

    They are for schemas in the log, whose services and data come and go together, and not for a registry's, which
    others rely on.
    """

    registry: Annotated[
        SecretStr | None,
        Means("a schema registry's URL, https://user:password@host:port; unset: schemas are kept in the log"),
    ] = None
    registry_ca: Annotated[str | None, Means("a PEM file with whom the registry is trusted by")] = None
    auto_register: Annotated[
        bool | None,
        Means("whether who writes with a new schema first registers it; unset: in the log, not in a registry"),
    ] = None

    @property
    def registers(self) -> bool:
        """Whether a schema that is new is registered by whoever writes with it first."""
        return self.registry is None if self.auto_register is None else self.auto_register
