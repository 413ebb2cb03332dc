"""Each key's value, in parts, and the file in which they are kept, so that a start reads from the log only what came since.

The file is made of pieces, each with its length and checksum in front: first what the table is of and how far it goes,
as JSON; then for each part its keys, and its values.
"""

import json
import os
import struct
from array import array
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.base import TOMBSTONES_KEPT, TopicPartition
from eventlib.values import now_ms

_FORM = 1
_FRAME = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_LENGTHS = "I"
_PARTS = 1 << 10
# Four fifths, so that neither clocks nor a slow start bring a table near the moment when tombstones go.
_LONGEST_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)

Packed = tuple[bytes, bytes]
"""A part's keys and values, as they are in a file."""


class Values(MutableMapping[bytes, bytes]):
    """A value for each key, in parts by the key's checksum. One that comes from a file is unpacked when it is needed."""

    def __init__(self, packed: Sequence[Packed | None] = (None,) * _PARTS, count: int = 0) -> None:
        self._packed = [*packed]
        self._parts: list[dict[bytes, bytes] | None] = [{} if each is None else None for each in packed]
        self._left_packed = count

    def __getitem__(self, key: bytes) -> bytes:
        return self._part(crc32(key) % _PARTS)[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        number = crc32(key) % _PARTS
        part = self._parts[number]
        if part is None:
            part = self._part(number)
        part[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._part(crc32(key) % _PARTS)[key]

    def __len__(self) -> int:
        return self._left_packed + sum(map(len, filter(None, self._parts)))

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys; each part's as of when its turn comes."""
        for number in range(_PARTS):
            yield from tuple(self._part(number))

    def packed(self) -> Iterator[Packed]:
        """Yield every part; each as of when its turn comes."""
        for packed, part in zip(self._packed, self._parts, strict=True):
            yield (_joined(part or ()), _joined((part or {}).values())) if packed is None else packed

    def _part(self, number: int) -> dict[bytes, bytes]:
        part = self._parts[number]
        if part is None:
            keys, values = self._packed[number] or (b"", b"")
            part = self._parts[number] = dict(zip(_parted(keys), _parted(values), strict=True))
            self._packed[number] = None
            self._left_packed -= len(part)
        return part


class TableFile:
    """One table's file; `subject` is what the table is of: one of another log, topic or type is not taken for it.

    Guarantee: a file is there whole or not at all; what was damaged does not fit its checksum, and counts for nothing.
    """

    def __init__(self, path: Path, subject: Sequence[str]) -> None:
        self.path = path
        self._subject = [_FORM, _PARTS, *subject]

    def read(self) -> tuple[Values, Mapping[TopicPartition, int]] | None:
        """Return the values that were kept, and the next offset of each partition.

        None when there is nothing that fits, or it is so old that tombstones may be missing.
        """
        try:
            with self.path.open("rb") as file:
                return self._read(_pieces(file))
        except (OSError, ValueError):
            return None

    def write(self, values: Values, positions: Mapping[TopicPartition, int]) -> Iterator[None]:
        """Write values, part by part: run through all of it, doing something else in between.

        What changes meanwhile may be in the file or not: who goes on from `positions` reads it again.
        Raises: OSError.
        """
        make_private_directory(self.path.parent)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        about = [self._subject, now_ms(), [[*place, offset] for place, offset in positions.items()]]
        try:
            create_private(beside)
            with beside.open("wb") as file:
                _put(file, json.dumps(about).encode())
                for packed in values.packed():
                    for piece in packed:
                        _put(file, piece)
                    yield
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def _read(self, pieces: Iterator[bytes]) -> tuple[Values, Mapping[TopicPartition, int]] | None:
        subject, written_at, positions = json.loads(next(pieces, b"[null, 0, []]"))
        if subject != self._subject or not 0 <= now_ms() - written_at <= _LONGEST_MS:
            return None
        packed = [*zip(pieces, pieces, strict=True)]
        if len(packed) != _PARTS:
            return None  # its end is missing
        count = sum(_COUNT.unpack_from(keys)[0] for keys, _ in packed)
        return Values(packed, count), {(topic, partition): offset for topic, partition, offset in positions}


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


def _joined(found: Collection[bytes]) -> bytes:
    return b"".join([_COUNT.pack(len(found)), array(_LENGTHS, map(len, found)).tobytes(), *found])


def _parted(piece: bytes) -> list[bytes]:
    lengths = array(_LENGTHS)
    begin = _COUNT.size + lengths.itemsize * _COUNT.unpack_from(piece)[0]
    lengths.frombytes(piece[_COUNT.size : begin])
    return [piece[first:last] for first, last in pairwise(accumulate(lengths, initial=begin))]
