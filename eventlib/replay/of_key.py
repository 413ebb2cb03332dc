"""What a task did under one key of a decider: in the order of the journal, decoded, and nothing of other keys."""

from collections.abc import AsyncIterator, Iterable, Sequence

from eventlib.codec.port import UnknownSchema
from eventlib.errors import UndecodableRecord
from eventlib.event import contract_of
from eventlib.eventlog import EventLog
from eventlib.inspection.state import newest_of_key
from eventlib.log.port import Record, key_text
from eventlib.replay.acts import Act, Begun, Discarded, Done, Input, Moved, Refusal, Released, TookOver
from eventlib.replay.folding import Replaced, Taken
from eventlib.replay.journal import Only, TaskJournal
from eventlib.replay.said import recorded
from eventlib.replay.steps import Recorded
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.records import state_key
from eventlib.service import Service

_CHUNK = 2_000


class ActsOfKey:
    """The transactions of a task that had to do with one key of a decider."""

    def __init__(self, log: EventLog, service: Service, partition: int, only: Only) -> None:
        self._log = log
        self._partition = partition
        self._only = only
        self._is_known = False
        self._journal = TaskJournal(log, service, partition, only)
        self._reader = InputReader(log, service)
        handled = [contract_of(event_type) for event_type in log.choreography.decider(only.decider).handlers]
        self._types = {contract.type for contract in handled}
        self._topics = {contract.topic.name for contract in handled}

    async def __aiter__(self) -> AsyncIterator[tuple[Done, Sequence[Act | Taken | Replaced]]]:
        """Yield each transaction that had to do with the key, with what it did."""
        async for done in self._journal:
            acts = [each for act in done.acts async for each in self._met(act)]
            # A rerun is taken over with all of its keys: for this one it is nothing, where nobody knows of it.
            if any(not isinstance(act, Replaced) or act.record is not None or self._is_known for act in acts):
                self._is_known |= not all(isinstance(act, Begun) for act in acts)
                yield done, acts

    async def _met(self, act: Act) -> AsyncIterator[Act | Taken | Replaced]:
        match act:
            case Input(record, refused, journalled):
                if journalled:
                    async for taken in self._taken([record], refused.get(self._only.decider)):
                        yield taken
            case Released() | Discarded():
                async for taken in self._met_again(act):
                    yield taken
            case Moved():
                async for taken in self._taken(await self._gone_past(act), Refusal("drop", act.why)):
                    yield taken
            case _:
                yield await self._replaced(act) if isinstance(act, TookOver) else act

    async def _met_again(self, act: Released | Discarded) -> AsyncIterator[Taken]:
        if isinstance(act, Discarded):
            async for taken in self._taken([act.record], Refusal("discard", act.discard.why)):
                yield taken._replace(was_parked=True)
        elif act.record.topic:  # a deadline has none: it falls due again by itself
            async for taken in self._taken([act.shown], act.refused):
                if act.edit is None:
                    yield taken._replace(was_parked=True)
                else:
                    read = taken.input._replace(record=act.record)
                    yield taken._replace(input=read, was_parked=True, edited=act.edit.why)

    async def _replaced(self, act: TookOver) -> Replaced:
        key = state_key(self._only.decider, self._only.key)
        known = await newest_of_key(self._log, act.changelog, self._partition, key)
        return Replaced(None if known is None or known.value is None else known, act.why)

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
