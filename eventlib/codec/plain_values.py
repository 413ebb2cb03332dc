"""From plain values, as JSON and Protobuf have them, to validated instances of a class.

A field is found by its name or a former one; what the class does not know is left out, as Avro's resolution does it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from eventlib.codec.avro.resolution import each_item, each_value, validator_of
from eventlib.errors import ContractError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.model.schema.types import NULL, Array, Exact, Node, Plain, Record, StringMap, Symbols, Union, name_of

Convert = Callable[[Any], Any]


class OneOf(NamedTuple):
    """A value of a union, with its branch where the format says which one it is."""

    branch: str
    value: Any


def shape_of(record: Record, *, is_json: bool, branch_name: Callable[[Node], str] = name_of) -> Convert:
    """Return the function from a dict of plain values to a validated instance of a record's class.

    With `is_json` bytes are base64, and a union's branch follows from the value's type; else None stands for what was
    not written, too. It raises ValueError, TypeError or Pydantic's ValidationError for what does not fit.
    """
    shapes = _Shapes(is_json=is_json, branch_name=branch_name)
    convert, validate = shapes.record(record), validator_of(record.cls)
    return lambda plain: validate(convert(plain))


def guarded(record: Record, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a function that reads bytes, with whatever they make it raise told as ContractError."""

    def guard(data: bytes) -> Any:
        try:
            return read(data)
        except ContractError:
            raise
        except ValidationError as error:
            raise ContractError(f"{record.name}: {sentence_of(error)}") from error
        except Exception as error:  # bytes from outside may be anything
            raise ContractError(f"{record.name}: the bytes do not fit the schema: {error!s:.300}") from error

    return guard


class _Shapes:
    def __init__(self, *, is_json: bool, branch_name: Callable[[Node], str]) -> None:
        self._is_json = is_json
        self._branch_name = branch_name
        self._records: dict[Record, Convert] = {}

    def of(self, node: Node) -> Convert | None:  # noqa: PLR0911  one answer for each kind
        match node:
            case Plain(python=kind):
                return _base64 if kind is bytes and self._is_json else _checked(kind) if kind in _KINDS else None
            case Symbols(members=members, unknown=unknown):
                return _symbol(members, unknown)
            case Array(items=items):
                return each_item(self.of(items))
            case StringMap(values=values):
                return each_value(self.of(values))
            case Record():
                return self.record(node)
            case Union():
                return self._union(node)
            case _:
                return None

    def record(self, record: Record) -> Convert:
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda raw: convert(raw)  # noqa: PLW0108  made below: it may lead back here
        fields = [
            (field.name, field, not field.fills, _nullable(field.node), self.of(field.node)) for field in record.fields
        ]
        none_is_a_value = self._is_json

        def convert(raw: Any) -> dict[str, Any]:
            if not isinstance(raw, Mapping):
                raise TypeError(f"{record.name} is an object, not {raw!r:.60}")
            made, name = dict[str, Any](), ""
            try:
                for name, field, fills_none, nullable, to in fields:
                    written = name if name in raw else field.written_as(raw)
                    if written is None:
                        if nullable and fills_none:
                            made[name] = None
                        continue
                    value = raw[written]
                    if value is not None:
                        made[name] = value if to is None else to(value)
                    elif nullable or none_is_a_value:
                        made[name] = None
            except (TypeError, ValueError) as error:
                raise ValueError(f"field {record.name}.{name}: {error!s:.200}") from error
            return made

        self._records[record] = convert
        return convert

    def _union(self, union: Union) -> Convert | None:
        if union.optional is not None:
            return self.of(union.optional)  # None does not come here
        branches = [branch for branch in union.branches if branch != NULL]
        by_name = {self._branch_name(branch): (branch, self.of(branch)) for branch in branches}
        by_type = {kind: self._branch_name(branch) for branch in branches for kind in json_types(branch)}

        def convert(value: Any) -> Any:
            name, inner = value if isinstance(value, OneOf) else (by_type.get(value.__class__, ""), value)
            if name not in by_name:
                raise ValueError(f"{inner!r:.60} is not one of {', '.join(by_name)}")
            branch, to = by_name[name]
            made = inner if to is None else to(inner)
            return validator_of(branch.cls)(made) if isinstance(branch, Record) else made

        return convert


def json_types(node: Node) -> tuple[type, ...]:  # noqa: PLR0911  one answer for each kind
    """Return the Python types of a type's values in JSON."""
    match node:
        case Array():
            return (list,)
        case Record() | StringMap():
            return (dict,)
        case Plain(avro="long" | "int", logical=None) | Plain(avro="boolean"):
            return (node.python,)
        case Plain(avro="double"):
            return (int, float)
        case Plain(avro="null"):
            return (type(None),)
        case _ if node.avro == "long" and not isinstance(node, Plain | Exact):
            return (int,)
        case _:
            return (str,)


_KINDS: dict[type, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,), bytes: (bytes,)}


def _checked(kind: type) -> Convert:
    accepted = frozenset(_KINDS[kind])

    def check(value: Any) -> Any:
        if value.__class__ not in accepted:
            raise TypeError(f"{value!r:.60} is not {kind.__name__}")
        return value

    return check


def _nullable(node: Node) -> bool:
    return node == NULL or (isinstance(node, Union) and NULL in node.branches)


def _base64(value: Any) -> bytes:
    return b64decode(value, validate=True)


def _symbol(members: Mapping[str, Any], unknown: str | None) -> Convert:
    def read(value: Any) -> Any:
        found = members.get(value)
        if found is None and unknown is not None and isinstance(value, str):
            found = members[unknown]
        if found is None:
            raise ValueError(f"{value!r:.60} is not one of {', '.join(members)}")
        return found

    return read
