"""Which Avro schema reads which, as strictly as Java's SchemaCompatibility, and stricter about logical types.

Source: Apache Avro 1.12 specification, "Schema Resolution" and "Aliases". Java lets a timestamp in milliseconds be
read as one in microseconds, and a decimal with another scale: the bytes fit, and the value is another. Here both are
refused (LOGICAL_TYPE_MISMATCH).
"""

from eventlib.registry.compatibility.base import Incompatibility, Pairs, spend
from eventlib.registry.parsing.avro_types import (
    NO_DEFAULT,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    name_of,
)

_PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""What a type's values may be read as, besides itself."""


def avro_unreadable(reader: Type, writer: Type) -> list[Incompatibility]:
    """Return what keeps a schema from reading another's data."""
    return _Comparison().of(reader, writer, "")


class _Comparison:
    """One comparison of two schemas."""

    def __init__(self) -> None:
        self._pairs = Pairs()

    def of(self, reader: Type, writer: Type, path: str) -> list[Incompatibility]:  # noqa: PLR0911  one answer for each kind
        """Return what is wrong at a path of the reader."""
        spend()
        if isinstance(writer, Union):
            return self._of_union(reader, writer, path)
        match reader, writer:
            case Union(), _:
                return self._into_union(reader, writer, path)
            case Array(), Array():
                return self.of(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.of(reader.values, writer.values, f"{path}/values")
            case Record(), Record():
                return _names(reader, writer, path) or self._records(reader, writer, path)
            case Enum(), Enum():
                return _names(reader, writer, path) or _symbols(reader, writer, path)
            case Fixed(), Fixed():
                return _names(reader, writer, path) or _fixed(reader, writer, path)
            case Primitive(), Primitive():
                return _primitives(reader, writer, path)
        return [_mismatch(reader, writer, path)]

    def _of_union(self, reader: Type, writer: Union, path: str) -> list[Incompatibility]:
        found = list[Incompatibility]()
        for i, branch in enumerate(writer.branches):
            if not isinstance(reader, Union):
                found += self.of(reader, branch, path)
            else:
                found += self._into_union(reader, branch, f"{path}/{i}")
        return found

    def _into_union(self, reader: Union, writer: Type, path: str) -> list[Incompatibility]:
        closest = ""
        for branch in reader.branches:
            found = self.of(branch, writer, path)
            if not found:
                return []
            if name_of(branch) == name_of(writer):
                closest = f" ({found[0].path}: {found[0].message})"
        message = f"no branch of the union reads {name_of(writer)}: keep a branch that does{closest}"
        return [Incompatibility("MISSING_UNION_BRANCH", path or "/", message)]

    def _records(self, reader: Record, writer: Record, path: str) -> list[Incompatibility]:
        def compare() -> list[Incompatibility]:
            return [
                each
                for i, field in enumerate(reader.fields.values())
                for each in self._field(field, writer, f"{path}/fields/{i}")
            ]

        return self._pairs.once((id(reader), id(writer)), compare)

    def _field(self, field: Field, writer: Record, path: str) -> list[Incompatibility]:
        written = next((writer.fields[name] for name in (field.name, *field.aliases) if name in writer.fields), None)
        if written is not None:
            return self.of(field.type, written.type, f"{path}/type")
        if field.default is not NO_DEFAULT:
            return []
        remedy = (
            f"give it a default, or an alias if it was renamed (the writer has {', '.join(writer.fields) or 'none'})"
        )
        message = f"the field {field.name} is not in what was written, and has no default: {remedy}"
        return [Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", path, message)]


def _names(reader: Named, writer: Named, path: str) -> list[Incompatibility]:
    if _short(reader) == _short(writer) or writer.name in reader.aliases:
        return []
    message = f'{reader.name} was {writer.name}: keep the name, or add "aliases": ["{writer.name}"] to it'
    return [Incompatibility("NAME_MISMATCH", f"{path}/name", message)]


def _short(named: Named) -> str:
    return named.name.rpartition(".")[2]


def _symbols(reader: Enum, writer: Enum, path: str) -> list[Incompatibility]:
    missing = [each for each in writer.symbols if each not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    message = f"{reader.name} does not know {', '.join(missing)}: keep the symbols, or give the enum a default"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", message)]


def _fixed(reader: Fixed, writer: Fixed, path: str) -> list[Incompatibility]:
    if reader.size != writer.size:
        message = f"{reader.name} has {reader.size} bytes, and {writer.size} were written: start a new type"
        return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", message)]
    return _logical(reader.logical, writer.logical, path)


def _primitives(reader: Primitive, writer: Primitive, path: str) -> list[Incompatibility]:
    if reader.kind == writer.kind:
        return _logical(reader.logical, writer.logical, path)
    if reader.kind not in _PROMOTIONS.get(writer.kind, ()):
        return [_mismatch(reader, writer, path)]
    return _logical(reader.logical, writer.logical, path)


def _logical(reader: Logical | None, writer: Logical | None, path: str) -> list[Incompatibility]:
    if reader is None or writer is None or reader == writer:
        return []
    message = f"{_shown(writer)} would be read as {_shown(reader)}, with another value: add a new field instead"
    return [Incompatibility("LOGICAL_TYPE_MISMATCH", path or "/", message)]


def _shown(logical: Logical) -> str:
    return f"decimal({logical.precision},{logical.scale})" if logical.name == "decimal" else logical.name


def _mismatch(reader: Type, writer: Type, path: str) -> Incompatibility:
    message = f"{name_of(writer)} cannot be read as {name_of(reader)}: keep the type, or make it a union of both"
    return Incompatibility("TYPE_MISMATCH", path or "/", message)
