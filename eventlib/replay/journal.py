"""Reads a task's journal: its entries, the refusals of each step, and what steps refer to.

Uses only `read`, `start` and `end`, which every log has, and reads forwards in chunks: logs may have any length.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NoReturn

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.journal_steps import NONE_REFUSED, Moved, Refusal
from eventlib.runtime.inputs import as_written
from eventlib.runtime.parking.parked import original_of
from eventlib.runtime.records import JournalEntry, Step

_CHUNK = 2_000


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


async def parked_input(log: EventLog, topic_partition: TopicPartition, offset: int) -> Record:
    """Return a parked input as it is on its topic; if it was damaged and is repaired now, as it was written.

    Raises: ContractError when it is no longer there.
    """
    topic, partition = topic_partition
    records = await log.port.read(topic, partition, offset, 1)
    if not records or records[0].offset != offset:
        raise ContractError(f"{topic}/{partition}/{offset} was released, and is no longer there")
    return await as_written(records[0], log.port) or original_of(records[0])[1]


def pass_loss(service: str, moved: Moved) -> str:
    """Return what a replay says of inputs that were gone before the task read them; nothing where an operator moved it.

    Raises: ContractError where those that it handled before are gone as well, since the topic was another one then.
    """
    if not moved.is_loss:
        return ""
    if moved.to < moved.first:
        raise ContractError(
            f"{service} has handled inputs of {moved.topic} that are not on the log any more ({moved.why}), so its "
            "journal cannot be replayed: leave the service out, and name the others"
        )
    return f"{service} went on without inputs that were gone before it read them: {moved.why}"


def with_refusals(steps: Sequence[Step]) -> Iterator[tuple[Step, Mapping[str, Refusal]]]:
    """Yield each step that is not a refusal, with the refusals of it by decider."""
    at = 0
    while at < len(steps):
        step = steps[at]
        at += 1
        if at == len(steps) or steps[at].kind not in _REFUSALS:
            yield step, NONE_REFUSED
            continue
        refused = dict[str, Refusal]()
        while at < len(steps) and (kind := _REFUSALS.get(steps[at].kind)) is not None:
            refused[steps[at].decider] = Refusal(kind, steps[at].detail)
            at += 1
        yield step, refused


_REFUSALS: dict[str, Literal["drop", "park"]] = {"drop": "drop", "park": "park"}
