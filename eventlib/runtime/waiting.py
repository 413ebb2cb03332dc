"""Finds what waits behind one parked key after the other, without reading the parked topic once for each."""

from collections.abc import Sequence

from eventlib.log.port import Log, Record, TopicPartition, key_text
from eventlib.runtime.parking import parked_facts, waiting_behind
from eventlib.runtime.records import ParkedKey

_CHUNK = 1_000
_MOST_BYTES = 20_000_000


class WaitingInputs:
    """The parked inputs of one task, by key, for as long as keys are released one after the other.

    Memory is bounded: what does not fit is read for each key anew.
    """

    def __init__(self, log: Log, place: TopicPartition) -> None:
        self._log = log
        self._place = place
        self._by_name: dict[tuple[str, str], list[Record]] = {}
        self._first = self._next = -1
        self._bytes = 0

    def forget(self) -> None:
        """Give the memory back."""
        if self._first >= 0:
            self._by_name = {}
            self._first = self._next = -1
            self._bytes = 0

    async def behind(self, parked: ParkedKey) -> Sequence[Record]:
        """Return the inputs of a parked key that wait, in order."""
        if self._first < 0 or parked.first < self._first:
            self.forget()
            self._first = self._next = parked.first
        while len(found := self._waiting(parked)) < parked.count:
            if self._bytes > _MOST_BYTES or not await self._read_on():
                return await waiting_behind(parked, self._place, self._log)
        return found

    def _waiting(self, parked: ParkedKey) -> list[Record]:
        known = self._by_name.get((parked.decider, parked.key), [])
        return [record for record in known if record.offset >= parked.first][: parked.count]

    async def _read_on(self) -> bool:
        records = await self._log.read(*self._place, self._next, _CHUNK)
        for record in records:
            name = parked_facts(record)["decider"], key_text(record)
            self._by_name.setdefault(name, []).append(record)
            self._bytes += len(record.value or b"") + _OVERHEAD_BYTES
            self._next = record.offset + 1
        return bool(records)


_OVERHEAD_BYTES = 1_000
"""What a record takes beside its value, about."""
