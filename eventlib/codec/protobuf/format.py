"""Protocol Buffers as a format of events: the message's indexes, then the message; and messages as plain values."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from eventlib.codec.avro.read import upcast_from
from eventlib.codec.avro.scalars import long_at
from eventlib.codec.avro.write import MISFITS
from eventlib.codec.format import Format, Read, Write
from eventlib.codec.plain_values import OneOf, guarded, shape_of
from eventlib.codec.protobuf.schema import ONE_OF, branch_field, protobuf_file, symbol_prefix
from eventlib.codec.protobuf.write import Fills
from eventlib.codec.registry import PROTOBUF, Schema
from eventlib.errors import ContractError
from eventlib.model.schema.types import Record
from eventlib.registry.parsing import InvalidSchema, SchemaType, parse
from eventlib.registry.parsing.proto_text import proto_text

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_IN_A_MICRO = 1_000


class Plain:
    """The functions of one schema's messages: to a dict, in which None stands for what was not written."""

    def __init__(self) -> None:
        self._known: dict[str, Convert] = {}

    def of(self, message: Descriptor) -> Convert:
        """Return the function from a message to a dict."""
        known = self._known.get(message.full_name)
        if known is not None:
            return known
        self._known[message.full_name] = lambda value: plain(value)  # noqa: PLW0108  made below: it may lead back here
        fields = [(field.name, self._field(field), _may_be_absent(field)) for field in message.fields]

        def plain(value: Any) -> dict[str, Any]:
            made = dict[str, Any]()
            for name, to, may_be_absent in fields:
                if may_be_absent and not value.HasField(name):
                    made[name] = None
                else:
                    found = getattr(value, name)
                    made[name] = found if to is None else to(found)
            return made

        self._known[message.full_name] = plain
        return plain

    def _field(self, field: FieldDescriptor) -> Convert | None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_map = self._value(field.message_type.fields_by_name["value"])
            return dict if of_map is None else lambda found: {key: of_map(found[key]) for key in found}
        to = self._value(field)
        if not field.is_repeated:
            return to
        return list if to is None else lambda found: [to(each) for each in found]

    def _value(self, field: FieldDescriptor) -> Convert | None:
        """Return the function of one value; None when it is what it is."""
        if field.enum_type is not None:
            prefix = symbol_prefix(field.enum_type.name)
            symbols = {value.number: value.name.removeprefix(prefix) for value in field.enum_type.values}
            return lambda number: symbols.get(number, str(number))
        message = field.message_type
        if message is None:
            return None
        if message.full_name == timestamp_pb2.Timestamp.DESCRIPTOR.full_name:
            return _moment
        if ONE_OF in message.oneofs_by_name and len(message.oneofs) == 1:
            branches = {branch.name: self._value(branch) for branch in message.oneofs[0].fields}
            return lambda value: _one_of(value, branches)
        return self.of(message)


def _may_be_absent(field: FieldDescriptor) -> bool:
    return bool(field.has_presence and not field.is_repeated)


def _moment(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // _NANOS_IN_A_MICRO)


def _one_of(value: Any, branches: dict[str, Convert | None]) -> OneOf | None:
    branch = value.WhichOneof(ONE_OF)
    if branch is None:
        return None
    to, found = branches[branch], getattr(value, branch)
    return OneOf(branch, found if to is None else to(found))


_FIRST_MESSAGE = b"\x00"
"""The indexes of a file's first message: how many there are would be emitted, and [0] is written as 0."""

_VERSION = re.compile(r"^package v([0-9]+);$", re.MULTILINE)
_MOST_INDEXES = 100


class ProtobufFormat(Format):
    """Protocol Buffers, proto3."""

    def schema(self, record: Record) -> Schema:
        """See `Format.schema`."""
        return Schema(proto_text(protobuf_file(record)).strip(), PROTOBUF)

    def version_in(self, text: str) -> int:
        """See `Format.version_in`."""
        found = _VERSION.search(text)
        return 1 if found is None else int(found[1])

    def writer(self, record: Record, header: bytes) -> Write:
        """See `Format.writer`."""
        file = protobuf_file(record)
        message_class = GetMessageClass(_pool([file]).FindMessageTypeByName(_full_name(file, record.name)))
        fill, start = Fills().record(record), header + _FIRST_MESSAGE

        def write(value: Any) -> bytes:
            message = message_class()
            try:
                fill(message, value)
                written: bytes = message.SerializeToString(deterministic=True)
            except MISFITS as error:
                raise ContractError(f"{record.name} does not fit its schema: {error!s:.300}") from error
            return start + written

        return write

    def reader(self, record: Record, text: str, header_bytes: int) -> Read:
        """See `Format.reader`."""
        plain = Plain()
        messages = {at: (GetMessageClass(each), plain.of(each)) for at, each in _messages(record, text).items()}
        written = self.version_in(text)
        shape = shape_of(record, is_json=False, branch_name=branch_field)
        if written != record.version:
            shape = upcast_from(record, written)

        def read(data: bytes) -> Any:
            indexes, at = _indexes(data, header_bytes)
            message_class, to_plain = messages[indexes]
            return shape(to_plain(message_class.FromString(data[at:])))

        return guarded(record, read)


def _messages(record: Record, text: str) -> dict[tuple[int, ...], Descriptor]:
    """Return a schema's messages by their indexes."""
    try:
        files = parse(SchemaType.PROTOBUF, text).model
        pool = _pool([*files.imports(), files.file()])
        file = pool.FindFileByName(files.file().name)
    except (InvalidSchema, TypeError, KeyError) as error:
        raise ContractError(f"{record.name} cannot be read from the schema that wrote it: {error!s:.300}") from error
    tops = [file.message_types_by_name[each.name] for each in files.file().message_type]
    return dict(_indexed(tops, ()))


def _indexed(messages: list[Descriptor], above: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Descriptor]]:
    for index, message in enumerate(messages):
        yield (*above, index), message
        yield from _indexed(list(message.nested_types), (*above, index))


def _pool(files: list[FileDescriptorProto]) -> DescriptorPool:
    pool = DescriptorPool()
    if all(file.name != timestamp_pb2.DESCRIPTOR.name for file in files):
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.Add(file)
    return pool


def _full_name(file: FileDescriptorProto, name: str) -> str:
    return f"{file.package}.{name}" if file.package else name


def _indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message, and the position behind them."""
    count, at = long_at(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"it claims {count} message indexes")
    found = list[int]()
    for _ in range(count):
        index, at = long_at(data, at)
        found.append(index)
    return tuple(found), at
