"""Reads the entries of a task's journal.

Uses only `read`, `start` and `end`, which every log has, and reads forwards in chunks: logs may have any length.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import NoReturn

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.records import JournalEntry

_CHUNK = 2_000
_LAST = 64


class TaskJournal:
    """The journal of one task, from its start."""

    def __init__(self, log: EventLog, service: Service, partition: int) -> None:
        self._log = log
        self._service = service
        self._partition = partition

    async def entries(self, first_offset: int | None = None) -> AsyncIterator[tuple[Record, JournalEntry]]:
        """Yield the journal's records up to its current end: from an offset on, or all.

        Raises: ContractError when the beginning is missing.
        """
        journal, partition, port = self._service.journal.name, self._partition, self._log.port
        offset = await port.start(journal, partition) if first_offset is None else first_offset
        end = await port.end(journal, partition)
        first = first_offset is None
        while offset < end and (records := await port.read(journal, partition, offset, min(_CHUNK, end - offset))):
            offset = records[-1].offset + 1
            for record in records:
                try:
                    entry = self._log.codec.decode(JournalEntry, record.value or b"")
                except UnknownSchema:
                    entry = await self._decoded(record)
                if first and not any(step.kind == "begin" for step in entry.steps):
                    await self._refuse(record)
                first = False
                yield record, entry

    async def newest(self) -> JournalEntry | None:
        """Return the journal's last entry; None when there is none."""
        place, port = (self._service.journal.name, self._partition), self._log.port
        at, start = await port.end(*place), await port.start(*place)
        while at > start:
            at = max(start, at - _LAST)  # an aborted transaction leaves a gap
            if records := await port.read(*place, at, _LAST):
                return await self._decoded(records[-1])
        return None

    async def _refuse(self, record: Record) -> NoReturn:
        """Refuse a journal of which this record is not the first."""
        topic_partition = record.topic, record.partition
        missing = "was dropped"
        if (start := await self._log.port.log_start(*topic_partition)) < record.offset:
            missing = f"cannot be read (`eventlib doctor --deep` names what is damaged from offset {start} on)"
        raise ContractError(
            f"the journal of {self._service.name}/{record.partition} begins in the middle, at offset {record.offset}: its "
            f"beginning {missing}, and earlier states cannot be known"
        )

    async def _decoded(self, record: Record) -> JournalEntry:
        unreadable = f"{record.topic}/{record.partition}/{record.offset} cannot be read: "
        decode = partial(self._log.codec.decode, JournalEntry, record.value or b"")
        return await self._log.codec.decode_now(decode, unreadable)
