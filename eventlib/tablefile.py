"""The file in which a table is kept, so that a start reads from the log only what came since.

It is made of pieces, each with its length and checksum in front: first what the table is of and how far it goes, as
JSON; then keys and values, some thousand at a time.
"""

import json
import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from eventlib.log.port import TOMBSTONES_KEPT, TopicPartition
from eventlib.times import now_ms

_FORM = 1
_FRAME = struct.Struct("<II")
_LENGTHS = "I"
_PAIRS = 5_000
# Four fifths, so that neither clocks nor a slow start bring a table near the moment when tombstones go.
_LONGEST_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)


class Copy(NamedTuple):
    """A table as of some moment: each key's value, and the next offset of each partition."""

    values: dict[bytes, bytes]
    positions: Mapping[TopicPartition, int]


class TableFile:
    """One table's file; `subject` is what the table is of: one of another log, topic or type is not taken for it.

    Guarantee: a file is there whole or not at all; what was damaged does not fit its checksum, and counts for nothing.
    """

    def __init__(self, path: Path, subject: Sequence[str]) -> None:
        self._path = path
        self._subject = [_FORM, *subject]

    def read(self) -> Copy | None:
        """Return what was kept; None when there is nothing that fits, or it is so old that tombstones may be missing."""
        try:
            with self._path.open("rb") as file:
                return self._read(_pieces(file))
        except (OSError, ValueError):
            return None

    def write(self, copy: Copy) -> Iterator[None]:
        """Write a copy, piece by piece: run through all of it, doing something else in between. Raises: OSError."""
        keys, values = list(copy.values), list(copy.values.values())
        about = [self._subject, now_ms(), len(keys), [[*place, at] for place, at in copy.positions.items()]]
        return self._write(json.dumps(about).encode(), keys, values)

    def _write(self, about: bytes, keys: list[bytes], values: list[bytes]) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with beside.open("wb") as file:
                _put(file, about)
                for first in range(0, len(keys), _PAIRS):
                    _put(file, _packed(keys[first : first + _PAIRS]))
                    _put(file, _packed(values[first : first + _PAIRS]))
                    yield
            beside.replace(self._path)
        finally:
            beside.unlink(missing_ok=True)

    def _read(self, pieces: Iterator[bytes]) -> Copy | None:
        subject, written_at, count, positions = json.loads(next(pieces, b"[null, 0, 0, []]"))
        if subject != self._subject or not 0 <= now_ms() - written_at <= _LONGEST_MS:
            return None
        values = dict[bytes, bytes]()
        for keys, theirs in zip(pieces, pieces, strict=True):
            values.update(zip(_unpacked(keys), _unpacked(theirs), strict=True))
        if len(values) != count:
            return None  # its end is missing
        return Copy(values, {(topic, partition): at for topic, partition, at in positions})


def _put(file: BinaryIO, piece: bytes) -> None:
    file.write(_FRAME.pack(len(piece), crc32(piece)))
    file.write(piece)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the pieces. Raises: ValueError when one is damaged."""
    while frame := file.read(_FRAME.size):
        length, checksum = _FRAME.unpack(frame.ljust(_FRAME.size, b"\0"))
        piece = file.read(length)
        if len(piece) != length or crc32(piece) != checksum:
            raise ValueError("a damaged piece")
        yield piece


def _packed(found: Sequence[bytes]) -> bytes:
    lengths = array(_LENGTHS, map(len, found))
    return b"".join(chain([len(found).to_bytes(4, "little"), lengths.tobytes()], found))


def _unpacked(piece: bytes) -> Iterable[bytes]:
    lengths = array(_LENGTHS)
    begin = 4 + lengths.itemsize * int.from_bytes(piece[:4], "little")
    lengths.frombytes(piece[4:begin])
    return [piece[first:last] for first, last in pairwise(accumulate(lengths, initial=begin))]
