"""A store with other records under it, which are seen where it has none of its own."""

from collections.abc import Callable, Iterator, Mapping

from eventlib.model.record import Record
from eventlib.runtime.records import pack
from eventlib.state.base import Store


class OverlaidStore(Store):
    """Reads fall through to `under`; scans do not, since they ask for what a task has under way."""

    def __init__(self, over: Store, under: Callable[[str], Record | None]) -> None:
        self._over = over
        self._under = under

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._over.checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        found = self._over.get(key)
        record = self._under(key) if found is None else None
        return found if record is None else pack(record)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self._over.write(changes, checkpoint)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`."""
        return self._over.scan(prefix)

    def clear(self) -> None:
        """See `Store.clear`."""
        self._over.clear()

    def close(self) -> None:
        """See `Store.close`."""
        self._over.close()
