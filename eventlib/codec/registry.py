"""The interface to a schema registry, and the settings EVENTLIB_SCHEMAS_… that choose one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, SecretStr

from eventlib.errors import DamagedRecord
from eventlib.ground.url import no_userinfo
from eventlib.ground.variables import Variables
from eventlib.identity.identity import INTERNAL, identity_of

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""The formats, by the names that a registry's clients know."""


class Schema(NamedTuple):
    """A schema's text, in one of the three formats."""

    text: str
    kind: str = AVRO


class Version(NamedTuple):
    """A version of a subject's schema, by its number, and the id that stands in front of what it has written."""

    subject: str
    version: int
    id: int
    schema: Schema


Wanted = tuple[str, Schema]
"""A subject, and a schema that is to be one of its versions."""


class Registry(ABC):
    """Keeps schemas: one id for each, and versions for each subject.

    Guarantee: an id always means the same schema, and what was learned once is not asked for again.
    """

    @property
    def damaged(self) -> Sequence[DamagedRecord]:
        """The damaged records among those it was read from: an id that is not known here may be that of one of them."""
        return ()

    @abstractmethod
    def schema(self, schema_id: int) -> Schema | None:
        """Return a schema by its id, if it is known here; does no I/O. Asking lets `refresh` look for it."""

    @abstractmethod
    async def refresh(self) -> None:
        """Learn the schemas that were asked for, and not known."""

    @abstractmethod
    async def ids(self, wanted: Iterable[Wanted]) -> list[int | None]:
        """Return the id of each schema under its subject; None where it is no version of it."""

    @abstractmethod
    async def register(self, wanted: Iterable[Wanted]) -> None:
        """Make each schema a version of its subject. Guarantee: reads only, when all of them are."""

    @abstractmethod
    async def versions(self, subject: str) -> Sequence[Version]:
        """Return the versions of a subject that are not deleted, the oldest first."""

    @abstractmethod
    async def subjects(self) -> Sequence[str]:
        """Return the subjects that have a version, in order."""

    @abstractmethod
    async def level(self, subject: str) -> str | None:
        """Return the compatibility level that was set for a subject; None when none was."""

    @abstractmethod
    async def set_level(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject."""

    async def close(self) -> None:
        """Let go of what it holds."""
        return


class RegistryOptions(Variables):
    """Where schemas are kept, and whether new ones are registered by the process that writes with them first.

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
    registry_ca: Annotated[
        str | None, Field(description="a PEM file of authorities that the registry is trusted by")
    ] = None
    auto_register: Annotated[
        bool | None,
        Field(
            description="whether who writes with a new schema first registers it; unset: in the log, not in a registry"
        ),
    ] = None

    @property
    def registry_auth(self) -> tuple[str, str] | None:
        """The user's name and password; None without a user. The user `internal` has the installation's own token."""
        if self.registry_user is None:
            return None
        if self.registry_password is not None:
            return self.registry_user, self.registry_password.get_secret_value()
        return self.registry_user, identity_of().internal_token if self.registry_user == INTERNAL else ""

    @property
    def registers(self) -> bool:
        """Whether a schema that is new is registered by the process that writes with it first."""
        return self.registry is None if self.auto_register is None else self.auto_register
