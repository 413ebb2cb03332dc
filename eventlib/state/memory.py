"""Stores in memory: every start restores from the changelog."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eventlib.errors import OwnershipLost
from eventlib.state.base import Store, Stores


@dataclass
class _Task:
    """What is kept of one task."""

    log_id: str
    epoch: int
    checkpoint: int = 0
    values: dict[str, bytes] = field(default_factory=dict)


class MemoryStores(Stores):
    """The stores of a process that keeps nothing on disk."""

    def __init__(self) -> None:
        self._tasks = dict[tuple[str, int], _Task]()

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`."""
        task = self._tasks.get((service, partition))
        if task is None or task.log_id != log_id:
            task = self._tasks[service, partition] = _Task(log_id, epoch)
        refuse_older(service, partition, epoch, task.epoch)
        task.epoch = epoch
        return _MemoryStore(task, service, partition)

    def open_copy(self, service: str, partition: int, log_id: str) -> Store:
        """See `Stores.open_copy`."""
        task = self._tasks.get((service, partition))
        return self.open(service, partition, 0 if task is None or task.log_id != log_id else task.epoch, log_id)

    def close(self) -> None:
        """See `Stores.close`."""
        self._tasks.clear()


class _MemoryStore(Store):
    """One task's values in a dict."""

    def __init__(self, task: _Task, service: str, partition: int) -> None:
        self._task = task
        self._place = (service, partition)
        self._epoch = task.epoch

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._task.checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        return self._task.values.get(key)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        refuse_older(*self._place, self._epoch, self._task.epoch)
        for key, value in changes.items():
            if value is None:
                self._task.values.pop(key, None)
            else:
                self._task.values[key] = value
        self._task.checkpoint = checkpoint

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`."""
        for key in sorted(key for key in self._task.values if key.startswith(prefix)):
            value = self._task.values.get(key)
            if value is not None:
                yield key, value

    def clear(self) -> None:
        """See `Store.clear`."""
        refuse_older(*self._place, self._epoch, self._task.epoch)
        self._task.values.clear()
        self._task.checkpoint = 0

    def close(self) -> None:
        """See `Store.close`; the values stay for the task's next owner in this process."""


def refuse_older(service: str, partition: int, epoch: int, newest: int) -> None:
    """Refuse an owner whose place was taken over. Raises: OwnershipLost."""
    if epoch < newest:
        raise OwnershipLost(
            f"the store of partition {partition} of service {service!r} has a newer owner (epoch {newest}, this is "
            f"epoch {epoch}): drop what was worked out, and start over when it is owned again"
        )
