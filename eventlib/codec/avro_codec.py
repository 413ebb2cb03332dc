"""The Avro codec: Confluent's framing, schemas from classes, schema ids kept with the log."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from eventlib.codec.avro.derive import record_of
from eventlib.codec.avro.read import reader_of
from eventlib.codec.avro.types import Record, schema_text
from eventlib.codec.avro.write import writer_of
from eventlib.codec.port import Codec, UnknownSchema
from eventlib.codec.schemas import Schemas
from eventlib.errors import ContractError, WiringError
from eventlib.log.port import Log

T = TypeVar("T")

MAGIC = 0
HEADER_BYTES = 5
"""A zero byte and the schema's id, four bytes big-endian, as every registry client knows them."""


class AvroCodec(Codec):
    """Events and states as Avro, each with its writer's schema id in front.

    Guarantee: decode raises nothing but ContractError and UnknownSchema, whatever the bytes are, and needs memory in
    proportion to them. Source: Confluent's wire format; Apache Avro 1.12, "Schema Resolution".
    """

    def __init__(self, log: Log) -> None:
        self._schemas = Schemas(log)
        self._records: dict[type, Record] = {}
        self._writers: dict[type, Callable[[Any], bytes]] = {}
        self._readers: dict[type, dict[bytes, Callable[[bytes], Any]]] = {}

    async def prepare(self, types: Iterable[tuple[str, type[Any]]]) -> None:
        """Register the schemas of (topic, class) pairs under `<topic>-<class name>`, all in one append.

        Guarantee: only reads the log when all of them are registered. Raises: WiringError for a class with a field
        that has no Avro type.
        """
        pairs = [(topic, self._record_of(cls)) for topic, cls in types]
        texts = {record.cls: schema_text(record) for _, record in pairs}
        await self._schemas.register((f"{topic}-{record.name}", texts[record.cls]) for topic, record in pairs)
        for cls, text in texts.items():
            if cls not in self._writers:
                self._writers[cls] = writer_of(self._records[cls], _header(self._schemas.id_of(text)))

    async def refresh(self) -> None:
        """Learn the schemas that others have registered since."""
        await self._schemas.refresh()

    def encode(self, value: object) -> bytes:
        """Return a prepared class's value as framed bytes.

        Raises: ContractError, with the field's name, when it does not fit; WiringError for a class not prepared.
        """
        write = self._writers.get(type(value))
        if write is None:
            raise WiringError(f"{type(value).__name__} has no schema id yet: call prepare with its topic first")
        return write(value)

    def decode(self, expected: type[T], data: bytes) -> T:
        """Return framed bytes, of any version of a class's schema, as a validated instance of the class.

        Raises: UnknownSchema for an id not seen yet; ContractError for bytes that cannot be read.
        """
        try:
            read = self._readers[expected][data[:HEADER_BYTES]]
        except KeyError:
            read = self._reader(expected, data)
        return cast("T", read(data))

    def _reader(self, expected: type[Any], data: bytes) -> Callable[[bytes], Any]:
        header = data[:HEADER_BYTES]
        if len(header) < HEADER_BYTES:
            raise ContractError(f"{expected.__name__}: {len(data)} bytes are too few for a magic byte and a schema id")
        if header[0] != MAGIC:
            raise ContractError(f"{expected.__name__}: the first byte is {header[0]}, not the magic byte {MAGIC}")
        schema_id = int.from_bytes(header[1:], "big")
        text = self._schemas.text(schema_id)
        if text is None:
            raise UnknownSchema(f"{expected.__name__}: schema id {schema_id} is not known here; refresh and try again")
        read = reader_of(self._record_of(expected), json.loads(text), HEADER_BYTES)
        self._readers.setdefault(expected, {})[header] = read
        return read

    def _record_of(self, cls: type[Any]) -> Record:
        if cls not in self._records:
            self._records[cls] = record_of(cls)
        return self._records[cls]


def _header(schema_id: int) -> bytes:
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")
