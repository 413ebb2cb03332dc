"""The high-water mark beside an SQLite log: it detects a lost tail, and lets an operator accept the loss."""

import json
import mmap
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from eventlib.errors import LogCorrupt, TailLost
from eventlib.log.rules import without_tail
from eventlib.log.sqlite.errors import Transaction
from eventlib.log.sqlite.sealed import meta_value, partition_rows, write_meta
from eventlib.values import now_ms

_SLOT = Struct("<QQQ")  # hash of the log_id, offsets assigned, seal
_OFFSETS = Struct("<Q")
_STRIDE = 32
_BYTES = 2 * _STRIDE
_PLACES = range(0, _BYTES, _STRIDE)


class Mark(NamedTuple):
    """The content of a mark: its log, and how many offsets all of the log's partitions have assigned."""

    log: int
    offsets: int


class HighWaterMark:
    """One process's handle on a log's mark. If the file system does not allow it, the log runs without a mark."""

    def __init__(self, path: Path, log_id: str) -> None:
        self._path = mark_path(path)
        self._log = _hash(log_id)
        self._map: mmap.mmap | None = None
        self._slot = 0
        self._is_tried = False

    def missing(self, offsets: int) -> int:
        """Return how many assigned offsets the log lacks; the caller holds the write lock."""
        content = self._map
        if content is None:
            if self._is_tried:
                return 0
            content = self._begin()
        if content is None or max(_OFFSETS.unpack_from(content, slot + 8)[0] for slot in _PLACES) <= offsets:
            return 0
        return max(0 if mark is None else mark.offsets - offsets for _, mark in _slots(content))

    def raise_to(self, offsets: int) -> None:
        """Record how many offsets the log has assigned; never lowers the mark."""
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
        """Close the file."""
        if self._map is not None:
            self._map.close()
            self._map = None


def mark_path(path: Path) -> Path:
    """Return the path of a log's mark."""
    return path.with_name(f"{path.name}-hwm")


def mark_beside(path: Path) -> Mark | None:
    """Return the mark beside a log's file, of whichever log; None without a valid one."""
    try:
        content = mark_path(path).read_bytes()
    except OSError:
        return None
    marks = [mark for _, mark in _slots(content.ljust(_BYTES, b"\0")) if mark is not None]
    return max(marks, key=lambda mark: mark.offsets, default=None)


def missing_offsets(mark: Mark | None, log_id: str, offsets: int) -> int:
    """Return how many offsets a log lacks according to its mark, read before them; 0 when it is not about this log."""
    return max(mark.offsets - offsets, 0) if mark is not None and mark.log == _hash(log_id) else 0


def why_no_mark(path: Path) -> str:
    """Return why no mark can be kept beside a log, empty when it can; a missing one is created."""
    try:
        _mapped(mark_path(path)).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _mapped(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(handle, 0, _BYTES)  # writing a hole to a full disk would raise a signal
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


_LOSS = "loss."


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that a log has lost, and an operator's decision to continue without them.

    `records` is how many are missing, as far as known; `former_log_id` is the log_id under which they were written.
    """

    at_ms: int
    records: int
    reason: str
    former_log_id: str


def tail_lost(path: Path, records: int) -> TailLost:
    """Return the error for a write to a log that lacks acknowledged records."""
    return TailLost(
        f"the log {path} lacks {records:,} {'record that was' if records == 1 else 'records that were'} acknowledged: "
        f"its write-ahead log was lost or damaged, or an older copy was put in its place. {without_tail(path)}"
    )


def refuse_lost(path: Path) -> None:
    """Refuse to create a log where a mark records an earlier one. Raises: TailLost."""
    mark = mark_beside(path)
    if mark is not None:
        raise TailLost(
            f"the log {path} is empty or gone, and had {mark.offsets:,} records. Restore a copy (`eventlib restore`"
            f"); to start without them, delete {mark_path(path).name}"
        )


def now_another(path: Path) -> LogCorrupt:
    """Return the error for a process whose log continues under a new log_id."""
    return LogCorrupt(
        f"the log {path} continues under another log_id, since a loss of records was accepted or a copy restored: what "
        "this process has cached is invalid; restart it"
    )


def accept_loss(path: Path, connection: sqlite3.Connection, reason: str) -> Loss:
    """Let a log continue with its remaining records under a new log_id, so that no cache of the lost ones is used.

    Guarantee: recorded in the log itself, with the reason. Raises: sqlite3.Error.
    """
    with Transaction(connection):
        loss = record_loss(connection, missing_in(path, connection), reason)
    mark_path(path).unlink(missing_ok=True)
    return loss


def record_loss(connection: sqlite3.Connection, records: int, reason: str) -> Loss:
    """Record a loss and assign a new log_id, in the transaction that was begun. Raises: sqlite3.Error."""
    loss = Loss(now_ms(), records, reason, meta_value(connection, "log_id") or "")
    write_meta(connection, {"log_id": token_hex(16), f"{_LOSS}{loss.at_ms}": json.dumps(asdict(loss))})
    return loss


def losses(connection: sqlite3.Connection) -> Sequence[Loss]:
    """Return the accepted losses, oldest first. Raises: sqlite3.Error."""
    names = [
        row[0] for row in connection.execute("SELECT name FROM meta WHERE name GLOB ? ORDER BY name", (f"{_LOSS}*",))
    ]
    return [Loss(**json.loads(meta_value(connection, name) or "")) for name in names]


def missing_in(path: Path, connection: sqlite3.Connection) -> int:
    """Return how many records the log lacks according to the mark beside it. Raises: sqlite3.Error."""
    mark, rows = mark_beside(path), [*partition_rows(connection)]
    if any(damage for _, damage in rows):
        return 0
    return missing_offsets(mark, meta_value(connection, "log_id") or "", sum(row[3] for row, _ in rows))
