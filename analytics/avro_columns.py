"""Avro values as Arrow columns: each field of all rows of a batch at once, with NumPy.

Spark's reader decodes a row at a time. Most fields of events are small numbers and short texts, which costs a fraction so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventlib.model.schema.types import Json

_LAST_ASCII = 127
_MOST_BITS = 63

Ints = npt.NDArray[np.int64]


@dataclass
class Cursor:
    """Where each row of a batch is read next, where it ends, and whether it has been found to be damaged."""

    data: npt.NDArray[np.uint8]
    at: Ints
    end: Ints
    bad: npt.NDArray[np.bool_]

    def of(self, rows: Ints) -> "Cursor":
        """Return a cursor of some rows."""
        return Cursor(self.data, self.at[rows], self.end[rows], self.bad[rows])

    def go_on(self, rows: Ints, after: "Cursor") -> None:
        """Go on where a cursor of some rows is."""
        self.at[rows], self.bad[rows] = after.at, after.bad

    def number(self) -> Ints:
        """Read a number of each row, in Avro's zigzag of seven bits a byte."""
        byte = self._byte(self.at)
        self.at += 1
        found = byte & np.uint64(0x7F)
        more, bits = np.flatnonzero(byte & np.uint64(0x80)), 7
        while len(more) and bits <= _MOST_BITS:
            byte = self._byte(self.at[more])
            self.at[more] += 1
            found[more] |= (byte & np.uint64(0x7F)) << np.uint64(bits)
            more, bits = more[(byte & np.uint64(0x80)) != 0], bits + 7
        self.bad[more] = True
        return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64)

    def span(self) -> tuple[Ints, Ints]:
        """Read the length of bytes, and pass over them; return where they begin, and how many there are."""
        length = self.number()
        self._refuse((length < 0) | (length > self.end - self.at))
        start, length = self.at, np.where(self.bad, 0, length)
        self.at = start + length
        return start, length

    def items(self) -> Ints:
        """Read how many items follow in a block of an array."""
        count = self.number()
        with_size = np.flatnonzero(count < 0)
        if len(with_size):
            part = self.of(with_size)
            part.number()
            self.go_on(with_size, part)
        count = np.abs(count)
        self._refuse((count < 0) | (count > self.end - self.at))  # each has a byte at least
        return np.where(self.bad, 0, count)

    def fixed(self, size: int) -> npt.NDArray[np.uint8]:
        """Read so many bytes of each row."""
        found = self.data.take(self.at[:, None] + np.arange(size), mode="clip")
        self.at += size
        return found

    def which(self, count: int) -> Ints:
        """Read which of so many it is."""
        found = self.number()
        self._refuse((found < 0) | (found >= count))
        return np.where(self.bad, 0, found)

    def _byte(self, at: Ints) -> npt.NDArray[np.uint64]:
        return self.data.take(at, mode="clip").astype(np.uint64)  # a row that is read beyond its end is refused later

    def _refuse(self, wrong: npt.NDArray[np.bool_]) -> None:
        if wrong.any():
            self.bad |= wrong


Read = Callable[[Cursor], pa.Array]


class Columns:
    """Reads values of one schema into columns of those fields that are wanted.

    Raises: ValueError for a schema with anything that this does not read: maps, decimals, fixed types, unions of more than
    one type and null, and types that contain themselves.
    """

    def __init__(self, writer: Json, wanted: Mapping[str, pa.DataType]) -> None:
        named = dict[str, Json]()
        self._fields = [(each["name"], _reader(each["type"], named, ("",))) for each in writer["fields"]]
        self._wanted = wanted

    def read(self, values: pa.Array, skipped: int) -> tuple[npt.NDArray[np.bool_], dict[str, pa.Array]]:
        """Return which binary values are whole, and the fields: NULL in those that are not; `skipped` bytes come first."""
        offsets, data = parts_of(values)
        cursor = Cursor(data, offsets[:-1] + skipped, offsets[1:], np.zeros(len(values), np.bool_))
        found = dict[str, pa.Array]()
        for name, read in self._fields:
            if name in self._wanted:
                found[name] = read(cursor)
            elif _is_text(read):
                cursor.span()
            else:
                read(cursor)
        whole = ~cursor.bad & (cursor.at <= cursor.end)
        for name, column in found.items():
            kind = self._wanted[name]
            found[name] = column if whole.all() else column.take(pa.array(np.arange(len(whole)), mask=~whole))
            found[name] = found[name] if column.type == kind else found[name].cast(kind)
        nothing = {name: pa.nulls(len(values), kind) for name, kind in self._wanted.items() if name not in found}
        return whole, found | nothing


def parts_of(values: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return where each binary value begins and ends, and all bytes: one at least."""
    _, offsets, data = values.buffers()
    whole = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return whole, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


def _reader(schema: Json, named: dict[str, Json], above: tuple[str, ...]) -> Read:
    """Return what reads a schema; `named` are the types that have a name so far, `above` those that this one is in."""
    if isinstance(schema, str) and schema in named:
        if schema in above:
            raise ValueError(f"{schema} contains itself")
        schema = named[schema]
    if isinstance(schema, list):
        return _optional(schema, named, above)
    whole: dict[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    if "namespace" in whole or "." in whole.get("name", ""):
        raise ValueError(f"{whole['name']} is not read by columns: it is in a namespace")
    if "name" in whole:
        named[whole["name"]] = whole
    match whole["type"]:
        case "enum":
            return partial(_read_symbol, symbols=pa.array(whole["symbols"], pa.string()))
        case "array":
            return partial(_read_array, item=_reader(whole["items"], named, above))
        case "record" if whole["fields"]:
            inner = (*above, whole["name"])
            return partial(_read_record, fields={f["name"]: _reader(f["type"], named, inner) for f in whole["fields"]})
        case kind if isinstance(kind, str) and (kind, whole.get("logicalType")) in _PLAIN:
            return _PLAIN[kind, whole.get("logicalType")]
        case _:
            raise ValueError(f"{schema} is not read by columns")


def _optional(branches: list[Json], named: dict[str, Json], above: tuple[str, ...]) -> Read:
    others = [each for each in branches if each != "null"]
    if len(others) != 1 or len(branches) != 2:  # noqa: PLR2004  null and another
        raise ValueError(f"{branches} is not read by columns")
    return partial(_read_optional, inner=_reader(others[0], named, above), there=branches.index(others[0]))


def _is_text(read: Read) -> bool:
    return isinstance(read, partial) and read.func is _read_text


def _read_number(cursor: Cursor, kind: pa.DataType) -> pa.Array:
    found = cursor.number()
    return pa.array(found if kind.bit_width == found.itemsize * 8 else found.astype(np.int32)).view(kind)


def _read_text(cursor: Cursor, kind: pa.DataType) -> pa.Array:
    start, length = cursor.span()
    offsets = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    first = length[0] if len(length) else 0
    if (length == first).all():  # ids, mostly
        places = (start[:, None] + np.arange(first)).ravel()
    else:
        places = np.repeat(start - offsets[:-1], length) + np.arange(offsets[-1])
    data = cursor.data.take(places)
    if kind == pa.string() and data.size and data.max() > _LAST_ASCII:
        cursor.bad |= _are_not_text(data, offsets)
    return pa.Array.from_buffers(kind, len(length), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _are_not_text(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Tell which texts are no UTF-8."""
    found, raw = np.zeros(len(offsets) - 1, np.bool_), data.tobytes()
    for row in np.unique(np.searchsorted(offsets, np.flatnonzero(data > _LAST_ASCII), side="right") - 1):
        try:
            raw[offsets[row] : offsets[row + 1]].decode()
        except UnicodeDecodeError:
            found[row] = True
    return found


def _read_boolean(cursor: Cursor) -> pa.Array:
    return pa.array(cursor.fixed(1)[:, 0] != 0)


def _read_double(cursor: Cursor) -> pa.Array:
    return pa.array(np.ascontiguousarray(cursor.fixed(8)).view("<f8")[:, 0])


def _read_symbol(cursor: Cursor, symbols: pa.Array) -> pa.Array:
    return symbols.take(pa.array(cursor.which(len(symbols))))


def _read_optional(cursor: Cursor, inner: Read, there: int) -> pa.Array:
    is_there = cursor.which(2) == there
    if is_there.all():
        return inner(cursor)
    rows = np.flatnonzero(is_there)
    part = cursor.of(rows)
    found = inner(part)
    cursor.go_on(rows, part)
    return found.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _read_array(cursor: Cursor, item: Read) -> pa.Array:
    count, left = len(cursor.at), cursor.items()
    rows, items = [np.zeros(0, np.int64)], [item(cursor.of(np.zeros(0, np.int64)))]
    while len(active := np.flatnonzero(left)):
        part = cursor.of(active)
        rows.append(active)
        items.append(item(part))
        cursor.go_on(active, part)
        left[active] -= 1
        left[active[part.bad]] = 0
        ended = active[left[active] == 0]
        part = cursor.of(ended)
        left[ended] = part.items()
        cursor.go_on(ended, part)
    owners = np.concatenate(rows)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    order = pa.array(np.argsort(owners, kind="stable"))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.concat_arrays(items).take(order))


def _read_record(cursor: Cursor, fields: Mapping[str, Read]) -> pa.Array:
    columns = [read(cursor) for read in fields.values()]
    return pa.StructArray.from_arrays(columns, names=list(fields))


_PLAIN: Mapping[tuple[str, str | None], Read] = {
    ("boolean", None): _read_boolean,
    ("double", None): _read_double,
    ("int", "date"): partial(_read_number, kind=pa.date32()),
    ("long", None): partial(_read_number, kind=pa.int64()),
    ("long", "time-micros"): partial(_read_number, kind=pa.int64()),
    ("long", "timestamp-micros"): partial(_read_number, kind=pa.timestamp("us", "UTC")),
    ("string", None): partial(_read_text, kind=pa.string()),
    ("string", "uuid"): partial(_read_text, kind=pa.string()),
    ("bytes", None): partial(_read_text, kind=pa.binary()),
}
