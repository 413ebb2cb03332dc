"""What is read by source made for a schema is what fastavro reads, value for value; and nothing else is read."""

import json
from datetime import UTC
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlib.codec.avro.compiled_reader import quick_reader_of

BUSY = settings(suppress_health_check=[HealthCheck.too_slow])  # others may be using the machine
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0))
LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
PLAIN: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("string", st.text()),
    ("bytes", st.binary()),
    ("int", INTS),
    ("long", LONGS),
    ("boolean", st.booleans()),
    ("double", st.floats(allow_nan=False)),
    ("float", st.floats(width=32, allow_nan=False)),
    ({"type": "long", "logicalType": "timestamp-millis"}, TIMES),
    ({"type": "long", "logicalType": "timestamp-micros"}, TIMES),
    ({"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}, st.sampled_from(["red", "blue"])),
    (["null", "string"], st.none() | st.text()),
    (["long", "null"], st.none() | LONGS),
    ({"type": "array", "items": "string"}, st.lists(st.text())),
    ({"type": "map", "values": ["null", "int"]}, st.dictionaries(st.text(), st.none() | INTS)),
    (LINE, st.fixed_dictionaries({"sku": st.text(), "n": INTS})),
    ({"type": "array", "items": LINE}, st.lists(st.fixed_dictionaries({"sku": st.text(), "n": INTS}))),
    (
        {"type": "array", "items": {"type": "array", "items": "long"}},
        st.lists(st.lists(LONGS), max_size=5),
    ),
]


def schema_of(types: list[Any]) -> Any:
    fields = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(types)]
    return parse_schema({"type": "record", "name": "Whole", "fields": fields})


@given(st.data())
@BUSY
def test_what_was_written_is_read_as_fastavro_reads_it(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(PLAIN), max_size=4, unique_by=lambda each: json.dumps(each[0])))
    if sum("Line" in json.dumps(type_) for type_, _ in chosen) > 1:
        return  # a name may be defined once
    schema = schema_of([type_ for type_, _ in chosen])
    value = {f"f{number}": data.draw(values) for number, (_, values) in enumerate(chosen)}
    body = BytesIO()
    schemaless_writer(body, schema, value)
    read = quick_reader_of(schema)
    assert read is not None
    written = b"header" + body.getvalue() + b"rest"
    assert read(written, 6) == (schemaless_reader(BytesIO(body.getvalue()), schema, None), len(written) - 4)


@given(st.binary(max_size=40), st.sampled_from(PLAIN))
@BUSY
def test_whatever_the_bytes_are_it_reads_what_fastavro_does_or_nothing(body: bytes, plain: tuple[Any, Any]) -> None:
    schema = schema_of([plain[0], "long"])
    read = quick_reader_of(schema)
    assert read is not None
    try:
        value, end = read(body, 0)
    except Exception:  # noqa: BLE001  whatever the bytes make it raise, the codec says that they do not fit
        return
    assert end <= len(body)
    assert repr(value) == repr(schemaless_reader(BytesIO(body), schema, None))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x06ab",  # a string that is cut off
        b"\x05abc",  # a negative length
        b"\xff" * 12,  # a number without end
        b"\x04\xff\xfe",  # no UTF-8
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a string as long as the world
    ],
)
def test_bytes_that_do_not_fit_are_refused(body: bytes) -> None:
    read = quick_reader_of(schema_of(["string"]))
    assert read is not None
    with pytest.raises((IndexError, ValueError)):
        read(body, 0)


@pytest.mark.parametrize("claimed", [b"\x7e", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x01\x00", b"\x7d\x7e"])
def test_an_array_cannot_claim_more_items_than_there_are_bytes(claimed: bytes) -> None:
    read = quick_reader_of(schema_of([{"type": "array", "items": "long"}]))
    assert read is not None
    with pytest.raises((IndexError, ValueError)):
        read(claimed + b"\x02", 0)


@pytest.mark.parametrize(
    "type_",
    [
        ["null", "string", "int"],
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
        {"type": "int", "logicalType": "date"},
        {"type": "fixed", "name": "Four", "size": 4},
        {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]},
    ],
)
def test_what_is_not_plain_is_left_to_fastavro(type_: Any) -> None:
    assert quick_reader_of(schema_of([type_])) is None


def test_a_name_that_was_defined_before_is_read_again() -> None:
    schema = schema_of([LINE, "Line"])
    body = BytesIO()
    value = {"f0": {"sku": "a", "n": 1}, "f1": {"sku": "b", "n": -2}}
    schemaless_writer(body, schema, value)
    read = quick_reader_of(schema)
    assert read is not None
    assert read(body.getvalue(), 0) == (value, len(body.getvalue()))
