"""A .proto file's text from its descriptor. Source: Protocol Buffers language guides (proto2, proto3, editions).

Options that are extensions cannot be named from a descriptor alone, and are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

_SCALARS = {
    getattr(FieldDescriptorProto, f"TYPE_{name.upper()}"): name
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LARGEST_NUMBER = 536_870_911
_LARGEST_ENUM_NUMBER = 2_147_483_647


def proto_text(file: FileDescriptorProto) -> str:
    """Return the text that compiles to a descriptor."""
    return "\n".join(_Printer(file).lines()) + "\n"


class _Printer:
    """The lines of one file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._labelled = file.syntax in {"", "proto2"}

    def lines(self) -> Iterator[str]:
        """Yield the whole file."""
        file = self._file
        if file.syntax == "editions":
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for i, name in enumerate(file.dependency):
            kind = "public " if i in file.public_dependency else "weak " if i in file.weak_dependency else ""
            yield f"import {kind}{_quoted(name)};"
        yield from _statements(file.options)
        for enum in file.enum_type:
            yield from _enum(enum)
        for message in file.message_type:
            yield from self._message(message)
        yield from self._extensions(file.extension, DescriptorProto())
        for service in file.service:
            yield from _service(service)

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"message {message.name} {{"
        yield from _indented(self._body(message))
        yield "}"

    def _body(self, message: DescriptorProto) -> Iterator[str]:
        yield from _statements(message.options)
        yield from _reserved(message.reserved_range, message.reserved_name, _LARGEST_NUMBER, 1, plain=self._is_edition)
        for area in message.extension_range:
            yield f"extensions {_range(area.start, area.end - 1, _LARGEST_NUMBER)};"
        for enum in message.enum_type:
            yield from _enum(enum)
        # An index on the wire counts nested messages in their order, and maps and groups are such messages too.
        made = {each.type_name.rpartition(".")[2] for each in message.field if _makes_message(each, message)}
        waiting = [*message.nested_type]
        for fields in _together(message):
            names = {each.type_name.rpartition(".")[2] for each in fields} & made
            first = max((i + 1 for i, each in enumerate(waiting) if each.name in names), default=0)
            yield from self._nested(waiting[:first], made)
            waiting = waiting[first:]
            yield from self._declared(fields, message)
        yield from self._nested(waiting, made)
        yield from self._extensions(message.extension, message)

    def _nested(self, messages: Iterable[DescriptorProto], made: set[str]) -> Iterator[str]:
        for each in messages:
            if each.name not in made:
                yield from self._message(each)

    @property
    def _is_edition(self) -> bool:
        return bool(self._file.syntax == "editions")

    def _declared(self, fields: list[FieldDescriptorProto], message: DescriptorProto) -> Iterator[str]:
        if not _is_in_oneof(fields[0]):
            yield from self._field(fields[0], message, labelled=True)
            return
        oneof = message.oneof_decl[fields[0].oneof_index]
        yield f"oneof {oneof.name} {{"
        yield from _indented(_statements(oneof.options))
        for each in fields:
            yield from _indented(self._field(each, message, labelled=False))
        yield "}"

    def _field(self, field: FieldDescriptorProto, message: DescriptorProto, *, labelled: bool) -> Iterator[str]:
        made = _makes_message(field, message)
        label = self._label(field) if labelled and (made is None or field.type == field.TYPE_GROUP) else ""
        number = f"{field.number}{_field_options(field)}"
        if made is None:
            yield f"{label}{_type(field)} {field.name} = {number};"
        elif field.type == field.TYPE_GROUP:
            yield f"{label}group {made.name} = {number} {{"
            yield from _indented(self._body(made))
            yield "}"
        else:
            yield f"map<{_type(made.field[0])}, {_type(made.field[1])}> {field.name} = {number};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == field.LABEL_REPEATED:
            return "repeated "
        if field.label == field.LABEL_REQUIRED and self._labelled:
            return "required "
        return "optional " if self._labelled or field.proto3_optional else ""

    def _extensions(self, fields: Iterable[FieldDescriptorProto], message: DescriptorProto) -> Iterator[str]:
        for field in fields:
            yield f"extend {field.extendee} {{"
            yield from _indented(self._field(field, message, labelled=True))
            yield "}"


def _makes_message(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    """Return the nested message that a field's own declaration makes: a map's entry, or a group."""
    name = field.type_name.rpartition(".")[2]
    found = next((each for each in message.nested_type if each.name == name), None)
    if found is None or not (found.options.map_entry or field.type == field.TYPE_GROUP):
        return None
    return found


def _together(message: DescriptorProto) -> Iterator[list[FieldDescriptorProto]]:
    """Yield each field with those that are declared with it, in a oneof."""
    opened = set[int]()
    for field in message.field:
        if not _is_in_oneof(field):
            yield [field]
        elif field.oneof_index not in opened:
            opened.add(field.oneof_index)
            yield [each for each in message.field if _is_in_oneof(each) and each.oneof_index == field.oneof_index]


def _is_in_oneof(field: FieldDescriptorProto) -> bool:
    return bool(field.HasField("oneof_index") and not field.proto3_optional)


def _type(field: FieldDescriptorProto) -> str:
    return _SCALARS.get(field.type) or field.type_name


def _field_options(field: FieldDescriptorProto) -> str:
    found = []
    if field.HasField("default_value"):
        found.append(f"default = {_default(field)}")
    if field.HasField("json_name"):
        found.append(f"json_name = {_quoted(field.json_name)}")
    found += [f"{name} = {value}" for name, value in _options(field.options)]
    return f" [{', '.join(found)}]" if found else ""


def _default(field: FieldDescriptorProto) -> str:
    if field.type == field.TYPE_STRING:
        return _quoted(field.default_value)
    return f'"{field.default_value}"' if field.type == field.TYPE_BYTES else field.default_value


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(_statements(enum.options))
    yield from _indented(_reserved(enum.reserved_range, enum.reserved_name, _LARGEST_ENUM_NUMBER, 0, plain=False))
    for value in enum.value:
        options = ", ".join(f"{name} = {each}" for name, each in _options(value.options))
        yield f"  {value.name} = {value.number}{f' [{options}]' if options else ''};"
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _indented(_statements(service.options))
    for each in service.method:
        takes = f"{'stream ' if each.client_streaming else ''}{each.input_type}"
        gives = f"{'stream ' if each.server_streaming else ''}{each.output_type}"
        options = " ".join(_statements(each.options))
        yield f"  rpc {each.name} ({takes}) returns ({gives}){f' {{ {options} }}' if options else ';'}"
    yield "}"


def _reserved(areas: Iterable[Any], names: Iterable[str], largest: int, past_end: int, *, plain: bool) -> Iterator[str]:
    """Yield what is reserved; `past_end` is 1 where a descriptor's ranges end before their end, else 0."""
    numbers = [_range(each.start, each.end - past_end, largest) for each in areas]
    if numbers:
        yield f"reserved {', '.join(numbers)};"
    if names:
        yield f"reserved {', '.join(each if plain else _quoted(each) for each in names)};"


def _range(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= largest else last}"


def _statements(options: Message) -> Iterator[str]:
    return (f"option {name} = {value};" for name, value in _options(options))


def _options(options: Message) -> Iterator[tuple[str, str]]:
    for field, value in options.ListFields():
        if field.name in {"map_entry", "uninterpreted_option"} or field.is_extension:
            continue
        if field.name == "features":
            yield from ((f"features.{name}", each) for name, each in _options(value))
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                yield field.name, _option(field, each)


def _option(field: FieldDescriptor, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
