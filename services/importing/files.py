"""Reads an order file, plain or compressed, with one line or one order at a time in memory."""

import gzip
import json
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from eventlib import TerminalError
from eventlib.http import JsonRefused, decode_json
from services.importing.orders import Order, Refusal, malformed, order_of

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is too large for the log; it is skipped without being held in memory."""

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


class UnreadableFile(TerminalError):
    """The file cannot be imported as a whole; nothing of it was placed."""


class FileLine(NamedTuple):
    """A line of the file, counted from 1, without its end; `text` is None for one that is too long."""

    number: int
    text: bytes | None
    length: int


class Source:
    """An order file; `digest` is that of its uncompressed content, as far as it was read."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UnreadableFile(f"{path} is not a file: name an .ndjson, .ndjson.gz or .csv file with orders")
        suffix = next((each.lower() for each in reversed(path.suffixes) if each.lower() != ".gz"), "")
        if suffix not in {".csv", ".ndjson", ".jsonl"}:
            raise UnreadableFile(f"{path.name}: expected a name that ends in .ndjson, .ndjson.gz or .csv")
        self.path = path
        self.is_csv = suffix == ".csv"
        self._digest = blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """The digest of what was read so far (32 hex digits)."""
        return self._digest.hexdigest()

    def lines(self) -> Iterator[FileLine]:
        """Yield the lines. Raises: UnreadableFile when the file is damaged or cannot be read."""
        self._digest = blake2b(digest_size=16)
        number = 0
        try:
            with self._open() as stream:
                while line := stream.readline(MAX_LINE_BYTES):
                    self._digest.update(line)
                    number, length = number + 1, len(line)
                    while not line.endswith(b"\n") and (rest := stream.readline(MAX_LINE_BYTES)):
                        self._digest.update(rest)
                        length, line = length + len(rest), rest
                    if number == 1:
                        if line.startswith(_WIDE_BOMS) or b"\0" in line:
                            raise UnreadableFile(f"{self.path.name} is UTF-16, or no text: save it as UTF-8")
                        line = line.removeprefix(_BOM)
                    yield FileLine(number, line.rstrip(b"\r\n") if length <= MAX_LINE_BYTES else None, length)
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableFile(f"{self.path} cannot be read after line {number}: {error}") from error

    def _open(self) -> BinaryIO:
        with self.path.open("rb") as stream:
            is_compressed = stream.read(2) == b"\x1f\x8b"
        return cast("BinaryIO", gzip.open(self.path, "rb")) if is_compressed else self.path.open("rb")


def read_ndjson(source: Source) -> Iterator[tuple[int, Order | Refusal]]:
    """Yield each line's order, or its refusal, with the line's number: one JSON object a line, the file's own format."""
    for number, text, length in source.lines():
        if text is None:
            yield number, malformed(f"the line has {length:,} bytes, and {MAX_LINE_BYTES:,} is the most")
        elif text.strip():
            yield number, _order(text)


def _order(text: bytes) -> Order | Refusal:
    try:
        return order_of(decode_json(text.decode()))
    except UnicodeDecodeError as error:
        return malformed(f"not UTF-8: byte 0x{text[error.start]:02x} at {error.start + 1}")
    except json.JSONDecodeError as error:
        return malformed(f"not JSON: {error.msg} at column {error.colno}")
    except JsonRefused as error:
        return malformed(str(error))
