"""The high-water mark beside an SQLite log: how many offsets were given out, as of the last commit.

A commit that lost its write-ahead log leaves a file that is sound, and ends too early; this small file of its own says
so. It is mapped into memory and never waited for: it outlives a killed process, and a power cut can only leave it behind
the log, whose commits are on the disk first. Two slots are written in turn, so that one is always whole.
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

_SLOT = Struct("<QQQ")  # hash of the log_id, offsets given out, seal
_OFFSETS = Struct("<Q")
_STRIDE = 32
_BYTES = 2 * _STRIDE
_PLACES = range(0, _BYTES, _STRIDE)


class Mark(NamedTuple):
    """What a mark says: of which log, and how many offsets its partitions have given out together."""

    log: int
    offsets: int


class HighWaterMark:
    """One process's hold on the mark of one log. What the file system does not allow leaves the log without one."""

    def __init__(self, path: Path, log_id: str) -> None:
        self._path = mark_path(path)
        self._log = _hash(log_id)
        self._map: mmap.mmap | None = None
        self._slot = 0
        self._is_tried = False

    def missing(self, offsets: int) -> int:
        """Return how many offsets were given out beyond those that the log has; the right to write has to be held."""
        content = self._map
        if content is None:
            if self._is_tried:
                return 0
            content = self._begin()
        if content is None or max(_OFFSETS.unpack_from(content, slot + 8)[0] for slot in _PLACES) <= offsets:
            return 0
        return max(0 if mark is None else mark.offsets - offsets for _, mark in _slots(content))

    def raise_to(self, offsets: int) -> None:
        """Note that the log has given out so many offsets; less than what stands there changes nothing."""
        content, slot = self._map, self._slot
        if content is not None and offsets > _OFFSETS.unpack_from(content, slot + 8)[0]:
            _SLOT.pack_into(content, slot, self._log, offsets, _seal(self._log, offsets))
            self._slot = _STRIDE - slot

    def _begin(self) -> mmap.mmap | None:
        self._is_tried = True
        try:
            content = self._map = _mapped(self._path)
        except (OSError, ValueError):
            return None
        for slot, mark in _slots(content):
            if mark is None or mark.log != self._log:
                content[slot : slot + _STRIDE] = bytes(_STRIDE)
        return content

    def close(self) -> None:
        """Give the file back."""
        if self._map is not None:
            self._map.close()
            self._map = None


def mark_path(path: Path) -> Path:
    """Return where a log's mark is."""
    return path.with_name(f"{path.name}-hwm")


def mark_beside(path: Path) -> Mark | None:
    """Return what the mark beside a log's file says, of whichever log; None when it says nothing."""
    try:
        content = mark_path(path).read_bytes()
    except OSError:
        return None
    marks = [mark for _, mark in _slots(content.ljust(_BYTES, b"\0")) if mark is not None and mark.offsets]
    return max(marks, key=lambda mark: mark.offsets, default=None)


def missing_offsets(path: Path, log_id: str, offsets: int) -> int:
    """Return how many offsets more than a log has its mark says were given out; 0 when it says nothing of this log."""
    mark = mark_beside(path)
    return max(mark.offsets - offsets, 0) if mark is not None and mark.log == _hash(log_id) else 0


def why_no_mark(path: Path) -> str:
    """Return why no mark can be kept beside a log, empty when one can; one that is missing is made."""
    try:
        _mapped(mark_path(path)).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _mapped(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        os.posix_fallocate(handle, 0, _BYTES)  # for a page that is not there yet a full disk would be a signal
        return mmap.mmap(handle, _BYTES)
    finally:
        os.close(handle)


def _slots(content: bytes | mmap.mmap) -> Iterator[tuple[int, Mark | None]]:
    for slot in _PLACES:
        log, offsets, seal = _SLOT.unpack_from(content, slot)
        yield slot, Mark(log, offsets) if seal == _seal(log, offsets) else None


def _seal(log: int, offsets: int) -> int:
    return xxh3_64_intdigest(_SLOT.pack(log, offsets, 0))


def _hash(log_id: str) -> int:
    return xxh3_64_intdigest(log_id.encode())
