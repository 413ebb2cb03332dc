"""Where schemas are kept, and whether they are registered by themselves: from variables EVENTLIB_…."""

from pydantic import SecretStr

from eventlib.variables import Variables


class RegistryOptions(Variables):
    """Where schemas are kept, and whether new ones are registered by whoever writes with them first.

    `registry` is a Confluent-compatible registry's URL, `https://user:password@host:port`, `registry_ca` a file with
    the certificates that it is trusted by; without one, ids are kept in the log. `auto_register` is on for schemas in
    the log, whose services and data come and go together, and off with a registry, which others rely on.
    """

    registry: SecretStr | None = None
    registry_ca: str | None = None
    auto_register: bool | None = None

    @property
    def registers(self) -> bool:
        """Whether a schema that is new is registered by whoever writes with it first."""
        return self.registry is None if self.auto_register is None else self.auto_register
