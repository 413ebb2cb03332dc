"""A class's Protobuf schema (proto3), from the same fields as its Avro schema.

| field | Protobuf |
|---|---|
| str, int, float, bool, bytes | string, int64, double, bool, bytes |
| datetime | google.protobuf.Timestamp |
| Decimal, UUID, date, time | string |
| Enum | enum: `<ENUM>_UNSPECIFIED` is 0, then `<ENUM>_<symbol>` in order |
| X or None | optional |
| list, tuple, set, frozenset; dict | repeated; map |
| several types | a message `<Field>OneOf` with a oneof `value` |
| model, dataclass | message |

Fields have the numbers of their order, from 1: a new field goes to the end of its class. A contract's version, from
the second on, is the package: `v2`. Proto3 has no list that may be missing, and no list in a list.
"""

import re

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from eventlib.errors import WiringError
from eventlib.model.schema.types import (
    NULL,
    Array,
    Choice,
    Exact,
    Field,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    name_of,
)

TIMESTAMP = ".google.protobuf.Timestamp"
ONE_OF = "value"

_F = FieldDescriptorProto
_PLAIN = {
    "string": _F.TYPE_STRING,
    "long": _F.TYPE_INT64,
    "double": _F.TYPE_DOUBLE,
    "boolean": _F.TYPE_BOOL,
    "bytes": _F.TYPE_BYTES,
}


def protobuf_file(record: Record) -> FileDescriptorProto:
    """Return the file of a class's messages, its own first. Raises: WiringError for what proto3 cannot say."""
    file = FileDescriptorProto(name=f"{record.name}.proto", syntax="proto3")
    if record.version > 1:
        file.package = f"v{record.version}"
    _Messages(file).of(record)
    return file


def symbol_prefix(enum: str) -> str:
    """Return what stands before each symbol of an enum, since all enums of a file share one space of names."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum).upper() + "_"


def one_of_name(field: str) -> str:
    """Return the name of the message of a field that may have several types."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "OneOf"


def branch_field(node: Node) -> str:
    """Return the name of a type's field in a oneof."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name_of(node)).lower()


class _Messages:
    """The messages and enums of one file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._known = set[str]()
        self._scope = f".{file.package}." if file.package else "."

    def of(self, record: Record) -> str:
        """Return a message's full name, after adding it."""
        if record.name not in self._known:
            self._known.add(record.name)
            message = self._file.message_type.add(name=record.name)
            for number, field in enumerate(record.fields, 1):
                self._field(message, field, number, f"{record.name}.{field.name}")
        return f"{self._scope}{record.name}"

    def _field(self, message: DescriptorProto, field: Field, number: int, where: str) -> None:
        node, optional = field.node, False
        if isinstance(node, Union) and node.optional is not None:
            node, optional = node.optional, True
        made = message.field.add(name=field.name, number=number, label=_F.LABEL_OPTIONAL)
        match node:
            case Array() | StringMap() if optional:
                raise _refused(where, "list or dict that may be None", "an empty one will do")
            case Array(items=items):
                made.label = _F.LABEL_REPEATED
                self._type(made, items, where)
            case StringMap(values=values):
                made.label = _F.LABEL_REPEATED
                made.type, made.type_name = _F.TYPE_MESSAGE, f"{self._full(message)}.{_entry(message, field.name)}"
                self._type(message.nested_type[-1].field.add(name="value", number=2, label=1), values, where)
            case Union():
                made.type, made.type_name = _F.TYPE_MESSAGE, self._one_of(message, field.name, node, where)
            case _:
                self._type(made, node, where)
                if optional and made.type != _F.TYPE_MESSAGE:
                    made.proto3_optional = True
                    made.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")

    def _one_of(self, message: DescriptorProto, name: str, union: Union, where: str) -> str:
        choice = message.nested_type.add(name=one_of_name(name))
        choice.oneof_decl.add(name=ONE_OF)
        branches = [branch for branch in union.branches if branch != NULL]
        for number, branch in enumerate(branches, 1):
            field = choice.field.add(name=branch_field(branch), number=number, label=_F.LABEL_OPTIONAL, oneof_index=0)
            self._type(field, branch, where)
        return f"{self._full(message)}.{choice.name}"

    def _type(self, field: FieldDescriptorProto, node: Node, where: str) -> None:
        match node:
            case Plain(avro="long", logical="timestamp-micros"):
                field.type, field.type_name = _F.TYPE_MESSAGE, TIMESTAMP
                if not self._file.dependency:
                    self._file.dependency.append("google/protobuf/timestamp.proto")
            case Exact() | Plain(logical=str()):
                field.type = _F.TYPE_STRING
            case Plain(avro=avro) | Choice(avro=avro) if avro in _PLAIN:
                field.type = _PLAIN[avro]
            case Symbols():
                field.type, field.type_name = _F.TYPE_ENUM, self._enum(node)
            case Record():
                field.type, field.type_name = _F.TYPE_MESSAGE, self.of(node)
            case _:
                raise _refused(where, "list, dict or union inside of another", "make it a model of its own")

    def _enum(self, symbols: Symbols) -> str:
        name = name_of(symbols)
        if name not in self._known:
            self._known.add(name)
            enum = self._file.enum_type.add(name=name)
            for number, symbol in enumerate(["UNSPECIFIED", *symbols.members]):
                enum.value.add(name=f"{symbol_prefix(name)}{symbol}", number=number)
        return f"{self._scope}{name}"

    def _full(self, message: DescriptorProto) -> str:
        return f"{self._scope}{message.name}"


def _entry(message: DescriptorProto, field: str) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_F.TYPE_STRING)
    return name


def _refused(where: str, what: str, remedy: str) -> WiringError:
    return WiringError(f"{where}: Protobuf has no {what}: {remedy}, or use another format on this topic")
