"""The records in batches of an SQLite log as Arrow columns: inflated and decoded many at a time."""

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.schema import STORED, UNREADABLE
from analytics.selection import Selection
from eventlib.log.rules import decode_headers
from eventlib.log.sqlite.packing import contents
from eventlib.log.sqlite.state import OFFSET_BITS
from eventlib.model.record import text_of
from eventlib.values import to_ms

LAST_MS = 1 << 53  # the latest time that still fits in microseconds
_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
_ARROW = to_arrow_schema(STORED)
_NAMES = (
    "recorded_at",
    "key",
    "value",
    "id",
    "type",
    "source",
    "subject",
    "sequence",
    "correlation_id",
    "causation_id",
)
_MORE_NAMES = ("traceparent", "headers")


class Range(NamedTuple):
    """Offsets of one partition, from `first` and before `end`; `number` is its number in the file."""

    number: int
    topic: str
    partition: int
    first: int
    end: int


def unpacked(batch: pa.RecordBatch, place: Range, suspects: Container[int], selection: Selection) -> pa.RecordBatch:
    """Return the selected records in the batches that are rows of the file, but for those whose row is suspect."""
    base = place.number << OFFSET_BITS
    offsets, records = list[int](), list[Sequence[Any]]()
    for position, value in zip(batch["position"].to_pylist(), batch["value"].to_pylist(), strict=True):
        if position - base not in suspects:
            found = contents(position - base, value)
            offsets += found[0]
            records += found[1]
    inside = [place.first <= offset < place.end for offset in offsets] if offsets else []
    if not all(inside):
        offsets = [offset for offset, is_inside in zip(offsets, inside, strict=True) if is_inside]
        records = [record for record, is_inside in zip(records, inside, strict=True) if is_inside]
    rows = _canonical(offsets, records, place)
    return rows if (chosen := _chosen(rows, selection)) is None else rows.filter(chosen)


def _canonical(offsets: Sequence[int], records: Sequence[Sequence[Any]], place: Range) -> pa.RecordBatch:
    columns = dict(zip((*_NAMES, *_MORE_NAMES), zip(*records, strict=True) if records else [()] * 12, strict=True))
    arrays = {
        "topic": pa.repeat(place.topic, len(offsets)),
        "partition": pa.repeat(pa.scalar(place.partition, pa.int32()), len(offsets)),
        "offset": pa.array(offsets, pa.int64()),
        "recorded_at": times_array(pa.array(columns.pop("recorded_at"), pa.int64())),
        "key": text_array(pa.array(columns.pop("key"), pa.binary())),
        "value": pa.array(columns.pop("value"), pa.binary()),
        "sequence": pa.array(columns.pop("sequence"), pa.int64()),
        "headers": headers_array(pa.array(columns.pop("headers"), pa.string())),
        **{name: pa.array(texts, pa.string()) for name, texts in columns.items()},
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in STORED.names], names=STORED.names)


def _chosen(rows: pa.RecordBatch, selection: Selection) -> pa.Array | None:
    """Return which rows are selected by type and time; None for all."""
    masks = list[pa.Array]()
    if selection.types:
        masks.append(pc.is_in(rows["type"], pa.array(selection.types, pa.string())))
    at_ms = pc.divide(rows["recorded_at"].cast(pa.int64()), 1_000)
    if selection.since is not None:
        masks.append(pc.greater_equal(at_ms, to_ms(selection.since)))
    if selection.until is not None:
        masks.append(pc.less(at_ms, to_ms(selection.until)))
    chosen = None
    for mask in masks:
        chosen = mask if chosen is None else pc.and_(chosen, mask)
    return chosen


def times_array(times: pa.Array) -> pa.Array:
    """Return milliseconds as times; those out of range as the last that can be told."""
    return pc.multiply(pc.min_element_wise(pc.max_element_wise(times, -LAST_MS), LAST_MS), 1_000).cast(
        pa.timestamp("us", "UTC")
    )


def text_array(column: pa.Array) -> pa.Array:
    """Return bytes as text; those that are not UTF-8 are escaped, as in a key."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if each is None else text_of(each) for each in column.to_pylist()], pa.string())


def headers_array(texts: pa.Array) -> pa.Array:
    """Return headers from their texts."""
    if texts.null_count == len(texts):  # nearly always
        return pa.array([[]], _HEADERS).take(pa.repeat(0, len(texts)))
    pairs = [_pairs(text) if text else () for text in texts.to_pylist()]
    return pa.array([[{"name": name, "value": value} for name, value in each] for each in pairs], _HEADERS)


def _pairs(text: str) -> tuple[tuple[str, bytes], ...]:
    try:
        return decode_headers(text)
    except (ValueError, TypeError, AttributeError):
        return ((UNREADABLE, text.encode()),)
