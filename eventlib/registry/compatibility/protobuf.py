"""Which Protocol Buffers schema reads which, by Confluent's published rules.

Fields are known by their numbers and messages by their names. Besides the published rules, a field that becomes
required is refused, since who wrote before may have left it out; so is a number that its reserved range had retired.
Source: Confluent Schema Registry documentation, "Protobuf compatibility rules"; Protocol Buffers, "Updating A Message
Type".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from eventlib.registry.compatibility.base import Found, Incompatibility, Pairs, spend
from eventlib.registry.parsing.protobuf import Files, enums_of, messages_of

_F = FieldDescriptorProto
_GROUPS = {
    "int32, int64, uint32, uint64, bool or an enum": {
        _F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM,
    },
    "sint32 or sint64": {_F.TYPE_SINT32, _F.TYPE_SINT64},
    "string or bytes": {_F.TYPE_STRING, _F.TYPE_BYTES},
    "fixed32 or sfixed32": {_F.TYPE_FIXED32, _F.TYPE_SFIXED32},
    "fixed64 or sfixed64": {_F.TYPE_FIXED64, _F.TYPE_SFIXED64},
    "float": {_F.TYPE_FLOAT},
    "double": {_F.TYPE_DOUBLE},
}  # fmt: skip
_SCALARS = {each: group for group, types in _GROUPS.items() for each in types}
_TEXTS = frozenset({_F.TYPE_STRING, _F.TYPE_BYTES})


def protobuf_unreadable(reader: Files, writer: Files) -> list[Incompatibility]:
    """Return what keeps a schema from reading another's data."""
    return _Comparison(_Side.of(writer), _Side.of(reader)).files()


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two schemas: its own file, and the messages of all its files by full name."""

    file: FileDescriptorProto
    messages: Mapping[str, tuple[str, DescriptorProto]]

    @classmethod
    def of(cls, files: Files) -> "_Side":
        main = files.file()
        found = {
            f".{each.package}.{name}" if each.package else f".{name}": (name, message)
            for each in [*files.imports(), main]
            for name, message in messages_of(each)
        }
        return cls(main, found)

    def map_entry(self, field: FieldDescriptorProto) -> DescriptorProto | None:
        """Return the entry that a field is a map of, or None."""
        found = self.messages.get(field.type_name)
        return found[1] if found is not None and found[1].options.map_entry else None


class _Comparison:
    """One comparison: `old` is who wrote, `new` is who reads."""

    def __init__(self, old: _Side, new: _Side) -> None:
        self._old, self._new = old, new
        self._pairs = Pairs()

    def files(self) -> Found:
        found = Found()
        if self._old.file.package != self._new.file.package:
            was, now = self._old.file.package, self._new.file.package
            message = f"the package was {was or 'none'} and is {now or 'none'}: keep it, or start a new subject"
            found.append(Incompatibility("PACKAGE_CHANGED", "#/", message))
        has = {name: each for name, each in messages_of(self._new.file) if not each.options.map_entry}
        for name, message in messages_of(self._old.file):
            if message.options.map_entry:
                continue
            if name in has:
                found += self._messages(name, message, has[name])
            elif name.rpartition(".")[0] in has or "." not in name:  # else its parent's removal reports it
                reason = f"the message {name} was there: keep it, so that what was written with it can be read"
                found.append(Incompatibility("MESSAGE_REMOVED", f"#/{name}", reason))
        return found + self._kinds()

    def _kinds(self) -> Found:
        """Return the names that were an enum and are a message now; the other way round, the message is removed."""
        now = {name for name, _ in messages_of(self._new.file)}
        return [
            Incompatibility("ENUM_REMOVED", f"#/{name}", f"{name} was an enum and is a message: choose another name")
            for name, _ in enums_of(self._old.file)
            if name in now
        ]

    def _messages(self, name: str, old: DescriptorProto, new: DescriptorProto) -> Found:
        return self._pairs.once((id(old), id(new)), lambda: self._compare(name, old, new))

    def _compare(self, name: str, old: DescriptorProto, new: DescriptorProto) -> Found:
        had, has = ({each.number: each for each in message.field} for message in (old, new))
        found = _oneofs(name, old, new)
        for number in sorted(had.keys() | has.keys()):
            path = f"#/{name}/{number}"
            if number not in has:
                found += _removed(path, had[number], old, new)
            elif number not in had:
                found += _added(path, has[number], old)
            else:
                found += self._fields(path, had[number], has[number])
        return found

    def _fields(self, path: str, old: FieldDescriptorProto, new: FieldDescriptorProto) -> Found:
        spend()
        entries = self._old.map_entry(old), self._new.map_entry(new)
        if entries[0] is not None and entries[1] is not None:
            return [
                each
                for i, part in enumerate(("key", "value"))
                for each in self._types(f"{path}/{part}", entries[0].field[i], entries[1].field[i])
            ]
        if entries != (None, None):
            message = f"the field {new.name} {'was' if entries[0] else 'is now'} a map: add a new field instead"
            return [Incompatibility("FIELD_KIND_CHANGED", path, message)]
        return self._types(path, old, new) or _labels(path, old, new)

    def _types(self, path: str, old: FieldDescriptorProto, new: FieldDescriptorProto) -> Found:
        was, now = _SCALARS.get(old.type), _SCALARS.get(new.type)
        if was != now or (was is None and old.type != new.type):
            rule = "FIELD_SCALAR_KIND_CHANGED" if was and now else "FIELD_KIND_CHANGED"
            message = f"{new.name} was {was or 'a message'} and is {now or 'a message'}: add a new field instead"
            return [Incompatibility(rule, path, message)]
        return [] if was else self._message_types(path, old, new)

    def _message_types(self, path: str, old: FieldDescriptorProto, new: FieldDescriptorProto) -> Found:
        was, now = self._old.messages.get(old.type_name), self._new.messages.get(new.type_name)
        if was is None or now is None or was[0] != now[0]:
            message = f"{new.name} was {old.type_name[1:]} and is {new.type_name[1:]}: add a new field instead"
            return [Incompatibility("FIELD_NAMED_TYPE_CHANGED", path, message)]
        found = self._messages(was[0], was[1], now[1])
        if not found:
            return []
        message = f"what {new.name} is made of cannot be read any more: see {found[0].path}"
        return [*found, Incompatibility("FIELD_NAMED_TYPE_CHANGED", path, message)]


def _labels(path: str, old: FieldDescriptorProto, new: FieldDescriptorProto) -> Found:
    if new.label == _F.LABEL_REQUIRED and old.label != _F.LABEL_REQUIRED:
        message = f"{new.name} was not required, and may be missing in what was written: leave it optional"
        return [Incompatibility("REQUIRED_FIELD_ADDED", path, message)]
    repeated = old.label == _F.LABEL_REPEATED, new.label == _F.LABEL_REPEATED
    if repeated[0] != repeated[1] and old.type in _SCALARS and old.type not in _TEXTS:
        message = f"{new.name} {'was' if repeated[0] else 'is now'} repeated: add a new field instead"
        return [Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path, message)]
    return []


def _removed(path: str, field: FieldDescriptorProto, old: DescriptorProto, new: DescriptorProto) -> Found:
    if field.label == _F.LABEL_REQUIRED:
        message = f"{field.name} was required, and who wants it cannot read without it: keep it"
        return [Incompatibility("REQUIRED_FIELD_REMOVED", path, message)]
    oneof = _oneof(field, old)
    if oneof is not None and any(each.name == oneof for each in new.oneof_decl):
        message = f"{field.name} was one of {oneof}: keep it, so that it is not taken for none of them"
        return [Incompatibility("ONEOF_FIELD_REMOVED", path, message)]
    return []


def _added(path: str, field: FieldDescriptorProto, old: DescriptorProto) -> Found:
    if field.label == _F.LABEL_REQUIRED:
        message = f"{field.name} is required, and missing in what was written: make it optional"
        return [Incompatibility("REQUIRED_FIELD_ADDED", path, message)]
    if any(each.start <= field.number < each.end for each in old.reserved_range):
        message = (
            f"the number {field.number} was reserved, and may stand in older data for something else: take a new one"
        )
        return [Incompatibility("FIELD_NUMBER_REUSED", path, message)]
    return []


def _oneofs(name: str, old: DescriptorProto, new: DescriptorProto) -> Found:
    """Return the fields that exclude each other now and did not before."""
    before = {field.number: _oneof(field, old) for field in old.field}
    found = Found()
    for i, oneof in enumerate(new.oneof_decl):
        inside = [
            each.number
            for each in new.field
            if each.HasField("oneof_index") and each.oneof_index == i and not each.proto3_optional
        ]
        moved = [each for each in inside if each in before and before[each] is None]
        others = {before[each] for each in inside if before.get(each) is not None}
        path = f"#/{name}/{oneof.name}"
        if len(moved) > 1 or len(others) > 1:
            message = f"{oneof.name} holds fields that could be there together: start with new fields in it"
            found.append(Incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", path, message))
        elif moved and others:
            message = f"a field moved into {oneof.name}, with which it could be there together: add a new one to it"
            found.append(Incompatibility("FIELD_MOVED_TO_EXISTING_ONEOF", path, message))
    return found


def _oneof(field: FieldDescriptorProto, message: DescriptorProto) -> str | None:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)
