"""Facts of operators that belong to no service: JSON notes by kind and name, on the compacted topic `_operations`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventlib.errors import ContractError
from eventlib.log.base import Log
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

OPERATIONS = Topic("_operations", partitions=1, compacted=True)
"""The notes of all kinds; the key of a record is `KIND/NAME`, and a tombstone deletes a note."""

_PLACE = (OPERATIONS.name, 0)


@dataclass(frozen=True, slots=True)
class SharedNote:
    """A note as JSON has it, with who wrote it and when (ms since 1970)."""

    value: Any
    by: str
    at_ms: int


class SharedNotes:
    """The notes on a log, for all who operate it.

    Guarantee: a write is durable when it returns, and later reads see it; the last writer of a name wins. The topic is
    created by the first write. Raises: LogUnavailable and the like, as `Log.append` and `Log.newest` do.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    async def put(self, kind: str, name: str, value: object, by: str) -> None:
        """Write a note, in the place of the one with its name. Raises: ContractError for a bad kind or name."""
        note = {"value": value, "by": by, "at_ms": now_ms()}
        await self._write(kind, name, json.dumps(note, ensure_ascii=False, allow_nan=False).encode())

    async def delete(self, kind: str, name: str, by: str) -> None:
        """Delete a note; its record keeps who did that until compaction. Deleting what is not there changes nothing."""
        if name in await self.all(kind):
            await self._write(kind, name, None, by)

    async def all(self, kind: str) -> Mapping[str, SharedNote]:
        """Return the notes of a kind by name, in order of the names; none where the log has no such topic.

        Cost: one read of the topic, which is small. Raises: ContractError for a note that is not JSON.
        """
        if OPERATIONS.name not in await self._log.topics():
            return {}
        await self._log.decided_end(*_PLACE)
        kept, begin = dict[bytes, bytes](), f"{kind}/".encode()
        await self._log.newest(_PLACE, await self._log.start(*_PLACE), kept, None)
        found = sorted((key, value) for key, value in kept.items() if key.startswith(begin))
        return {key[len(begin) :].decode(): _read(key, value) for key, value in found}

    async def _write(self, kind: str, name: str, value: bytes | None, by: str = "") -> None:
        if not kind or "/" in kind or not name:
            raise ContractError(f"a note has a kind without / and a name: {kind!r} and {name!r} are not")
        if OPERATIONS.name not in await self._log.topics():
            await self._log.create_topics([OPERATIONS])
        headers = (("by", by.encode()),) if by else ()
        await self._log.append([Record(*_PLACE, -1, now_ms(), f"{kind}/{name}".encode(), value, headers=headers)])


def _read(key: bytes, value: bytes) -> SharedNote:
    try:
        found = json.loads(value)
        return SharedNote(found["value"], str(found["by"]), int(found["at_ms"]))
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise ContractError(f"{OPERATIONS.name}: {key.decode()} is not a note: {error}; write it again") from error
