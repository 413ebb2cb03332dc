"""Avro as a format of events and states."""

import json

from eventlib.codec.avro.read import reader_of
from eventlib.codec.avro.write import writer_of
from eventlib.codec.format import Format, Read, Write
from eventlib.codec.registry import AVRO, Schema
from eventlib.model.schema.types import Record, schema_text, version_in


class AvroFormat(Format):
    """Apache Avro 1.12, its binary encoding."""

    def schema(self, record: Record) -> Schema:
        """See `Format.schema`."""
        return Schema(schema_text(record), AVRO)

    def version_in(self, text: str) -> int:
        """See `Format.version_in`."""
        return version_in(json.loads(text))

    def writer(self, record: Record, header: bytes) -> Write:
        """See `Format.writer`."""
        return writer_of(record, header)

    def reader(self, record: Record, text: str, header_bytes: int) -> Read:
        """See `Format.reader`."""
        return reader_of(record, json.loads(text), header_bytes)
