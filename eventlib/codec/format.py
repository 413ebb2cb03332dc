"""The port to a format: a class's schema as text, and functions between its values and framed bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from eventlib.codec.avro.types import Record
from eventlib.codec.registry import AVRO, JSON, PROTOBUF, Schema
from eventlib.errors import WiringError

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]


class Format(ABC):
    """How values of a class become bytes behind a header, and values again."""

    @abstractmethod
    def schema(self, record: Record) -> Schema:
        """Return a class's schema: the same text in every process. Raises: WiringError for what it cannot say."""

    @abstractmethod
    def version_in(self, text: str) -> int:
        """Return which version of its contract a schema says to be; 1 when it says nothing."""

    @abstractmethod
    def writer(self, record: Record, header: bytes) -> Write:
        """Return the function that writes a class's values behind a header; it raises ContractError with the field."""

    @abstractmethod
    def reader(self, record: Record, text: str, header_bytes: int) -> Read:
        """Return the function that reads what a schema has written as values of a class.

        It raises nothing but ContractError, whatever the bytes are. Raises: ContractError when the class cannot be
        read from that schema at all.
        """


def format_of(kind: str) -> Format:
    """Return a format by the name that registries know. Raises: WiringError for one that is not known here."""
    found = _FORMATS.get(kind)
    return _FORMATS.setdefault(kind, _made(kind)) if found is None else found


def _made(kind: str) -> Format:
    try:
        match kind:
            case "AVRO":
                from eventlib.codec.avro.format import AvroFormat

                return AvroFormat()
            case "JSON":
                from eventlib.codec.json.format import JsonFormat

                return JsonFormat()
            case "PROTOBUF":
                from eventlib.codec.protobuf.format import ProtobufFormat

                return ProtobufFormat()
    except ModuleNotFoundError as error:
        raise WiringError(f"{kind} needs the package {error.name}: install eventlib-sagas[schemas]") from error
    raise WiringError(f"schemas of type {kind} are not known here: known are {AVRO}, {JSON} and {PROTOBUF}")


_FORMATS: dict[str, Format] = {}
