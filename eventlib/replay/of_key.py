"""What a task did under one key of a decider: in the order of the journal, decoded, and nothing of other keys."""

from collections.abc import AsyncIterator, Iterable, Sequence

from eventlib.codec.port import UnknownSchema
from eventlib.errors import UndecodableRecord
from eventlib.event import contract_of
from eventlib.eventlog import EventLog
from eventlib.log.port import Record, key_text
from eventlib.replay.acts import Act, Done, Input, Moved, Refusal, Released
from eventlib.replay.folding import Taken
from eventlib.replay.journal import Only, TaskJournal
from eventlib.replay.said import recorded
from eventlib.replay.steps import Recorded
from eventlib.runtime.inputs import InputReader
from eventlib.service import Service

_CHUNK = 2_000


class ActsOfKey:
    """The transactions of a task that had to do with one key of a decider."""

    def __init__(self, log: EventLog, service: Service, partition: int, only: Only) -> None:
        self._log = log
        self._partition = partition
        self._only = only
        self._journal = TaskJournal(log, service, partition, only)
        self._reader = InputReader(log, service)
        handled = [contract_of(event_type) for event_type in log.choreography.decider(only.decider).handlers]
        self._types = {contract.type for contract in handled}
        self._topics = {contract.topic.name for contract in handled}

    async def __aiter__(self) -> AsyncIterator[tuple[Done, Sequence[Act | Taken]]]:
        """Yield each transaction that had to do with the key, with what it did."""
        async for done in self._journal:
            acts = [each for act in done.acts async for each in self._met(act)]
            if acts:
                yield done, acts

    async def _met(self, act: Act) -> AsyncIterator[Act | Taken]:
        match act:
            case Input(record, refused, journalled):
                if journalled:
                    async for taken in self._taken([record], refused.get(self._only.decider)):
                        yield taken
            case Released(record=record, refused=refused):
                if record.topic:  # a deadline has none: it falls due again by itself
                    async for taken in self._taken([record], refused):
                        yield taken._replace(was_parked=True)
            case Moved():
                async for taken in self._taken(await self._gone_past(act), Refusal("drop", act.why)):
                    yield taken
            case _:
                yield act

    async def _taken(self, records: Iterable[Record], refused: Refusal | None) -> AsyncIterator[Taken]:
        for record in records:
            read = await self._read(record)
            is_own = key_text(read.record) == self._only.key
            if is_own and (read.type in self._types or (refused is not None and read.event is None)):
                yield Taken(read, refused, was_parked=False)

    async def _read(self, record: Record) -> Recorded:
        try:
            return Recorded(*self._reader.read(record))
        except UnknownSchema:
            await self._log.codec.refresh()
            self._reader.schemas_known = True
        except UndecodableRecord as error:
            return recorded(record, error)
        return await self._read(record)

    async def _gone_past(self, moved: Moved) -> list[Record]:
        found = list[Record]()
        offset = moved.first if moved.topic in self._topics else moved.to
        while offset < moved.to and (
            records := await self._log.port.read(moved.topic, self._partition, offset, _CHUNK)
        ):
            offset = records[-1].offset + 1
            found += [record for record in records if record.offset < moved.to]
        return found
