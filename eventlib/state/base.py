"""The port to a local store: a task's cache of its changelog, which can be thrown away at any time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping


class Store(ABC):
    """Bytes by key for one task, with the changelog offset up to which they are complete.

    Guarantee: what is read after a restart is exactly what was written up to the checkpoint, never a part of a
    `write`; a crash may take the latest writes with it, and then the checkpoint is the older one. The runtime writes
    seldom, and much at a time.
    """

    @property
    @abstractmethod
    def checkpoint(self) -> int:
        """The changelog offset to go on from; 0 for an empty store."""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return a key's bytes, or None."""

    @abstractmethod
    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """Put keys (None deletes), and move the checkpoint with them.

        Raises: OwnershipLost when an owner with a newer epoch has opened the task's store.
        """

    @abstractmethod
    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys with a prefix, in key order; what is written meanwhile may be among them or not."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything, so that the checkpoint is 0: for a cache that does not fit its log."""

    @abstractmethod
    def close(self) -> None:
        """Close it, with a note of how far it is complete."""


class Stores(ABC):
    """Where a process keeps the stores of its tasks."""

    @abstractmethod
    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """Open a task's store.

        It comes back empty when it belongs to another log, when it is damaged, and when it was last flushed so long
        ago that the changelog may have dropped a tombstone since. Guarantee: an owner with an older epoch cannot write
        into it any more. Raises: OwnershipLost when a newer epoch has opened it.
        """

    def open_copy(self, service: str, partition: int, log_id: str) -> Store | None:
        """Open a task's store to keep a copy of what another process owns; see `open` for when it comes back empty.

        The next owner in this process ends it. None where processes share a task's store, so that there is no copy.
        """
        del service, partition, log_id
        return None

    @abstractmethod
    def close(self) -> None:
        """Close what is shared by the stores."""
