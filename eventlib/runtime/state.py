"""A task's state: what is committed, in a cache over the local store, and one transaction's changes on top."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from eventlib.codec.port import Codec
from eventlib.decider import Decider
from eventlib.log.port import Record
from eventlib.runtime.entry import Entry, Place, entry_of, memory_of
from eventlib.runtime.records import DUE, STATE, due_key, due_of, pack, state_key, unpack
from eventlib.store.port import Store

_EMPTY = Entry()


class TaskState:
    """Entries and other changelog records of one task.

    Changes are seen at once by later reads of the same transaction; `records` lists them for the changelog, and
    either `commit` makes them the truth or `roll_back` drops them.
    """

    def __init__(self, store: Store, codec: Codec, cached_entries: int) -> None:
        self.store = store
        self._codec = codec
        self._cached_entries = cached_entries
        self._cache: OrderedDict[str, Entry] = OrderedDict()
        self._changed: dict[str, Entry] = {}
        self._put: dict[str, Record | None] = {}
        self._due_bound: int | None = 0

    def entry(self, decider: Decider[Any], key: str) -> Entry:
        """Return a key's entry as this transaction sees it; an empty one when the key was never seen."""
        name = state_key(decider.name, key)
        found = self._changed.get(name)
        if found is not None:
            return found
        found = self._cache.get(name)
        if found is not None:
            self._cache.move_to_end(name)
            return found
        stored = self.store.get(name)
        found = _EMPTY if stored is None else entry_of(unpack(name, stored), decider, self._codec)
        self._remember(name, found)
        return found

    def set_entry(self, decider: Decider[Any], key: str, entry: Entry) -> None:
        """Change a key's entry in this transaction."""
        self._changed[state_key(decider.name, key)] = entry

    def get(self, key: str) -> Record | None:
        """Return the changelog record under a key (not a state's), as this transaction sees it."""
        if key in self._put:
            return self._put[key]
        stored = self.store.get(key)
        return None if stored is None else unpack(key, stored)

    def put(self, key: str, record: Record | None) -> None:
        """Change the changelog record under a key (not a state's) in this transaction; None removes it."""
        self._put[key] = record

    def committed(self, prefix: str) -> Iterator[Record]:
        """Yield the committed changelog records whose keys begin with a prefix."""
        for key, stored in self.store.scan(prefix):
            yield unpack(key, stored)

    @property
    def is_changed(self) -> bool:
        """Whether this transaction changes anything."""
        return bool(self._changed or self._put)

    def records(self, place: Place, sources: Mapping[str, str]) -> list[Record]:
        """Return this transaction's changes as changelog records; `sources` names each decider's `service/decider`."""
        records = [
            entry.record(name, place, sources[name.split("/", 2)[1]], self._codec)
            for name, entry in self._changed.items()
        ]
        for key, record in self._put.items():
            source = Record(*place[:2], -1, place.at_ms, None, None) if record is None else record
            records.append(Record(place.topic, place.partition, -1, source.timestamp_ms, key.encode(), *source[5:]))
        return records

    def commit(self, records: list[Record], checkpoint: int) -> None:
        """Make this transaction's changes the truth; `records` are theirs as they stand on the changelog."""
        writes: dict[str, bytes | None] = {}
        for record in records:
            key = _text(record)
            writes[key] = None if record.value is None else pack(record)
        for name, entry in self._changed.items():
            self._move_due(name, self._due_before(name), entry.memory.due, writes)
            self._remember(name, entry)
        self.store.write(writes, checkpoint)
        self.roll_back()

    def roll_back(self) -> None:
        """Drop this transaction's changes."""
        self._changed = {}
        self._put = {}

    def restore(self, records: list[Record], checkpoint: int) -> None:
        """Take committed changelog records into the store, as a restart or a takeover reads them."""
        writes: dict[str, bytes | None] = {}
        newest = {_text(record): record for record in records}
        for key, record in newest.items():
            if key.startswith(STATE):
                self._move_due(key, self._stored_due(key), memory_of(record).due, writes)
            writes[key] = None if record.value is None else pack(record)
        self.store.write(writes, checkpoint)

    def due_from(self, now_ms: int, is_parked: Callable[[str, str], bool]) -> int | None:
        """Return a time (ms) before which no deadline of a key that goes on falls due; None: there is none.

        It is a bound until it has come; then it is looked up, so that most transactions look at no deadline at all.
        """
        if self._due_bound is not None and self._due_bound <= now_ms:
            due = (due_of(key) for key, _ in self.store.scan(DUE))
            self._due_bound = next((at for at, decider, _, key in due if not is_parked(decider, key)), None)
        return self._due_bound

    def look_at_deadlines(self) -> None:
        """Look deadlines up at the next `due_from`: a key that was parked goes on."""
        self._due_bound = 0

    def due_by(self, due_ms: int, limit: int) -> list[tuple[int, str, str, str]]:
        """Return up to `limit` committed deadlines that fall due by a time: (due ms, decider, deadline, key), in order."""
        found = list[tuple[int, str, str, str]]()
        for stored_key, _ in self.store.scan(DUE):
            deadline = due_of(stored_key)
            if deadline[0] > due_ms or len(found) >= limit:
                break
            found.append(deadline)
        return found

    def _remember(self, name: str, entry: Entry) -> None:
        self._cache[name] = entry
        self._cache.move_to_end(name)
        if len(self._cache) > self._cached_entries:
            self._cache.popitem(last=False)

    def _due_before(self, name: str) -> Mapping[str, int]:
        cached = self._cache.get(name)
        return self._stored_due(name) if cached is None else cached.memory.due

    def _stored_due(self, name: str) -> Mapping[str, int]:
        stored = self.store.get(name)
        return {} if stored is None else memory_of(unpack(name, stored)).due

    def _move_due(
        self, name: str, before: Mapping[str, int], after: Mapping[str, int], writes: dict[str, bytes | None]
    ) -> None:
        if before is after or before == after:
            return
        _, decider, key = name.split("/", 2)
        for deadline, at in before.items():
            writes[due_key(at, decider, deadline, key)] = None
        for deadline, at in after.items():
            writes[due_key(at, decider, deadline, key)] = b""
            self._due_bound = at if self._due_bound is None else min(self._due_bound, at)


def _text(record: Record) -> str:
    return (record.key or b"").decode()
