"""Caches what a replay knows of keys: recently used ones in memory, the others in a temporary file."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from eventlib.codec.base import Codec
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


class Entry(Protocol):
    """What is known of a key."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left to remember."""


EntryT = TypeVar("EntryT", bound=Entry)


class Coder(Protocol[EntryT]):
    """Writes and reads the entries of one decider."""

    def empty(self) -> EntryT:
        """Return the entry of an unknown key."""

    def pack(self, key: str, entry: EntryT) -> bytes:
        """Return an entry as bytes."""

    def unpack(self, key: str, packed: bytes) -> EntryT:
        """Return the entry in bytes that `pack` has made."""


class SpillFile:
    """Holds the least recently used entries in an unnamed file, which SQLite removes on close."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=OFF")
        self._file.execute(_TABLE)

    def write(self, decider: str, rows: Sequence[tuple[str, bytes | None]]) -> None:
        """Write these keys of a decider; None deletes one."""
        gone = [(decider, key) for key, value in rows if value is None]
        kept = [(decider, key, value) for key, value in rows if value is not None]
        self._file.execute("BEGIN")
        self._file.executemany("DELETE FROM entries WHERE decider = ? AND key = ?", gone)
        self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", kept)
        self._file.execute("COMMIT")

    def read(self, decider: str, key: str) -> bytes | None:
        """Return what was written for a key."""
        row = self._file.execute("SELECT value FROM entries WHERE decider = ? AND key = ?", (decider, key)).fetchone()
        return None if row is None else row[0]

    def all(self, decider: str) -> Iterator[tuple[str, bytes]]:
        """Yield every key of a decider that was written."""
        yield from self._file.execute("SELECT key, value FROM entries WHERE decider = ?", (decider,))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class Spill(SpillFile):
    """Holds states as well, which are written with private schemas, so that nothing is registered on the log."""

    def __init__(self) -> None:
        super().__init__()
        self.codec = FramedCodec(MemoryLog())

    async def prepare(self, deciders: list[Decider[Any]]) -> None:
        """Create the schemas of these deciders' states. Raises: WiringError for a state that has none."""
        if is_personal(*(decider.state for decider in deciders)):
            from eventlib.personal.cipher import EphemeralCipher

            self.codec.personal = EphemeralCipher()
        await self.codec.prepare(("states", decider.state) for decider in deciders)


class StateCoder:
    """Writes and reads the states of one decider, as the changelog has them."""

    def __init__(self, decider: Decider[Any], codec: Codec) -> None:
        self._decider = decider
        self._codec = codec

    def empty(self) -> KeyedState:
        """See `Coder.empty`."""
        return _EMPTY

    def pack(self, key: str, entry: KeyedState) -> bytes:
        """See `Coder.pack`."""
        return pack(entry.record((self._decider.name, key), _NOWHERE, "", self._codec))

    def unpack(self, key: str, packed: bytes) -> KeyedState:
        """See `Coder.unpack`."""
        return entry_of(unpack(state_key(self._decider.name, key), packed), self._decider, self._codec)


class SpillingCache(Generic[EntryT]):
    """One decider's entries, by key.

    Memory has two generations: a used entry moves to the young one; when that exceeds `most` entries, the old one is
    written to the file and the young one becomes the old. An entry that is changed in place has to be one that `get` gave last.
    """

    def __init__(self, decider: str, coder: Coder[EntryT], file: SpillFile, most: int) -> None:
        self.coder = coder
        self._decider = decider
        self._file = file
        self._most = most
        self._young: dict[str, EntryT] = {}
        self._old: dict[str, EntryT] = {}
        self._has_spilled = False

    def get(self, key: str) -> EntryT:
        """Return a key's entry; an empty one if it is unknown or gone."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.pop(key, None)
            if entry is None:
                packed = self._file.read(self._decider, key) if self._has_spilled else None
                entry = self.coder.empty() if packed is None else self.coder.unpack(key, packed)
            self._keep(key, entry)
        return entry

    def put(self, key: str, entry: EntryT) -> None:
        """Store a key's entry; one that is gone starts empty."""
        self._keep(key, self.coder.empty() if entry.is_gone else entry)

    def all(self) -> Iterator[tuple[str, EntryT]]:
        """Yield every key that is not gone, with its entry."""
        kept = self._old | self._young  # one that became old as it was read, and was put then, is in both
        for key, packed in self._file.all(self._decider) if self._has_spilled else ():
            if key not in kept:
                yield key, self.coder.unpack(key, packed)
        for key, entry in kept.items():
            if not entry.is_gone:
                yield key, entry

    def _keep(self, key: str, entry: EntryT) -> None:
        self._young[key] = entry
        if len(self._young) > self._most:
            self._age()

    def _age(self) -> None:
        if self._old:
            pack = self.coder.pack
            rows = [(key, None if entry.is_gone else pack(key, entry)) for key, entry in self._old.items()]
            self._file.write(self._decider, rows)
            self._has_spilled = True
        self._old, self._young = self._young, {}


def state_cache(decider: Decider[Any], spill: Spill, most: int) -> SpillingCache[KeyedState]:
    """Return a cache for the states of a decider."""
    return SpillingCache(decider.name, StateCoder(decider, spill.codec), spill, most)


def spilling_caches(deciders: Sequence[Decider[Any]], spill: Spill) -> dict[str, SpillingCache[KeyedState]]:
    """Return a cache for each decider, by name, with equal shares of the memory."""
    return {decider.name: state_cache(decider, spill, IN_MEMORY // len(deciders)) for decider in deciders}
