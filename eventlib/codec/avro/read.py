"""Functions that read Avro bytes as events and states, compiled once for each pair of writer schema and class."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader
from pydantic import ValidationError

from eventlib.codec.avro.guard import Guard, guard_of
from eventlib.codec.avro.pairing import Pairing, validator_of
from eventlib.codec.avro.quick import Reader, quick_reader_of
from eventlib.codec.avro.types import Json, Record, schema_json, version_in, without_logical_types
from eventlib.codec.avro.upcast import upcasting_reader_of
from eventlib.errors import ContractError
from eventlib.validation import sentence_of

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
