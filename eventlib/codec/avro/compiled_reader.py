"""Readers of Avro bytes made of source, for the schemas that nearly all events have.

A call into fastavro, with the file that it wants to read from, costs more than a few fields do in Python. What is not
plain is left to fastavro: unions of more than null and a type, schemas that recurse, and logical types but timestamps.
Source: Apache Avro 1.12 specification, "Binary Encoding".
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, cast

from eventlib.codec.avro.scalars import long_at
from eventlib.model.schema.types import Json

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Reads bytes from a position on, and returns what fastavro would return, and the position behind it.

For bytes that do not fit it raises whatever it meets; it reads no further than their end.
"""

_FLOATS = {"float": Struct("<f"), "double": Struct("<d")}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = {"timestamp-millis": timedelta(milliseconds=1), "timestamp-micros": timedelta(microseconds=1)}
_OPTIONAL = 2  # branches: null, and the type
_DEEPEST = 8  # blocks in blocks; Python compiles some more than that


def quick_reader_of(schema: Json) -> Reader | None:
    """Return a reader of what a schema, parsed by fastavro, has written; None when it is not plain.

    Items of arrays have to take bytes: the guard sees to that.
    """
    source = _Source()
    try:
        value = source.value(schema)
    except _NotPlain:
        return None
    text = "\n".join(["def read(data, at):", "    size = len(data)", *source.lines, f"    return {value}, at"])
    exec(text, source.names)  # noqa: S102  all of it is written below, and names of fields are quoted
    return cast("Reader", source.names["read"])


class _NotPlain(Exception):
    """The schema is left to fastavro."""


class _Source:
    """The lines of a reader's body, and the names in it that are not its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"long_at": long_at, "length_at": _length_at}
        self._depth = 1
        self._count = 0
        self._named: dict[str, Json] = {}
        self._open = set[str]()

    def value(self, schema: Json) -> str:  # noqa: C901, PLR0911  one answer for each kind
        """Add the lines that read a type, and return the expression for what they have read."""
        if isinstance(schema, list):
            return self._optional(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(schema, dict) and "logicalType" in schema:
            return self._time(schema)
        match kind:
            case "null":
                return "None"
            case "string" | "bytes":
                return self._text(kind)
            case "int" | "long":
                return self._long()
            case "boolean":
                return self._read("{0} = data[at] != 0", "at += 1")
            case "float" | "double":
                unpack = self._name("unpack", _FLOATS[kind].unpack_from)
                return self._read(f"({{0}},) = {unpack}(data, at)", f"at += {_FLOATS[kind].size}")
            case "record":
                return self._record(schema)
            case "enum":
                symbols = self._name("symbols", tuple(schema["symbols"]))
                return self._read("n, at = length_at(data, at)", f"{{0}} = {symbols}[n]")
            case "array" | "map":
                return self._blocks(schema)
            case str() if kind in self._named and kind not in self._open:
                return self.value(self._named[kind])
            case _:
                raise _NotPlain(kind)

    def _text(self, kind: str) -> str:
        return self._read(
            "n = data[at]",
            "if n & 129: n, at = length_at(data, at)",  # more than one byte, or a negative number
            "else: n >>= 1; at += 1",
            "end = at + n",
            "if end > size: raise ValueError('they end too early')",
            "{0} = data[at:end]" + (".decode()" if kind == "string" else ""),
            "at = end",
        )

    def _long(self) -> str:
        return self._read(
            "n = data[at]",
            "if n & 128: {0}, at = long_at(data, at)",
            "else: {0} = (n >> 1) ^ -(n & 1); at += 1",
        )

    def _time(self, schema: Json) -> str:
        tick = _TICKS.get(schema["logicalType"])
        if tick is None or schema["type"] != "long":
            raise _NotPlain(schema["logicalType"])
        epoch, unit = self._name("epoch", _EPOCH), self._name("tick", tick)
        return f"({epoch} + {self._long()} * {unit})"

    def _record(self, schema: Json) -> str:
        name = schema["name"]
        self._named[name] = schema
        self._open.add(name)
        fields = [f"{field['name']!r}: {self.value(field['type'])}" for field in schema["fields"]]
        self._open.discard(name)
        return f"{{{', '.join(fields)}}}"

    def _optional(self, branches: list[Json]) -> str:
        if len(branches) != _OPTIONAL or "null" not in branches:
            raise _NotPlain(branches)
        null = branches.index("null")
        read = self._read("n = data[at]", "at += 1", f"if n == {2 * null}: {{0}} = None", f"elif n == {2 - 2 * null}:")
        self._inside(lambda: f"{read} = {self.value(branches[1 - null])}")
        self._add("else: raise ValueError('a union has no such branch')")
        return read

    def _blocks(self, schema: Json) -> str:
        is_map = schema["type"] == "map"
        read = self._read("{0} = {{}}" if is_map else "{0} = []", "while True:")

        def item() -> str:
            if is_map:
                return f"{read}[{self._text('string')}] = {self.value(schema['values'])}"
            return f"{read}.append({self.value(schema['items'])})"

        def block() -> str:
            self._add("n, at = long_at(data, at)")
            self._add("if not n: break")
            self._add("if n < 0: n, at = -n, long_at(data, at)[1]")  # with the block's size behind it
            self._add("if n > size - at: raise ValueError('they end too early')")
            self._add("for _ in range(n):")
            self._inside(item)
            return "pass"

        self._inside(block)
        return read

    def _inside(self, body: Callable[[], str]) -> None:
        """Add what a body adds, and the line that it returns, as the inside of a block."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotPlain(self._depth)
        self._add(body())
        self._depth -= 1

    def _read(self, *lines: str) -> str:
        """Add lines with a new variable for {0}, and return it."""
        self._count += 1
        name = f"v{self._count}"
        for line in lines:
            self._add(line.format(name))
        return name

    def _name(self, prefix: str, value: object) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def _add(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)


def _length_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the length or index at a position, and the position behind it."""
    length, at = long_at(data, at)
    if length < 0:
        raise ValueError("a length is negative")
    return length, at
