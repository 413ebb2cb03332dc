"""Reads an order file line by line, plain or compressed, with one line at a time in memory."""

import gzip
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from eventlib import TerminalError

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is too large for the log; it is skipped without being held in memory."""

_GZIP_MAGIC = b"\x1f\x8b"
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
    """An order file; `digest` is that of its uncompressed content."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UnreadableFile(f"{path} is not a file: name an .ndjson, .ndjson.gz or .csv file with orders")
        self.path = path
        self._digest = blake2b(digest_size=16)

    @property
    def is_csv(self) -> bool:
        """Whether the file's name ends in .csv. Raises: UnreadableFile for unknown names."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes if suffix.lower() != ".gz"]
        match suffixes[-1:]:
            case [".csv"]:
                return True
            case [".ndjson" | ".jsonl"]:
                return False
            case _:
                raise UnreadableFile(f"{self.path.name}: expected a name that ends in .ndjson, .ndjson.gz or .csv")

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
                for number, line in enumerate(self._split(stream), start=1):
                    yield line._replace(number=number)
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableFile(f"{self.path} cannot be read after line {number}: {error}") from error

    def _open(self) -> BinaryIO:
        with self.path.open("rb") as stream:
            is_compressed = stream.read(2) == _GZIP_MAGIC
        return cast("BinaryIO", gzip.open(self.path, "rb")) if is_compressed else self.path.open("rb")

    def _split(self, stream: BinaryIO) -> Iterator[FileLine]:
        first = True
        while line := stream.readline(MAX_LINE_BYTES):
            self._digest.update(line)
            length = len(line)
            while not line.endswith(b"\n") and (rest := stream.readline(MAX_LINE_BYTES)):
                self._digest.update(rest)
                length += len(rest)
                line = rest
            if first and (line.startswith(_WIDE_BOMS) or b"\0" in line):
                raise UnreadableFile(f"{self.path.name} is UTF-16, or no text: save it as UTF-8")
            text = line.removeprefix(_BOM) if first else line
            first = False
            yield FileLine(0, text.rstrip(b"\r\n") if length == len(line) else None, length)
