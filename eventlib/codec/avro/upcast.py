"""Functions that read what an earlier version of a contract has written, through the upcasters of its class."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from eventlib.codec.avro.pairing import validator_of
from eventlib.codec.avro.plain import plain_reader
from eventlib.codec.avro.types import Array, Json, Node, Record, StringMap, Symbols, Union, version_in
from eventlib.errors import ContractError, WiringError
from eventlib.evolution import Upcaster, upcasters_of
from eventlib.validation import sentence_of


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
        except Exception as error:  # an upcaster of somebody's own
            raise ContractError(
                f"{cls.__name__}: the upcaster for version {version} raised {type(error).__name__}: {error!s:.200}"
            ) from error
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
