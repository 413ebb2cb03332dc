"""All that is known of one key's history under one decider, from its task's journal and the log."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, UndecodableRecord, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import Record, key_text
from eventlib.model.decider import Decider
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.queries.state import newest_of_key, task_of, unknown_key
from eventlib.replay.history_builder import KeyFold, Replaced, Taken
from eventlib.replay.journal import Only, TaskJournal
from eventlib.replay.journal_steps import Act, Begun, Discarded, Done, Input, Moved, Refusal, Released, TookOver
from eventlib.replay.outputs import Search, find_emitted, recorded, refuse_dropped
from eventlib.replay.steps import HistoryStep, RecordedEvent
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import state_key
from eventlib.values import to_ms

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

    async def _read(self, record: Record) -> RecordedEvent:
        try:
            return RecordedEvent(*self._reader.read(record))
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


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The steps of a key under its decider, in order.

    `doubt` is a sentence when today's code does not come to the state that was recorded last: evolve was changed
    since then, and earlier states may not be what they were either. It is empty when all is as recorded.
    """

    service: Service
    decider: Decider[Any]
    key: str
    partition: int
    steps: Sequence[HistoryStep[Any]]
    doubt: str


async def key_history(log: EventLog, decider: Decider[Any], key: str, *, is_newest: bool = True) -> KeyHistory:
    """Read a key's past. `is_newest=False` tells that the changelog may lack what was recorded last.

    Cost: the key's own partition of the journal, of the decider's inputs and of what it says; of what it says under
    other keys than its own, all partitions, from the key's first step on.
    Raises: WiringError for a decider of another choreography; UnknownKey; ContractError when retention has dropped
    what its past is made of, or when today's code cannot read it.
    """
    steps: Sequence[HistoryStep[Any]] = ()
    service = _service_of(log, decider)
    partition, own_key = task_of(service, decider, key)
    # Read first, so that the journal has the transaction that wrote it.
    newest = await newest_of_key(log, service.changelog.name, partition, state_key(decider.name, own_key))
    transactions = [each async for each in ActsOfKey(log, service, partition, Only(decider.name, own_key))]
    since_ms = next(
        (done.at_ms for done, acts in transactions if any(not isinstance(act, Begun) for act in acts)), None
    )
    if since_ms is None:
        raise unknown_key(decider, key)
    for search in _searches(since_ms, newest if is_newest else None):
        said = await find_emitted(log, decider, own_key, search)
        fold = KeyFold(log, decider, own_key, said)
        steps = [step for done, acts in transactions for act in acts if (step := fold.step(done, act)) is not None]
        if _is_whole(steps, newest):
            break
    else:
        await refuse_dropped(log, decider)
    return KeyHistory(service, decider, key, partition, steps, _doubt(log, decider, steps, newest))


async def history(log: EventLog, decider: Decider[S], key: str) -> AsyncIterator[HistoryStep[S]]:
    """Yield the steps of a key under its decider, in the order in which they were taken.

    `async for step in history(log, orders, "42"): print(step.at, step.input, step.said, step.changes)`

    Guarantee: exact, from the journal, the inputs and what was said; no handler and no effect runs. The states are
    those that today's `evolve` makes of what was recorded.
    Raises: WiringError for a decider of another choreography; UnknownKey when it has never heard of the key;
    ContractError when retention has dropped what its past is made of, or when today's evolve cannot take it.
    """
    for step in (await key_history(log, decider, key)).steps:
        yield step


def _searches(since_ms: int, newest: Record | None) -> list[Search]:
    """Return where to look for what was said: first where it nearly always is, last everywhere."""
    likely = [] if newest is None else [Search(since_ms, newest.timestamp_ms)]
    return [*likely, Search(since_ms), Search(since_ms, everywhere=True)]


def _is_whole(steps: Sequence[HistoryStep[Any]], newest: Record | None) -> bool:
    """Tell by the events' sequence numbers whether all that was said is there."""
    for step in steps:
        numbers = [said.record.sequence for said in step.said]
        if numbers != [step.entry_before.sequence + n + 1 for n in range(len(numbers))]:
            return False
    return newest is None or any(step.entry_after.sequence == newest.sequence for step in _of(steps, newest))


def _of(steps: Sequence[HistoryStep[Any]], change: Record) -> list[HistoryStep[Any]]:
    """Return the steps that were taken when a state was written to the changelog."""
    return [step for step in steps if to_ms(step.at) == change.timestamp_ms]


def _doubt(log: EventLog, decider: Decider[Any], steps: Sequence[HistoryStep[Any]], newest: Record | None) -> str:
    if newest is None:
        return ""
    try:
        entry = entry_of(newest, decider, log.codec)
    except (ContractError, UnknownSchema) as error:
        return f"the state that was recorded last cannot be read by today's code: {error}"
    if any(step.entry_after == entry for step in _of(steps, newest)):
        return ""
    versions = ", ".join(dict.fromkeys(step.code_version for step in steps))
    return (
        f"today's code does not come to the state of {decider.name} that was recorded last: evolve was changed since, "
        f"and earlier states may differ from what they were, too (decided by code {versions})"
    )


def _service_of(log: EventLog, decider: Decider[Any]) -> Service:
    if decider not in log.choreography.deciders:
        raise WiringError(f"decider {decider.name} is not one of {log.choreography.name}: open the log with its own")
    return log.choreography.service_of(decider)
