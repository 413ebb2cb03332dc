"""A task's state: what is committed, in a cache over the local store, and one transaction's changes on top."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from eventlib.codec.base import Codec
from eventlib.model.decider import Decider
from eventlib.model.record import Record
from eventlib.runtime.keyed_state import KeyedState, KeyLocation, entry_of, moved_of
from eventlib.runtime.records import DUE, changelog_key, due_key, due_of, pack, state_key, unpack
from eventlib.state.base import Store

_EMPTY = KeyedState()
_MOST_UNWRITTEN = 5_000
_MOST_UNWRITTEN_BYTES = 2_000_000

Name = tuple[str, str]
"""A decider's name and a key."""


class TaskState:
    """Entries and other changelog records of one task.

    Changes are seen at once by later reads of the same transaction; `records` lists them for the changelog, and
    either `commit` makes them the truth or `roll_back` drops them. The store gets them later, at `flush`: changes that a
    crash keeps from it are on the changelog, and a key that changes often is written once.
    """

    def __init__(self, store: Store, codec: Codec, deciders: Mapping[str, Decider[Any]], cached_entries: int) -> None:
        self.store = store
        self._codec = codec
        self._deciders = deciders
        self._cached_entries = cached_entries
        self._cache: OrderedDict[Name, KeyedState] = OrderedDict()
        self._changed: dict[Name, KeyedState] = {}
        self._put: dict[str, Record | None] = {}
        self._requests: dict[str, Record | None] = {}
        self._unwritten: dict[bytes | None, Record] = {}
        self._unwritten_bytes = 0
        self._index_moves: dict[str, bytes | None] = {}
        self._due_bound: int | None = 0
        self.due_counts = Counter[tuple[str, str]]()
        """How many keys of a decider have a deadline ahead of them, by both names; kept once `count_dues` was called."""
        self._counts_dues = False
        self._checkpoint = store.checkpoint

    def entry(self, decider: Decider[Any], key: str) -> KeyedState:
        """Return a key's entry as this transaction sees it; an empty one when the key was never seen."""
        name = (decider.name, key)
        found = self._changed.get(name)
        if found is not None:
            return _EMPTY if found.is_gone else found
        found = self._cache.get(name)
        if found is not None:
            self._cache.move_to_end(name)
            return found
        record = self._committed(state_key(*name))
        found = _EMPTY if record is None else entry_of(record, decider, self._codec)
        self._remember(name, found)
        return found

    def set_entry(self, decider: Decider[Any], key: str, entry: KeyedState) -> None:
        """Change a key's entry in this transaction."""
        self._changed[decider.name, key] = entry

    def get(self, key: str) -> Record | None:
        """Return the changelog record under a key (not a state's), as this transaction sees it."""
        return self._put[key] if key in self._put else self._committed(key)

    def put(self, key: str, record: Record | None) -> None:
        """Change the changelog record under a key (not a state's) in this transaction; None removes it."""
        self._put[key] = record

    def committed(self, prefix: str) -> Iterator[Record]:
        """Yield the committed changelog records whose keys begin with a prefix."""
        self.flush()
        for key, stored in self.store.scan(prefix):
            yield unpack(key, stored)

    # --- requests with entries of their own, and an index of them by number and by time, which only the local store has

    def request(self, key: str) -> Record | None:
        """Return the changelog record of a request, as this transaction sees it."""
        return self._requests[key] if key in self._requests else self._committed(key)

    def put_request(self, key: str, record: Record | None) -> None:
        """Change the changelog record of a request in this transaction; None removes it."""
        self._requests[key] = record

    def numbered_request(self, decider: str, key: str, number: int) -> str | None:
        """Return the id of the request that a key has moved as its `number`-th, if it is committed and still there."""
        by_number = _number_key(decider, key, number)
        found = self._index_moves[by_number] if by_number in self._index_moves else self.store.get(by_number)
        return None if found is None else found.decode()

    def expired_requests(self, at_ms: int, limit: int) -> list[str]:
        """Return the changelog keys of up to `limit` committed requests that are remembered to a time or a former one."""
        self.flush()
        found = list[str]()
        for stored, _ in self.store.scan(_BY_TIME):
            until, key = stored.removeprefix(_BY_TIME).split("/", 1)
            if int(until) > at_ms or len(found) >= limit:
                break
            found.append(key)
        return [key for key in found if key not in self._requests]

    def _move_request(self, key: str, after: Record | None) -> None:
        before = self._committed(key)
        for record, is_there in ((before, False), (after, True)):
            if record is not None:
                _, decider, of_key, request_id = changelog_key(key)
                moved = moved_of(record, request_id)
                by_number = _number_key(decider, of_key, moved.number)
                self._index_moves[by_number] = request_id.encode() if is_there else None
                until_ms = min(moved.until_ms, _LAST_MS)
                self._index_moves[f"{_BY_TIME}{until_ms:015d}/{key}"] = b"" if is_there else None

    @property
    def is_changed(self) -> bool:
        """Whether this transaction changes anything."""
        return bool(self._changed or self._put)  # requests change with a key's state

    def records(self, place: KeyLocation, sources: Mapping[str, str]) -> list[Record]:
        """Return this transaction's changes as changelog records; `sources` names each decider's `service/decider`."""
        states = [entry.record(name, place, sources[name[0]], self._codec) for name, entry in self._changed.items()]
        others = {**self._put, **self._requests} if self._requests else self._put
        return states + [_placed(key, record, place) for key, record in others.items()]

    def commit(self, records: list[Record], checkpoint: int) -> None:
        """Make this transaction's changes the truth; `records` are theirs as they stand on the changelog."""
        for key, request in self._requests.items():
            self._move_request(key, request)
        self._write_later(records)
        for name, entry in self._changed.items():
            before = self._cache.get(name)
            due = self._stored_due(name) if before is None else before.due
            if due is not entry.due:
                self._move_due(name, due, entry.due)
            self._remember(name, entry)
        self._checkpoint = checkpoint
        self.roll_back()

    @property
    def wants_flush(self) -> bool:
        """Whether the store should get what was committed: it takes room meanwhile."""
        return len(self._unwritten) > _MOST_UNWRITTEN or self._unwritten_bytes > _MOST_UNWRITTEN_BYTES

    def roll_back(self) -> None:
        """Drop this transaction's changes."""
        self._changed = {}
        self._put = {}
        self._requests = {}

    def restore(self, records: list[Record], checkpoint: int) -> None:
        """Take committed changelog records in, as a restart or a takeover reads them."""
        newest = {record.key: record for record in records}.values()
        for record in newest:
            key = _text(record.key)
            about = changelog_key(key)
            if about.kind == "state":
                name = about.decider, about.key
                self._move_due(name, self._stored_due(name), self._due(name, record))
            elif about.kind == "request":
                self._move_request(key, None if record.value is None else record)
        self._write_later(newest)
        self._checkpoint = checkpoint
        self.flush()

    def flush(self) -> None:
        """Hand what was committed to the store, with the place on the changelog up to which it is complete."""
        if self._checkpoint == self.store.checkpoint:
            return
        writes: dict[str, bytes | None] = {
            _text(key): None if record.value is None else pack(record) for key, record in self._unwritten.items()
        }
        self.store.write({**writes, **self._index_moves}, self._checkpoint)
        self._unwritten = {}
        self._unwritten_bytes = 0
        self._index_moves = {}

    def close(self) -> None:
        """Hand everything to the store and close it."""
        self.flush()
        self.store.close()

    # --- deadlines: an index by time, which only the local store has, since it follows from the states

    def due_from(self, now_ms: int, waits: Callable[[str, str, str], bool]) -> int | None:
        """Return a time (ms) before which no deadline of a key that is not parked falls due; None without deadlines.

        It is a bound until it has come; then it is looked up, so that most transactions look at no deadline at all.
        """
        if self._due_bound is not None and self._due_bound <= now_ms:
            due = (due for due in self._dues() if not waits(*due[1:]))
            self._due_bound = next((at for at, *_ in due), None)
        return self._due_bound

    def count_dues(self) -> None:
        """Count deadlines from now on: those that are there are looked at once."""
        self.due_counts = Counter((decider, deadline) for _, decider, deadline, _ in self._dues())
        self._counts_dues = True

    @property
    def due_bound(self) -> int | None:
        """A time (ms) before which nothing falls due, as far as that is known; None: there is nothing."""
        return self._due_bound

    def look_at_deadlines(self) -> None:
        """Look deadlines up at the next `due_from`, since a key was released or resumed."""
        self._due_bound = 0

    def due_by(
        self, due_ms: int, limit: int, waits: Callable[[str, str, str], bool]
    ) -> list[tuple[int, str, str, str]]:
        """Return up to `limit` committed deadlines due by a time: (due ms, decider, deadline, key), in order.

        Those of keys that wait are left out.
        """
        found = list[tuple[int, str, str, str]]()
        for due in self._dues():
            if due[0] > due_ms or len(found) >= limit:
                break
            if not waits(*due[1:]):
                found.append(due)
        return found

    def _dues(self) -> Iterator[tuple[int, str, str, str]]:
        self.flush()
        return (due_of(key) for key, _ in self.store.scan(DUE))

    def _move_due(self, name: Name, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        if before == after:
            return
        if self._counts_dues:
            self.due_counts.subtract((name[0], deadline) for deadline in before)
            self.due_counts.update((name[0], deadline) for deadline in after)
        for deadline, at in before.items():
            self._index_moves[due_key(at, name[0], deadline, name[1])] = None
        for deadline, at in after.items():
            self._index_moves[due_key(at, name[0], deadline, name[1])] = b""
            self._due_bound = at if self._due_bound is None else min(self._due_bound, at)

    def _stored_due(self, name: Name) -> Mapping[str, int]:
        record = self._committed(state_key(*name))
        return {} if record is None else self._due(name, record)

    def _due(self, name: Name, record: Record) -> Mapping[str, int]:
        decider = self._deciders.get(name[0])
        if decider is None or not decider.has_deadlines or not record.value:
            return {}
        return entry_of(record, decider, self._codec).due

    # --- the store, and what it has not got yet

    def _committed(self, key: str) -> Record | None:
        record = self._unwritten.get(key.encode())
        if record is not None:
            return None if record.value is None else record
        stored = self.store.get(key)
        return None if stored is None else unpack(key, stored)

    def _write_later(self, records: Iterable[Record]) -> None:
        unwritten, size = self._unwritten, 0
        for record in records:
            unwritten[record.key] = record
            if record.value is not None:
                size += len(record.value)
        self._unwritten_bytes += size

    def _remember(self, name: Name, entry: KeyedState) -> None:
        cache = self._cache
        cache[name] = entry if entry.state is not None or entry.memory.answered else _EMPTY
        cache.move_to_end(name)
        if len(cache) > self._cached_entries:
            cache.popitem(last=False)


_BY_TIME, _BY_NUMBER = "once/time/", "once/number/"
_LAST_MS = 10**15 - 1


def _number_key(decider: str, key: str, number: int) -> str:
    return f"{_BY_NUMBER}{decider}/{len(key)}/{key}/{number:015d}"


def _placed(key: str, record: Record | None, place: KeyLocation) -> Record:
    topic, partition, at_ms = place
    if record is None:
        return Record(topic, partition, -1, at_ms, key.encode(), None)
    return Record(topic, partition, -1, record.timestamp_ms, key.encode(), *record.astuple()[5:])


def _text(key: bytes | None) -> str:
    return (key or b"").decode()
