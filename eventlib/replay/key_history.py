"""The history of one key under one decider, from its task's journal and the log."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, UndecodableRecord, UnknownKey, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.base import undecodable
from eventlib.log.reading import records_between
from eventlib.model.decider import Decider
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.queries.state import newest_of_key, task_of, unknown_key
from eventlib.replay.history_builder import ConsumedInput, KeyHistoryBuilder, StateTakenOver
from eventlib.replay.journal import TaskJournal
from eventlib.replay.journal_steps import Act, Consumed, Discarded, Done, Moved, Refusal, Released, TookOver
from eventlib.replay.outputs import find_emitted, recorded, refuse_dropped
from eventlib.replay.player import Player
from eventlib.replay.steps import HistoryStep, RecordedEvent
from eventlib.replay.task_inputs import PullScanner, TaskInputs
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import TaskClock, state_key
from eventlib.values import to_ms


class ActsOfKey:
    """Collects the transactions of a task that concern one key of a decider; `clock` orders the times of what it has read."""

    def __init__(self, log: EventLog, task: tuple[Service, int], decider: Decider[Any], key: str) -> None:
        self.clock = TaskClock()
        self._log = log
        self._service, self._partition = task
        self._decider, self._key = decider.name, key
        self._reader = InputReader(log, self._service)
        handled = [contract_of(event_type) for event_type in decider.handlers]
        self._types = {contract.type for contract in handled}
        self._topics = {contract.topic.name for contract in handled}
        self._acts = list[Act | ConsumedInput | StateTakenOver]()

    async def read(
        self, since_ms: int | None = None
    ) -> list[tuple[Done, Sequence[Act | ConsumedInput | StateTakenOver]]]:
        """Return the transactions, all or from a time on, in order.

        Raises: ContractError when retention has dropped some, or their inputs.
        """
        found, is_known = list[tuple[Done, Sequence[Act | ConsumedInput | StateTakenOver]]](), False
        task = self._service, self._partition
        inputs = TaskInputs(PullScanner(self._log), task, self._topics)
        player = Player(self._log, task, inputs, only=(self._decider, self._key))
        journal = self._service.journal.name, self._partition
        first = None if since_ms is None else await self._log.port.offset_at(*journal, since_ms)
        async for record, entry in TaskJournal(self._log, *task).entries(first):
            for step in entry.steps if first is not None else ():
                if step.kind == "run" and step.topic not in inputs.positions:
                    inputs.begin(step.topic, step.first)
            self.clock = self.clock.after(entry)
            for act in await player.play(entry):
                await self._visit(act)
            acts, self._acts = self._acts, []
            # A takeover concerns all keys: it is no step of this one while neither side knows it.
            if any(not isinstance(act, StateTakenOver) or act.record is not None or is_known for act in acts):
                is_known |= not all(isinstance(act, InputStart) for act in acts)
                found.append((Done(record.offset, entry.at_ms, entry.code_version, entry.said, ()), acts))
        return found

    async def _visit(self, act: Act) -> None:
        match act:
            case Consumed(topic, first):
                is_external = topic in self._reader.external  # its records may have another key than their events
                for record, refused in act.each():
                    if record.offset >= first and (is_external or key_text(record) == self._key):
                        self._acts += await self._consumed(record, refused.get(self._decider))
            case Released() | Discarded():
                await self._retry(act)
            case Moved():
                act.loss(self._service.name)
                end = act.to if act.topic in self._topics else 0
                async for record in records_between(self._log.port, (act.topic, self._partition), act.first, end):
                    self._acts += await self._consumed(record, Refusal("drop", act.why))
            case TookOver(changelog, why):
                key = state_key(self._decider, self._key)
                known = await newest_of_key(self._log, changelog, self._partition, key)
                self._acts.append(StateTakenOver(None if known is None or known.value is None else known, why))
            case _:
                self._acts.append(act)

    async def _retry(self, act: Released | Discarded) -> None:
        if isinstance(act, Discarded):
            found = await self._consumed(act.record, Refusal("discard", act.discard.why))
        elif act.record.topic:  # a deadline has none: it falls due again by itself
            found = await self._consumed(act.shown, act.refused)
            if act.edit is not None:
                found = [
                    each._replace(input=each.input._replace(record=act.record), edited=act.edit.why) for each in found
                ]
        else:
            return
        self._acts += [each._replace(was_parked=True) for each in found]

    async def _consumed(self, record: Record, refused: Refusal | None) -> list[ConsumedInput]:
        """Return an input of the key; nothing for any other one."""
        read = await self._read(record)
        is_own = key_text(read.record) == self._key
        is_input = is_own and (read.type in self._types or (refused is not None and read.event is None))
        return [ConsumedInput(read, refused, was_parked=False)] if is_input else []

    async def _read(self, record: Record) -> RecordedEvent:
        try:
            return RecordedEvent(*await self._log.codec.known(partial(self._reader.read, record)))
        except UnknownSchema as error:
            return recorded(record, undecodable(record, str(error)))
        except UndecodableRecord as error:
            return recorded(record, error)


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The steps of a key under its decider, in order.

    `doubt` is a sentence when the current code does not reproduce the last recorded state: evolve has changed since
    then, and earlier states may differ too. It is empty when all is as recorded. `clock` orders the steps' times.
    """

    service: Service
    decider: Decider[Any]
    key: str
    partition: int
    steps: Sequence[HistoryStep[Any]]
    doubt: str
    clock: TaskClock


async def key_history(
    log: EventLog, decider: Decider[Any], key: str, *, is_newest: bool = True, since_ms: int | None = None
) -> KeyHistory:
    """Read a key's history. `is_newest=False`: the changelog may lack the last recorded state.

    `since_ms` is a time before which the key had no input: nothing older is read, unless the steps since then do not
    make the last recorded state.

    Cost: the key's partition of the journal, of the inputs and of the outputs; for outputs with other keys all
    partitions, from the key's first step on.
    Raises: WiringError for a decider of another choreography; UnknownKey; ContractError when retention has dropped
    records that it needs, or when the current code cannot read them.
    """
    if since_ms is not None:
        try:
            found = await _key_history(log, decider, key, is_newest=is_newest, since_ms=since_ms)
        except UnknownKey:
            raise
        except ContractError:  # without its first inputs, evolve may refuse the others
            pass
        else:
            if not found.doubt:
                return found
    return await _key_history(log, decider, key, is_newest=is_newest)


async def _key_history(
    log: EventLog, decider: Decider[Any], key: str, *, is_newest: bool, since_ms: int | None = None
) -> KeyHistory:
    steps: Sequence[HistoryStep[Any]] = ()
    service = _service_of(log, decider)
    partition, own_key = task_of(service, decider, key)
    # Read first, so that the journal has the transaction that wrote it.
    changelog = service.changelog.name, partition
    newest = await newest_of_key(log, *changelog, state_key(decider.name, own_key), since_ms=since_ms)
    acts_of_key = ActsOfKey(log, (service, partition), decider, own_key)
    transactions = await acts_of_key.read(since_ms)
    begun_ms = min(
        (done.at_ms for done, acts in transactions if any(not isinstance(act, InputStart) for act in acts)),
        default=None,
    )
    if begun_ms is None and newest is not None and since_ms is not None:
        raise ContractError(f"{decider.name} had an input of key {key!r} before")
    if begun_ms is None:
        raise unknown_key(decider, key)
    until_ms = newest.timestamp_ms if newest is not None and is_newest else None
    # First where they nearly always are, last everywhere.
    for until, everywhere in (*([(until_ms, False)] if until_ms is not None else []), (None, False), (None, True)):
        emitted = await find_emitted(log, decider, own_key, since_ms=begun_ms, until_ms=until, everywhere=everywhere)
        builder = KeyHistoryBuilder(log, decider, own_key, emitted)
        steps = [step for done, acts in transactions for act in acts if (step := builder.step(done, act)) is not None]
        if _is_whole(steps, newest):
            break
    else:
        await refuse_dropped(log, decider)
    doubt = _doubt(log, decider, steps, newest)
    return KeyHistory(service, decider, key, partition, steps, doubt, acts_of_key.clock)


async def history(log: EventLog, decider: Decider[S], key: str) -> AsyncIterator[HistoryStep[S]]:
    """Yield the steps of a key under its decider, in order.

    `async for step in history(log, orders, "42"): print(step.at, step.input, step.emitted, step.changes)`

    Guarantee: exact, from the journal, the inputs and the outputs; no handler and no effect runs. The states are those
    that the current `evolve` builds from the records.
    Raises: WiringError for a decider of another choreography; UnknownKey when it never had the key; ContractError when
    retention has dropped records that it needs, or when the current evolve fails on them.
    """
    for step in (await key_history(log, decider, key)).steps:
        yield step


def _is_whole(steps: Sequence[HistoryStep[Any]], newest: Record | None) -> bool:
    """Return whether all outputs are there, by their sequence numbers."""
    for step in steps:
        numbers = [each.record.sequence for each in step.emitted]
        if numbers != [step.entry_before.sequence + n + 1 for n in range(len(numbers))]:
            return False
    return newest is None or any(step.entry_after.sequence == newest.sequence for step in _of(steps, newest))


def _of(steps: Sequence[HistoryStep[Any]], change: Record) -> list[HistoryStep[Any]]:
    """Return the steps of the transaction that wrote a state to the changelog."""
    return [step for step in steps if to_ms(step.at) == change.timestamp_ms]


def _doubt(log: EventLog, decider: Decider[Any], steps: Sequence[HistoryStep[Any]], newest: Record | None) -> str:
    if newest is None:
        return ""
    try:
        entry = entry_of(newest, decider, log.codec)
    except (ContractError, UnknownSchema) as error:
        return f"the current code cannot read the last recorded state: {error}"
    memory, _ = entry.memory.bounded(newest.timestamp_ms)  # an earlier release kept all requests with the key
    entry = entry.replace(memory=memory)
    if any(step.entry_after == entry for step in _of(steps, newest)):
        return ""
    versions = ", ".join(dict.fromkeys(step.code_version for step in steps))
    return (
        f"the current code does not reproduce the last recorded state of {decider.name}: evolve has changed since, "
        f"and earlier states may differ too (decided by code {versions})"
    )


def _service_of(log: EventLog, decider: Decider[Any]) -> Service:
    if decider not in log.choreography.deciders:
        raise WiringError(f"decider {decider.name} is not one of {log.choreography.name}: open the log with its own")
    return log.choreography.service_of(decider)
