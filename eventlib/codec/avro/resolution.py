"""What is left to do between fastavro's result and Pydantic's validation, for one writer schema and one class.

fastavro resolves the writer's schema to the class's. This adds what it leaves open: a decimal's scale is the writer's;
a union's record or enum becomes an instance, so that Pydantic need not guess which one was meant; and a field that
the writer did not know is filled in by the class itself.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from functools import partial
from typing import Any, cast
from uuid import UUID

from pydantic import TypeAdapter

from eventlib.errors import ContractError
from eventlib.model.schema.normal import validating
from eventlib.model.schema.scalars import Convert, exact_reader
from eventlib.model.schema.types import (
    NO_DEFAULT,
    NULL,
    Array,
    Exact,
    Field,
    Json,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    name_of,
    nodes_in,
    schema_json,
)

_LOGICAL: dict[type, frozenset[str]] = {
    datetime: frozenset({"timestamp-millis", "timestamp-micros"}),
    date: frozenset({"date"}),
    time: frozenset({"time-millis", "time-micros"}),
}
_CLASSES: dict[str, type] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes,
    "string": str, "array": list, "map": dict, "record": dict, "enum": str, "fixed": bytes,
    "timestamp-millis": datetime, "timestamp-micros": datetime, "date": date, "time-millis": time, "time-micros": time,
    "uuid": UUID,
}  # fmt: skip


def validator_of(cls: type) -> Callable[[Any], Any]:
    """Return the function that makes a validated instance of a class from fastavro's dict.

    Lax and by name: an Avro list becomes the tuple that the field wants, and a field has no alias on the wire.
    """
    validate = partial(TypeAdapter(cls).validator.validate_python, strict=False, by_alias=False, by_name=True)
    ends = None if hasattr(cls, "__contract__") else validating(cls)  # an event's validation ends with it already
    return validate if ends is None else lambda raw: ends(validate(raw))


class Pairing:
    """A class and the schema that its values were written with.

    `absent` names the fields, by record, that the writer did not know; `named` tells whether fastavro has to say
    which branch of a union it has read. Raises: ContractError when the class cannot be read from the schema.
    """

    def __init__(self, root: Record, writer: Json) -> None:
        self._writer = writer
        self._written = {schema["name"]: schema for schema in _named_in(writer)}
        self._by_short_name = {name.rpartition(".")[2]: schema for name, schema in self._written.items()}
        self._records: dict[tuple[int, str, bool], Convert | None] = {}
        nodes = list(nodes_in(root))
        self.named = any(isinstance(node, Union) and _is_mixed(node) for node in nodes)
        self.absent = {node.name: self._absent_of(node) for node in nodes if isinstance(node, Record)}

    def convert(self, root: Record) -> Convert | None:
        """Return the converter from fastavro's result to what is validated; None when there is nothing to do."""
        return self._of(self._writer, root, final=False)

    def wanted(self, root: Record) -> Json:
        """Return the schema to resolve the writer's to: the class's, without what the writer does not have.

        Of a field's former names only the one stays that was written: fastavro fails on a writer with two of them.
        """
        schema = schema_json(root, self.absent)
        for each in _named_in(schema):
            written = self._by_short_name.get(each["name"], {})
            names = {field["name"] for field in written.get("fields", ())}
            for field in each.get("fields", ()):
                former = [] if field["name"] in names else [n for n in field.pop("aliases", ()) if n in names]
                field.pop("aliases", None)
                if former:
                    field["aliases"] = former[:1]
        return schema

    def _absent_of(self, record: Record) -> frozenset[str]:
        written = self._by_short_name.get(record.name)
        if written is None:
            return frozenset()
        known = {field["name"] for field in written["fields"]} if "fields" in written else set[str]()
        absent = [field for field in record.fields if field.written_as(known) is None]
        for field in absent:
            if not field.fills and field.default is NO_DEFAULT:
                raise ContractError(
                    f"{record.name}.{field.name} is not in the schema that wrote the bytes; give it a default, or its former name as an alias"
                )
        return frozenset(field.name for field in absent)

    def _of(self, schema: Json, node: Node, *, final: bool) -> Convert | None:  # noqa: PLR0911  one answer for each kind
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._union(schema, node, final=final)
        match node:
            case Union():
                branch = self._branch_for(schema, node)
                return None if branch is None else self._of(schema, branch, final=_is_mixed(node))
            case Exact():
                return _exact(schema)
            case Plain(python=kind) if kind in _LOGICAL and _logical(schema) not in _LOGICAL[kind]:
                raise ContractError(f"{kind.__name__} cannot be read from {schema}, which has no such logical type")
            case Symbols(members=members):
                return members.__getitem__
            case Array(items=items) if _kind(schema) == "array":
                return each_item(self._of(schema["items"], items, final=final))
            case StringMap(values=values) if _kind(schema) == "map":
                return each_value(self._of(schema["values"], values, final=final))
            case Record() if _kind(schema) == "record":
                return self._record(schema, node, final=final)
            case _:
                return None

    def _record(self, schema: Json, record: Record, *, final: bool) -> Convert | None:
        key = (id(record), schema["name"], final)
        if key in self._records:
            # Known already, or still being made further up: then it recurses, and is looked up when it runs.
            return lambda raw: raw if (found := self._records[key]) is None else found(raw)
        self._records[key] = None
        types = {field["name"]: field["type"] for field in schema["fields"]}
        written = [(f, name) for f in record.fields if (name := f.written_as(types)) is not None]
        found = [(f.name, self._field(types[name], f, record)) for f, name in written]
        changes = [(name, to) for name, to in found if to is not None]
        known = {f.name for f, _ in written}
        nulls = [f.name for f in record.fields if f.name not in known and not f.fills]
        validate = validator_of(record.cls) if final else None
        if not changes and not nulls and validate is None:
            return None

        def convert(raw: dict[str, Any]) -> object:
            for name, to in changes:
                raw[name] = to(raw[name])
            for name in nulls:
                raw[name] = None
            return raw if validate is None else validate(raw)

        self._records[key] = convert
        return convert

    def _field(self, schema: Json, field: Field, record: Record) -> Convert | None:
        try:
            return self._of(schema, field.node, final=False)
        except ContractError as error:
            raise ContractError(f"{record.name}.{field.name}: {error}") from error

    def _union(self, schemas: list[Json], node: Node, *, final: bool) -> Convert | None:
        """Return the converter of what was written as a union; a named branch may come as (name, value)."""
        by_class, by_name = dict[type, Convert | None](), dict[str, Convert | None]()
        for each in map(self._resolved, schemas):
            target = self._branch_for(each, node) if isinstance(node, Union) else _target(each, node)
            mixed = final or (isinstance(node, Union) and _is_mixed(node))
            to = None if target is None else self._of(each, target, final=mixed)
            if self.named and isinstance(each, dict) and "name" in each:
                by_name[each["name"]] = to
                if target is not None:
                    by_name[name_of(target)] = to
            else:
                by_class[_class_of(each)] = to
        if not self.named and not any(by_class.values()):
            return None

        def convert(raw: Any) -> object:
            if raw.__class__ is tuple:
                name, raw = raw
                to = by_name[name]
            else:
                to = by_class[raw.__class__]
            return raw if to is None else to(raw)

        return convert

    def _branch_for(self, schema: Json, union: Union) -> Node | None:
        kind = _kind(schema)
        short = schema["name"].rpartition(".")[2] if kind in {"record", "enum"} else kind
        return next((branch for branch in union.branches if name_of(branch) == short), None)

    def _resolved(self, schema: Json) -> Json:
        if isinstance(schema, str):
            return self._written.get(schema, schema)
        if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
            return self._resolved(schema["type"])
        return schema


def _target(schema: Json, node: Node) -> Node | None:
    return None if _kind(schema) == "null" else node


def _exact(schema: Json) -> Convert:
    if _logical(schema) != "decimal":
        raise ContractError(f"a decimal cannot be read from {schema}, whose scale is unknown")
    return exact_reader(schema["precision"], schema.get("scale", 0))


def each_item(convert: Convert | None) -> Convert | None:
    """Return the converter of a list, given that of its items."""
    return None if convert is None else lambda raw: [convert(item) for item in raw]


def each_value(convert: Convert | None) -> Convert | None:
    """Return the converter of a map, given that of its values."""
    return None if convert is None else lambda raw: {key: convert(item) for key, item in raw.items()}


def _kind(schema: Json) -> str:
    return cast("str", schema if isinstance(schema, str) else schema["type"])


def _class_of(schema: Json) -> type:
    return _CLASSES.get(_logical(schema) or "", _CLASSES[_kind(schema)])


def _logical(schema: Json) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def _is_mixed(union: Union) -> bool:
    """Tell whether a union has a record or an enum beside something else than null."""
    named = any(isinstance(branch, Record | Symbols) for branch in union.branches)
    return named and sum(branch != NULL for branch in union.branches) > 1


def _named_in(schema: Json) -> Iterator[Json]:
    if isinstance(schema, list):
        for each in schema:
            yield from _named_in(each)
    elif isinstance(schema, dict):
        if "name" in schema:
            yield schema
        for each in schema.get("fields", []):
            yield from _named_in(each["type"])
        for part in ("type", "items", "values"):
            yield from _named_in(schema.get(part))
