"""Readers of events and states, compiled once for each pair of writer schema and class; upcasters included."""

from collections.abc import Callable, Iterable
from io import BytesIO
from operator import itemgetter
from typing import Any

from fastavro import parse_schema, schemaless_reader
from pydantic import ValidationError

from eventlib.codec.avro.bounds_check import Guard, guard_of
from eventlib.codec.avro.compiled_reader import Reader, quick_reader_of
from eventlib.codec.avro.plain import plain_reader
from eventlib.codec.avro.resolution import Pairing, validator_of
from eventlib.errors import ContractError, WiringError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.model.evolution import Upcaster, upcasters_of
from eventlib.model.kept_error import kept_reason
from eventlib.model.personal import is_personal
from eventlib.model.schema.types import (
    Array,
    Json,
    Node,
    Record,
    StringMap,
    Symbols,
    Union,
    schema_json,
    version_in,
    without_logical_types,
)


def upcasting_reader_of(record: Record, writer: Json, header_bytes: int) -> Callable[[bytes], Any]:
    """Return the function that reads what an earlier version of a class's contract has written, behind a header.

    It raises ContractError for bytes that cannot be read, whatever an upcaster does with them.
    Raises: ContractError when a newer version than the class's has written.
    """
    finish = upcast_from(record, version_in(writer))
    try:
        read_plain = plain_reader(writer)
    except WiringError as error:
        raise ContractError(f"{record.name} cannot be read from the schema that wrote it: {error}") from error

    def read(data: bytes) -> Any:
        try:
            plain = read_plain(data[header_bytes:])
        except ContractError as error:
            raise ContractError(f"{record.name}: {error}") from error
        return finish(plain)

    return read


def upcast_from(record: Record, written: int) -> Callable[[dict[str, Any]], Any]:
    """Return the function from what a version of a contract has written, as plain values, to an instance of the class.

    It raises ContractError, whatever an upcaster does. Raises: ContractError when the version is newer than the class.
    """
    if written > record.version:
        raise ContractError(
            f"{record.name}: version {written} of its contract has written this, and this code knows version "
            f"{record.version}: deploy the newer code here too"
        )
    validate, cls = validator_of(record.cls), record.cls

    def finish(plain: dict[str, Any]) -> Any:
        try:
            return validate(_with_members(record, upcast(cls, plain, written)))
        except ValidationError as error:
            raise ContractError(f"{record.name}, upcast from version {written}: {sentence_of(error)}") from error

    return finish


def upcast(cls: type[Any], fields: dict[str, Any], written: int) -> dict[str, Any]:
    """Return what a version of a contract has written as fields of the class's own version. Raises: ContractError."""
    for version, upcaster in _from(cls, written):
        try:
            fields = upcaster(fields)
        except Exception as error:  # an upcaster of the application's own
            why = kept_reason(error, personal=is_personal(cls))
            raise ContractError(f"{cls.__name__}: the upcaster for version {version} raised {why:.200}") from error
        if not isinstance(fields, dict):
            raise ContractError(f"{cls.__name__}: the upcaster for version {version} returned {fields!r:.60}, no dict")
    return fields


def _from(cls: type[Any], written: int) -> Iterable[tuple[int, Upcaster]]:
    return sorted((item for item in upcasters_of(cls).items() if item[0] >= written), key=itemgetter(0))


def _with_members(node: Node, value: Any) -> Any:
    """Return plain values with the members of enums in the place of their symbols, as the class has them."""
    match node, value:
        case Symbols(members=members), str():
            return members.get(value, value)
        case Array(items=items), list() | tuple():
            return [_with_members(items, each) for each in value]
        case StringMap(values=values), dict():
            return {key: _with_members(values, each) for key, each in value.items()}
        case Union(), _:
            inner = node.optional
            return value if inner is None or value is None else _with_members(inner, value)
        case Record(fields=fields), dict():
            kinds = {field.name: field.node for field in fields}
            return {key: _with_members(kinds[key], each) if key in kinds else each for key, each in value.items()}
        case _:
            return value


_DECIMAL = frozenset(
    {"decimal"}
)  # these are converted here, since fastavro's way takes minutes for a megabyte of digits


def reader_of(record: Record, writer: Json, header_bytes: int) -> Callable[[bytes], Any]:
    """Return the function that reads what a schema has written, behind a header, as validated values of a class.

    It raises ContractError for bytes that cannot be read. A schema that equals the class's own needs no resolution;
    one of an earlier version of its contract is read by its upcasters.
    Raises: ContractError when the class cannot be read from that schema at all.
    """
    if version_in(writer) != record.version:
        return upcasting_reader_of(record, writer, header_bytes)
    try:
        written = parse_schema(without_logical_types(writer, _DECIMAL))
        pairing = Pairing(record, parse_schema(writer))
        same = _essence(writer) == _essence(schema_json(record))
        wanted = None if same else parse_schema(without_logical_types(pairing.wanted(record), _DECIMAL))
        convert = pairing.convert(record)
        guard = guard_of(written, always=not same)
    except ContractError:
        raise
    except Exception as error:  # a schema on the log may be anything
        raise ContractError(f"{record.name} cannot be read from the schema that wrote it: {error!s:.300}") from error
    plain = same and guard is None and not pairing.named
    raw_of = (quick_reader_of(written) if plain else None) or _fastavro(written, wanted, guard, named=pairing.named)
    validate = validator_of(record.cls)

    def read(data: bytes) -> Any:
        try:
            raw, end = raw_of(data, header_bytes)
            if end != len(data):
                raise ValueError(f"{len(data) - end} bytes are left over")  # noqa: TRY301  a call more is felt here
            return validate(raw if convert is None else convert(raw))
        except ValidationError as error:
            raise ContractError(f"{record.name}: {sentence_of(error)}") from error
        except Exception as error:  # bytes from outside can raise anything in fastavro
            raise ContractError(f"{record.name}: the bytes do not fit the schema: {_reason(error)}") from error

    return read


def _fastavro(written: Json, wanted: Json | None, guard: Guard | None, *, named: bool) -> Reader:
    """Return the reader of whatever a schema has written, resolved to the schema that is wanted."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if guard is not None:
            guard(data, at)
        body = BytesIO(data)
        body.seek(at)
        raw = schemaless_reader(body, written, wanted, return_named_type=named)
        return raw, body.tell()

    return read


def _essence(schema: Json) -> Json:
    """Return what decides how bytes are read: a schema without docs, defaults and former names."""
    if isinstance(schema, list):
        return [_essence(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name not in {"doc", "default", "aliases"}}
    return {name: _essence(value) for name, value in kept.items()}


def _reason(error: Exception) -> str:
    return f"{error!s:.300}" or type(error).__name__
