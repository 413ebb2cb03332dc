"""Caches the states of a replay: recently used keys in memory, the others in a temporary file."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from eventlib.codec.wire_format import FramedCodec
from eventlib.log.memory import MemoryLog
from eventlib.model.decider import Decider
from eventlib.model.personal import is_personal
from eventlib.runtime.keyed_state import KeyedState, KeyLocation, entry_of
from eventlib.runtime.records import pack, state_key, unpack

IN_MEMORY = 100_000
"""How many entries all deciders together keep in memory, at least; at most twice as many."""

_EMPTY = KeyedState()
_NOWHERE = KeyLocation("", 0, 0)
_TABLE = "CREATE TABLE entries (decider TEXT, key TEXT, value BLOB, PRIMARY KEY (decider, key)) WITHOUT ROWID"


class Spill:
    """Holds the least recently used entries in an unnamed file, which SQLite removes on close.

    States are written with private schemas, so that nothing is registered on the log.
    """

    def __init__(self) -> None:
        self.codec = FramedCodec(MemoryLog())
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode=OFF")
        self._file.execute(_TABLE)

    async def prepare(self, deciders: list[Decider[Any]]) -> None:
        """Create the schemas of these deciders' states. Raises: WiringError for a state that has none."""
        if is_personal(*(decider.state for decider in deciders)):
            from eventlib.personal.cipher import EphemeralCipher

            self.codec.personal = EphemeralCipher()
        await self.codec.prepare(("states", decider.state) for decider in deciders)

    def write(self, decider: str, entries: dict[str, KeyedState]) -> None:
        """Write these entries; delete the keys of those that are gone."""
        rows, gone = list[tuple[str, str, bytes]](), list[tuple[str, str]]()
        for key, entry in entries.items():
            if entry.is_gone:
                gone.append((decider, key))
            else:
                rows.append((decider, key, pack(entry.record((decider, key), _NOWHERE, "", self.codec))))
        self._file.execute("BEGIN")
        self._file.executemany("DELETE FROM entries WHERE decider = ? AND key = ?", gone)
        self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
        self._file.execute("COMMIT")

    def read(self, decider: Decider[Any], key: str) -> KeyedState | None:
        """Return a key's entry, if it was written."""
        row = self._file.execute(
            "SELECT value FROM entries WHERE decider = ? AND key = ?", (decider.name, key)
        ).fetchone()
        return None if row is None else self._entry(decider, key, row[0])

    def all(self, decider: Decider[Any]) -> Iterator[tuple[str, KeyedState]]:
        """Yield every entry of a decider that was written."""
        for key, value in self._file.execute("SELECT key, value FROM entries WHERE decider = ?", (decider.name,)):
            yield key, self._entry(decider, key, value)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _entry(self, decider: Decider[Any], key: str, value: bytes) -> KeyedState:
        return entry_of(unpack(state_key(decider.name, key), value), decider, self.codec)


class SpillingCache:
    """One decider's entries, by key.

    Memory has two generations: a used entry moves to the young one; when that exceeds `most` entries, the old one is
    written to the spill file and the young one becomes the old.
    """

    def __init__(self, decider: Decider[Any], spill: Spill, most: int) -> None:
        self._decider = decider
        self._spill = spill
        self._most = most
        self._young: dict[str, KeyedState] = {}
        self._old: dict[str, KeyedState] = {}
        self._has_spilled = False

    def get(self, key: str) -> KeyedState:
        """Return a key's entry; an empty one if it is unknown or gone."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None)
            if entry is None and self._has_spilled:
                entry = self._spill.read(self._decider, key)
            entry = self._young[key] = entry or _EMPTY
            if len(self._young) > self._most:
                self._age()
        return entry

    def put(self, key: str, entry: KeyedState) -> None:
        """Store a key's entry; one that is gone starts empty."""
        self._young[key] = _EMPTY if entry.is_gone else entry

    def all(self) -> Iterator[tuple[str, KeyedState]]:
        """Yield every key that is not gone, with its entry."""
        kept = self._old | self._young  # one that became old as it was read, and was put then, is in both
        for key, entry in self._spill.all(self._decider) if self._has_spilled else ():
            if key not in kept:
                yield key, entry
        for key, entry in kept.items():
            if not entry.is_gone:
                yield key, entry

    def _age(self) -> None:
        if self._old:
            self._spill.write(self._decider.name, self._old)
            self._has_spilled = True
        self._old, self._young = self._young, {}


def spilling_caches(deciders: Sequence[Decider[Any]], spill: Spill) -> dict[str, SpillingCache]:
    """Return a cache for each decider, by name, with equal shares of the memory."""
    return {decider.name: SpillingCache(decider, spill, IN_MEMORY // len(deciders)) for decider in deciders}
