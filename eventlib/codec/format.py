"""The interface of a format: a class's schema as text, and functions between its values and framed bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from eventlib.codec.registry import Schema
from eventlib.model.schema.types import Record

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]


class Format(ABC):
    """How values of a class become bytes behind a header, and values again."""

    @abstractmethod
    def schema(self, record: Record) -> Schema:
        """Return a class's schema: the same text in every process. Raises: WiringError for what it cannot say."""

    @abstractmethod
    def version_in(self, text: str) -> int:
        """Return which version of its contract a schema declares to be; 1 when it declares none."""

    @abstractmethod
    def writer(self, record: Record, header: bytes) -> Write:
        """Return the function that writes a class's values behind a header; it raises ContractError with the field."""

    @abstractmethod
    def reader(self, record: Record, text: str, header_bytes: int) -> Read:
        """Return the function that reads what a schema has written as values of a class.

        It raises nothing but ContractError, whatever the bytes are. Raises: ContractError when the class cannot be
        read from that schema at all.
        """
