"""Walks Avro bytes before fastavro reads them, where a few hostile bytes could make it recurse or loop without end.

fastavro reads from the C stack, so a chain of ten thousand nested records ends the process; an array whose items take
no bytes may claim to have 2^62 of them; records of records that take no bytes double with each level, so that a schema of
a few lines makes 2^30 values of one byte; and what a resolution skips, it skips without looking at lengths.
Source: Apache Avro 1.12 specification, "Binary Encoding".
"""

from collections.abc import Callable

from eventlib.codec.avro.scalars import long_at
from eventlib.model.schema.types import Json

MAX_DEPTH = 200
"""The deepest nesting of records that is written or read; Pydantic refuses a little more than that."""

MAX_EMPTY = 100_000
"""How many values that take no bytes (nulls, and records of them) one value may hold, beside one for each of its bytes."""

Guard = Callable[[bytes, int], None]
_Walk = Callable[[bytes, int, int], int]

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_MANY = 1_000
"""A class with more fields than that which take no bytes is read with the check, too."""


def guard_of(schema: Json, *, always: bool = False) -> Guard | None:
    """Return a check of bytes from a position to their end; None when a schema needs none and not `always`.

    `schema` is one that fastavro has parsed, so that names are full. The check raises ValueError for bytes that do
    not fit.
    """
    walks = _Walks()
    walk = walks.of(schema)
    if not (always or walks.dangerous):
        return None

    def guard(data: bytes, start: int) -> None:
        walks.left = MAX_EMPTY + len(data)
        end = walk(data, start, 0)
        if end != len(data):
            raise ValueError(f"{len(data) - end} bytes are left over")

    return guard


class _Walks:
    """The walkers of one schema's types. `dangerous` tells whether bytes could recurse, or claim endless values.

    `left` is how many values that take no bytes the walk may still meet.
    """

    def __init__(self) -> None:
        self._named: dict[str, _Walk] = {}
        self._empty: dict[str, int] = {}
        self.dangerous = False
        self.left = 0

    def of(self, schema: Json) -> _Walk:  # noqa: PLR0911  one answer for each kind
        if isinstance(schema, list):
            return _union([self.of(each) for each in schema])
        if isinstance(schema, str):
            return self._by_name(schema)
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return self._keep(schema, _enum(len(schema["symbols"])), empty=0)
            case "fixed":
                return self._keep(schema, _fixed(schema["size"]), empty=int(schema["size"] == 0))
            case "array":
                return self._array(schema["items"])
            case "map":
                return _blocks(_entry(self.of(schema["values"])))
            case inner:
                return self.of(inner)

    def _by_name(self, name: str) -> _Walk:
        if name in _SIZES:
            return _fixed(_SIZES[name])
        if name in {"int", "long"}:
            return lambda data, at, _: long_at(data, at)[1]
        if name in {"bytes", "string"}:
            return _text
        if name not in self._named:
            self.dangerous = True  # its own definition is still open: it recurses
        return lambda data, at, depth: self._named[name](data, at, depth)  # noqa: PLW0108  made later

    def _record(self, schema: Json) -> _Walk:
        self._empty[schema["name"]] = 0
        walks = [(self.of(field["type"]), self._empty_in(field["type"])) for field in schema["fields"]]
        fields = [walk for walk, empty in walks if not empty]
        empties = sum(empty for _, empty in walks)
        self.dangerous = self.dangerous or empties > _MANY

        def walk(data: bytes, at: int, depth: int) -> int:
            if depth >= MAX_DEPTH:
                raise ValueError(f"records are nested more than {MAX_DEPTH} deep")
            if empties:
                self._spend(empties)
            for field in fields:
                at = field(data, at, depth + 1)
            return at

        return self._keep(schema, walk, empty=0 if fields else 1 + empties)

    def _keep(self, schema: Json, walk: _Walk, *, empty: int) -> _Walk:
        self._named[schema["name"]] = walk
        self._empty[schema["name"]] = empty
        return walk

    def _spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise ValueError(f"it claims more than {MAX_EMPTY} values that take no bytes")

    def _array(self, items: Json) -> _Walk:
        item = self.of(items)
        empty = self._empty_in(items)
        if not empty:
            return _blocks(item)
        self.dangerous = True

        def walk(data: bytes, at: int, _: int) -> int:
            count, at = _block(data, at)
            while count:
                self._spend(count * empty)
                count, at = _block(data, at)
            return at

        return walk

    def _empty_in(self, schema: Json) -> int:
        """Return how many values a value of a type consists of that takes no bytes; 0 for a type that takes some."""
        if isinstance(schema, list):
            return 0
        if isinstance(schema, str):
            return self._empty.get(schema, int(schema == "null"))
        kind = schema["type"]
        if kind in {"record", "error", "enum", "fixed"}:
            return self._empty[schema["name"]]
        return 0 if kind in {"array", "map"} else self._empty_in(kind)


def _text(data: bytes, at: int, _: int) -> int:
    length, at = long_at(data, at)
    if not 0 <= length <= len(data) - at:
        raise ValueError(f"a length of {length}, but {len(data) - at} bytes are left")
    return at + length


def _fixed(size: int) -> _Walk:
    def walk(data: bytes, at: int, _: int) -> int:
        if size > len(data) - at:
            raise ValueError(f"{size} bytes expected, but {len(data) - at} are left")
        return at + size

    return walk


def _enum(symbols: int) -> _Walk:
    def walk(data: bytes, at: int, _: int) -> int:
        index, at = long_at(data, at)
        if not 0 <= index < symbols:
            raise ValueError(f"symbol {index} of {symbols}")
        return at

    return walk


def _union(branches: list[_Walk]) -> _Walk:
    def walk(data: bytes, at: int, depth: int) -> int:
        index, at = long_at(data, at)
        if not 0 <= index < len(branches):
            raise ValueError(f"branch {index} of a union of {len(branches)}")
        return branches[index](data, at, depth)

    return walk


def _entry(value: _Walk) -> _Walk:
    return lambda data, at, depth: value(data, _text(data, at, depth), depth)


def _blocks(item: _Walk) -> _Walk:
    def walk(data: bytes, at: int, depth: int) -> int:
        count, at = _block(data, at)
        while count:
            for _ in range(count):  # each takes a byte at least, so the bytes' end ends it
                at = item(data, at, depth)
            count, at = _block(data, at)
        return at

    return walk


def _block(data: bytes, at: int) -> tuple[int, int]:
    count, at = long_at(data, at)
    if count < 0:  # then the block's size in bytes follows
        size, at = long_at(data, at)
        if size < 0:
            raise ValueError(f"a block of {size} bytes")
        return -count, at
    return count, at
