"""The port to a codec: framed bytes for events and states, and back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from eventlib.errors import ContractError, RetryableError, UndecodableRecord, WiringError

if TYPE_CHECKING:
    from eventlib.codec.registry import Registry, Schema
    from eventlib.model.record import Record

T = TypeVar("T")


class UnknownSchema(RetryableError):
    """Bytes were written with a schema that this process has not seen yet: refresh, and decode again."""


class LostSchema(UndecodableRecord):
    """A record whose schema is not known since the schema's own record may be damaged: what it holds is unknown."""


class Codec(ABC):
    """Turns events and states into bytes with their schema's id in front, and reads what any version has written.

    Guarantee: bytes carry the writer's schema id, so that they stay readable; encode and decode do no I/O.
    """

    registry: "Registry"

    @abstractmethod
    def subject(self, topic: str, cls: type[Any]) -> str:
        """Return the subject under which a class's schemas for a topic are kept."""

    @abstractmethod
    def schema_of(self, cls: type[Any]) -> "Schema":
        """Return the schema of a class. Raises: WiringError for a field that its format cannot hold."""

    @abstractmethod
    async def prepare(self, types: Iterable[tuple[str, type[Any]]]) -> None:
        """Register the schemas of (topic, class) pairs, before the first encode of each class."""

    @abstractmethod
    async def unreadable(self, topic: str, cls: type[Any]) -> Mapping[bytes, str]:
        """Return which versions of a class's schema on a topic the class cannot read: how their bytes begin, and why."""

    @abstractmethod
    async def refresh(self) -> None:
        """Learn the schemas that others have registered since."""

    def unreadable_record(self, record: "Record", error: UnknownSchema) -> UndecodableRecord:
        """Return the error of a record whose schema is not known, after a refresh."""
        kind = LostSchema if self.registry.damaged else UndecodableRecord
        return kind(str(error), record.topic, record.partition, record.offset)

    async def known(self, read: Callable[[], T]) -> T:
        """Return what a function reads with this codec, after learning the schemas that are new if it needs one.

        Raises: UnknownSchema for an id that is not registered; and what the function raises.
        """
        try:
            return read()
        except UnknownSchema:
            await self.refresh()
        return read()

    async def decode_now(self, read: Callable[[], T], unreadable: str = "") -> T:
        """Return what a function reads, as `known` does; `unreadable` stands before the reason in an error.

        Raises: ContractError for an id that is not registered; DamagedRecord when its schema may be one that is damaged.
        """
        try:
            return await self.known(read)
        except UnknownSchema as error:
            for damaged in self.registry.damaged:
                raise damaged from error
            raise ContractError(f"{unreadable}{error}") from error

    @abstractmethod
    def encode(self, value: object) -> bytes:
        """Return a prepared class's value as framed bytes. Raises: ContractError when it does not fit its schema."""

    def prepare_subjects(self, values: Iterable[object]) -> None:  # noqa: B027  most encrypt nothing
        """Make the keys that values to be encoded need, all at once."""

    def seal(self, value: object, name: str, text: str) -> str:  # noqa: ARG002  a codec that encrypts nothing needs neither
        """Return a text that follows from a value's personal data, under a name, as it may be kept beside the value.

        Guarantee: once one of the value's subjects is erased, nothing tells what it was. The same text gives the same.
        Raises: as `encrypt` of `FieldCipher`.
        """
        return text

    def unseal(self, sealed: str) -> str:
        """Return the text that `seal` was given; `ERASED` or `MASKED` when it is not to be seen. Raises: LogUnavailable."""
        return sealed

    def rewriter(self, cls: type[Any], data: bytes) -> Callable[[Any], bytes] | None:  # noqa: ARG002  a codec that cannot tell needs neither
        """Return what writes a class's values with the schema of some bytes, if that is its own; None if only decoding can tell.

        What it returns raises ContractError and WiringError as `encode` does.
        """
        return None

    def gives(self, value: object, data: bytes) -> bool:
        """Tell whether bytes are certainly those of a value: False too where only decoding could tell."""
        write = self.rewriter(type(value), data)
        try:
            return write is not None and write(value) == data
        except (ContractError, WiringError):  # WiringError: without the right to encrypt, only decoding can tell
            return False

    @abstractmethod
    def decode(self, expected: type[T], data: bytes) -> T:
        """Return framed bytes as a value of a class, resolved from the writer's schema to the class's own.

        Raises: UnknownSchema for an id not seen yet; ContractError for bytes that cannot be read.
        """
