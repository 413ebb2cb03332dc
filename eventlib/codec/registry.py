"""The port to a registry: schemas by id, and the versions of a subject, wherever they are kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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

    Guarantee: an id means one schema for ever, and what was learned once is not asked for again.
    """

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
