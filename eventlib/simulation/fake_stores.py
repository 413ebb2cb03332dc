"""The disks of simulated processes: the schedule chooses what a restart finds in a task's local store."""

from collections.abc import Mapping
from typing import NamedTuple

from eventlib.log.base import TOMBSTONES_KEPT
from eventlib.state.base import Store, Stores
from eventlib.state.memory import MemoryStores


class Snapshot(NamedTuple):
    """A local store's content at a time (ms), complete up to an offset of its changelog."""

    values: Mapping[str, bytes]
    checkpoint: int
    at_ms: int


NOTHING = Snapshot({}, 0, 0)
_TOMBSTONES_KEPT_MS = TOMBSTONES_KEPT.total_seconds() * 1000


class FakeStores(Stores):
    """Keeps snapshots of local stores; `insert` sets what the next `open` of a task finds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], list[Snapshot]] = {}
        self._inserted: dict[tuple[str, int], Snapshot] = {}

    def keep(self, task: tuple[str, int], store: Store, at_ms: int) -> None:
        """Keep a snapshot of a task's store."""
        self._kept.setdefault(task, []).append(Snapshot(dict(store.scan("")), store.checkpoint, at_ms))

    def lose_newest(self, task: tuple[str, int]) -> bool:
        """Lose the last unsynced write of a disk; False when there is none."""
        kept = self._kept.get(task)
        if not kept:
            return False
        kept.pop()
        return True

    def snapshots(self, task: tuple[str, int], now_ms: int) -> list[Snapshot]:
        """Return what a restart may find: newest first, and last, nothing.

        One that is too old comes back empty, as `Stores.open` guarantees.
        """
        kept = [each for each in self._kept.get(task, []) if now_ms - each.at_ms < _TOMBSTONES_KEPT_MS]
        return [*reversed(kept), NOTHING]

    def insert(self, task: tuple[str, int], snapshot: Snapshot) -> None:
        """Let the next owner of a task find this."""
        self._inserted[task] = snapshot

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`."""
        store = MemoryStores().open(service, partition, epoch, log_id)
        found = self._inserted.pop((service, partition), NOTHING)
        if found.values or found.checkpoint:
            store.write(found.values, found.checkpoint)
        return store

    def close(self) -> None:
        """See `Stores.close`."""
