"""Columns decoded at once are what the library's codec reads of each value, and a damaged value is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as s
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.avro_columns import Columns
from analytics.columns import struct_of, values_of
from eventlib.codec.avro.write import writer_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json
from tests.analytics.parcels import Size


@dataclass(frozen=True)
class Part:
    name: str
    metres: float
    of: tuple[int, ...]
    size: Size | None


@dataclass(frozen=True)
class Whole:
    id: str
    number: int
    maybe: int | None
    note: str | None
    is_open: bool
    seal: bytes
    by: UUID
    on: date
    at: time
    moment: datetime
    later: datetime | None
    mode: Literal["air", "sea"]
    size: Size
    first: Part
    other: Part | None
    parts: tuple[Part, ...]
    rows: tuple[tuple[str, ...], ...]


_RECORD = record_of(Whole)
_KINDS = {each.name: each.type for each in to_arrow_schema(struct_of(_RECORD))}
_LONGS = s.integers(-(1 << 63), (1 << 63) - 1)
_TIMES = s.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=s.just(UTC))  # noqa: DTZ001  given by its strategy
_PARTS = s.builds(
    Part,
    name=s.text(max_size=70),
    metres=s.floats(allow_nan=False),
    of=s.lists(_LONGS, max_size=3).map(tuple),
    size=s.sampled_from([None, *Size]),
)
_WHOLES = s.builds(
    Whole,
    number=_LONGS,
    maybe=s.none() | _LONGS,
    on=s.dates(date(1900, 1, 1), date(2200, 1, 1)),
    at=s.times(),
    moment=_TIMES,
    later=s.none() | _TIMES,
    first=_PARTS,
    other=s.none() | _PARTS,
    parts=s.lists(_PARTS, max_size=4).map(tuple),
)
_HEADER = b"\x00\x00\x00\x00\x07"


def written(wholes: Sequence[Whole]) -> list[bytes]:
    put = writer_of(_RECORD, _HEADER)
    return [put(each) for each in wholes]


def read(values: Sequence[bytes | None]) -> tuple[list[bool], dict[str, pa.Array]]:
    whole, fields = Columns(schema_json(_RECORD), _KINDS).read(pa.array(values, pa.binary()), len(_HEADER))
    return whole.tolist(), fields


def rows_of(fields: dict[str, pa.Array]) -> list[tuple[Any, ...]]:
    return list(zip(*(fields[name].to_pylist() for name in _KINDS), strict=True))


def expected(wholes: Sequence[Whole]) -> list[tuple[Any, ...]]:
    columns = zip(*map(values_of(_RECORD), wholes), strict=True)
    return rows_of({name: pa.array(column, _KINDS[name]) for name, column in zip(_KINDS, columns, strict=True)})


@given(s.lists(_WHOLES, min_size=1, max_size=5))
def test_they_are_what_was_written(wholes: list[Whole]) -> None:
    whole, fields = read(written(wholes))
    assert all(whole)
    assert {name: fields[name].type for name in _KINDS} == _KINDS
    assert rows_of(fields) == expected(wholes)


@given(_WHOLES, s.data())
def test_a_value_that_ends_early_or_is_missing_is_none_and_those_beside_it_stay(
    whole: Whole, data: s.DataObject
) -> None:
    (value,) = written([whole])
    end = data.draw(s.integers(0, len(value) - 1))
    flags, fields = read([value, value[:end], None, value])
    assert flags == [True, False, False, True]
    nothing = (None,) * len(_KINDS)
    assert rows_of(fields) == [*expected([whole]), nothing, nothing, *expected([whole])]


@given(s.lists(s.binary(max_size=60), max_size=6))
def test_no_bytes_make_it_fail(values: list[bytes]) -> None:
    flags, fields = read([_HEADER + value for value in values])
    assert len(flags) == len(values)
    assert all(len(column) == len(values) for column in fields.values())
    assert len(rows_of(fields)) == len(values)


def test_a_text_that_is_no_utf_8_is_damaged_and_those_beside_it_are_not() -> None:
    schema = {"type": "record", "name": "Whole", "fields": [{"name": "x", "type": "string"}]}
    values = [b"\x06caf", b"\x04\xe9\xe9", b"\x04\xc3\xa9", b"\x02\xc3", b"\x02\xa9", b"\x00"]
    whole, fields = Columns(schema, {"x": pa.string()}).read(pa.array(values), 0)
    assert whole.tolist() == [True, False, True, False, False, True]
    assert fields["x"].to_pylist() == ["caf", None, "é", None, None, ""]


def test_what_the_writer_did_not_know_is_null_and_what_is_not_wanted_is_passed_over() -> None:
    schema = {
        "type": "record",
        "name": "Whole",
        "fields": [{"name": "x", "type": "string"}, {"name": "number", "type": "long"}],
    }
    whole, fields = Columns(schema, {"number": pa.int64(), "note": pa.string()}).read(pa.array([b"\x04ab\x06"]), 0)
    assert (whole.tolist(), fields["number"].to_pylist(), fields["note"].to_pylist()) == ([True], [3], [None])


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "long"},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        ["null", "long", "string"],
        {"type": "record", "name": "Whole", "fields": [{"name": "of", "type": ["null", "Whole"]}]},
        {"type": "record", "name": "Empty", "fields": []},
    ],
)
def test_other_schemas_are_refused(kind: object) -> None:
    with pytest.raises(ValueError, match=r"columns|itself"):
        Columns({"type": "record", "name": "Other", "fields": [{"name": "a", "type": kind}]}, {})
