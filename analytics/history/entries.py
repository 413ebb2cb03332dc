"""The keys of one decider in one task while its past is folded: their entries, in memory or in a temporary file."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import from_json, to_json

from eventlib.codec.avro.read import reader_of
from eventlib.codec.avro.write import writer_of
from eventlib.model.decider import Decider
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json
from eventlib.replay.spilling_cache import IN_MEMORY

_TABLE = "CREATE TABLE entries (decider TEXT, key TEXT, value BLOB, PRIMARY KEY (decider, key)) WITHOUT ROWID"


class Entry:
    """What a fold knows of a key: as `eventlib.runtime.keyed_state.KeyedState`, and since when its state is what it is.

    `changed_by`, at `changed_ms`, is the event that last changed the key; `set_by`, at `since_ms`, the one that its state
    is since. `due` has the time of each pending deadline, and when it was set (ms). `passed` is as in `KeyMetadata`.
    """

    __slots__ = (
        "answered",
        "changed_by",
        "changed_ms",
        "correlation_id",
        "due",
        "passed",
        "set_by",
        "since_ms",
        "state",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.state: Any = None
        self.changed_by: str | None = None
        self.changed_ms = 0
        self.correlation_id: str | None = None
        self.since_ms = 0
        self.set_by: str | None = None
        self.answered = False
        self.passed: dict[str, int] = {}
        self.due: dict[str, tuple[int, int]] = {}

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left to remember, so that the key begins anew."""
        return self.state is None and not self.answered


class EntryCoder:
    """Writes and reads the entries of one decider; personal fields are as the fold has read them: masked."""

    def __init__(self, decider: Decider[Any]) -> None:
        record = record_of(decider.state)
        self._write: Callable[[Any], bytes] = writer_of(record, b"")
        self._read: Callable[[bytes], Any] = reader_of(record, schema_json(record), 0)

    def pack(self, key: str, entry: Entry) -> bytes:
        """Return a key and its entry as bytes: a line of JSON, then the state in Avro."""
        due = {name: [*times] for name, times in entry.due.items()}
        attributes = [key, entry.changed_by, entry.changed_ms, entry.correlation_id, entry.since_ms, entry.set_by]
        line = to_json([*attributes, entry.answered, entry.passed, due, entry.state is not None])
        return line + b"\n" + (b"" if entry.state is None else self._write(entry.state))

    def unpack(self, packed: bytes) -> tuple[str, Entry]:
        """Return the key and the entry in bytes that `pack` has made."""
        line, _, state = packed.partition(b"\n")
        entry = Entry()
        key, entry.changed_by, entry.changed_ms, entry.correlation_id, entry.since_ms, entry.set_by, *rest = from_json(
            line
        )
        entry.answered, entry.passed, due, has_state = rest
        entry.due = {name: (due_ms, set_ms) for name, (due_ms, set_ms) in due.items()}
        entry.state = self._read(state) if has_state else None
        return key, entry


class SpillFile:
    """An unnamed file for entries that are not in use, which SQLite removes when it is closed."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=OFF")
        self._file.execute(_TABLE)

    def write(self, decider: str, rows: list[tuple[str, bytes | None]]) -> None:
        """Write these keys of a decider; None deletes one."""
        self._file.execute("BEGIN")
        gone = [(decider, key) for key, value in rows if value is None]
        self._file.executemany("DELETE FROM entries WHERE decider = ? AND key = ?", gone)
        kept = [(decider, key, value) for key, value in rows if value is not None]
        self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", kept)
        self._file.execute("COMMIT")

    def read(self, decider: str, key: str) -> bytes | None:
        """Return what was written for a key."""
        found = self._file.execute("SELECT value FROM entries WHERE decider = ? AND key = ?", (decider, key)).fetchone()
        return None if found is None else found[0]

    def all(self, decider: str) -> Iterator[tuple[str, bytes]]:
        """Yield every key of a decider that was written, in order."""
        yield from self._file.execute("SELECT key, value FROM entries WHERE decider = ? ORDER BY key", (decider,))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class Entries:
    """One decider's entries in one task, by key; memory holds so many of the ones used last, and the file the others.

    Entries are changed in place: `get` makes one for an unknown key, and one that is gone when it leaves the memory is
    forgotten.
    """

    def __init__(self, decider: Decider[Any], spill: SpillFile, share: int) -> None:
        self.coder = EntryCoder(decider)
        self._name = decider.name
        self._spill = spill
        self._most = max(1, IN_MEMORY // share)
        self._young = dict[str, Entry]()
        self._old = dict[str, Entry]()
        self._has_spilled = False

    def get(self, key: str) -> Entry:
        """Return a key's entry, to be changed in place."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None) or self._spilled(key) or Entry()
            self._young[key] = entry
            if len(self._young) > self._most:
                self._age()
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Take an entry in."""
        self._young[key] = entry
        if len(self._young) > self._most:
            self._age()

    def all(self) -> Iterator[tuple[str, Entry]]:
        """Yield every key that is not gone, with its entry."""
        for key, packed in self._spill.all(self._name) if self._has_spilled else ():
            if key not in self._young and key not in self._old:
                yield self.coder.unpack(packed)
        for key, entry in (*self._old.items(), *self._young.items()):
            if not entry.is_gone:
                yield key, entry

    def _spilled(self, key: str) -> Entry | None:
        packed = self._spill.read(self._name, key) if self._has_spilled else None
        return None if packed is None else self.coder.unpack(packed)[1]

    def _age(self) -> None:
        if self._old:
            pack = self.coder.pack
            self._spill.write(self._name, [(key, None if e.is_gone else pack(key, e)) for key, e in self._old.items()])
            self._has_spilled = True
        self._old, self._young = self._young, {}
