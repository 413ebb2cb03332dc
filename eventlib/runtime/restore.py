"""Restores a task from its changelog: at a start, at a takeover, and continuously as a standby."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eventlib.codec.base import Codec
from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.errors import ContractError, DamagedRecord, LogCorrupt, OwnershipLost, RetryableError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Claim, Membership
from eventlib.log.rules import witnessed_loss
from eventlib.model.decider import Decider
from eventlib.model.evolution import wire_name_of
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.context import RestoreProgress, RuntimeContext
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Positions, Step, state_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task


async def restored(service: Service, claim: Claim, context: RuntimeContext) -> Task:
    """Return the task of a claim as its last transaction left it; the local store spares reading what it has.

    Raises: OwnershipLost when a newer claim has opened the store; ContractError for states that today's code cannot
    read.
    """
    partition, port = claim.partition, context.log.port
    deciders = {decider.name: decider for decider in service.deciders}
    state = await restored_state(service, claim, context, deciders)
    try:
        await _refuse_unreadable(state, service, context)
        positions = await positions_in(state, context.log.codec)
        await _write_rebuilt(state, service, claim, context, positions)
        parked_end = await port.decided_end(service.parked.name, partition)
    except BaseException:
        state.store.close()
        raise
    version, ahead_ms = context.code_version, int(context.config.ahead_s * 1000)
    task = Task(service, partition, context.log, state, positions=positions, code_version=version, ahead_ms=ahead_ms)
    if context.observer is not None:
        task.observe(context.observer.clock)
    task.processor.parked_end = parked_end
    return task


async def _write_rebuilt(
    state: TaskState, service: Service, claim: Claim, context: RuntimeContext, positions: Positions
) -> None:
    """Write again what was damaged on the changelog, and note it in the journal."""
    rebuilt = context.rebuilt.pop((service.name, claim.partition), [])
    records = [record for _, each in rebuilt for record in each]
    if not records:
        return
    steps = [
        Step("mend", error.topic, error.offset, error.resume_at - 1, detail=str(error))
        for error, each in rebuilt
        if each
    ]
    value = context.log.codec.encode(JournalEntry(context.code_version, positions.at_ms, tuple(steps)))
    journal, kind = service.journal.name, wire_name_of(JournalEntry)
    entry = Record(journal, claim.partition, -1, positions.at_ms, None, value, type=kind)
    offsets = await context.log.port.append([*records, entry], claim)
    state.restore(records, offsets[-2] + 1)


async def _rebuilt(error: DamagedRecord, service: Service, partition: int, context: RuntimeContext) -> Sequence[Record]:
    """Return the records that replace a damaged changelog record. Raises: DamagedRecord when it cannot be rebuilt."""
    if context.log.rebuild is None:
        raise error
    records = await context.log.rebuild(context.log, service, partition, error)
    done = f"{len(records)} keys were rebuilt from the journal" if records else "its own events are written again"
    context.damage.note(error, done)
    context.rebuilt.setdefault((service.name, partition), []).append((error, records))
    return records


async def restored_state(
    service: Service, claim: Claim, context: RuntimeContext, deciders: Mapping[str, Decider[Any]]
) -> TaskState:
    """Return the state of a task. Without `deciders` no state is decoded, and there are no deadlines.

    Raises: OwnershipLost when a newer claim has opened the store.
    """
    store = context.stores.open(service.name, claim.partition, claim.epoch, context.log.port.log_id)
    try:
        state = TaskState(store, context.log.codec, deciders, context.cached_entries)
        await catch_up(state, service, claim.partition, context)
    except BaseException:
        store.close()
        raise
    return state


async def catch_up(state: TaskState, service: Service, partition: int, context: RuntimeContext) -> None:
    """Read what came to a task's changelog since; `context.restoring` shows how far that is.

    Raises: TailLost when the store has seen more of it than there is.
    """
    port, store = context.log.port, state.store
    changelog, place = service.changelog.name, (service.name, partition)
    # What a former owner has committed last may not be seen yet; who went on without it would do it again.
    end = await port.decided_end(changelog, partition)
    if store.checkpoint > end:
        raise witnessed_loss(port, (changelog, partition), end, f"the local store of {service.name}", store.checkpoint)
    if store.checkpoint == end:
        return
    shown = context.restoring[place] = RestoreProgress(store.checkpoint, store.checkpoint, end)
    try:
        while store.checkpoint < end:
            try:
                records = await port.read(changelog, partition, store.checkpoint, context.config.restore_chunk)
                checkpoint = records[-1].offset + 1 if records else end
            except DamagedRecord as error:
                records = [*await _rebuilt(error, service, partition, context)]
                checkpoint = error.resume_at
            await apply_changes(state, records, checkpoint, context.log.codec)
            shown.at = store.checkpoint
    finally:
        del context.restoring[place]


async def _refuse_unreadable(state: TaskState, service: Service, context: RuntimeContext) -> None:
    """Refuse to begin with states that today's code cannot read: their keys would all be parked, one by one.

    It looks through the states only where a registered version of their class cannot be read.
    """
    for decider in service.deciders:
        unreadable = await context.log.codec.unreadable(service.changelog.name, decider.state)
        if not unreadable:
            continue
        for record in state.committed(state_key(decider.name, "")):
            why = unreadable.get((record.value or b"")[:HEADER_BYTES])
            if why is not None:
                raise ContractError(
                    f"the state of {decider.name} {(record.key or b'').decode()[len(state_key(decider.name, '')) :]!r} "
                    f"cannot be read: {why}. Give {decider.state.__name__} what is missing (a default, an alias), "
                    f"bring it over with @upcasts({decider.state.__name__}, version=…), or rebuild the states from "
                    f"the log: `eventlib rerun {service.name}`. Nothing was changed"
                )


async def apply_changes(state: TaskState, records: list[Record], checkpoint: int, codec: Codec) -> None:
    """Take changelog records into a task's store; a newer version of the code may have written some of them."""
    await codec.known(lambda: state.restore(records, checkpoint))


async def positions_in(state: TaskState, codec: Codec) -> Positions:
    """Return where a task is."""
    record = state.get(POSITION_KEY)
    if record is None:
        return Positions()
    value = record.value or b""
    return await codec.known(lambda: codec.decode(Positions, value))


_log = logging.getLogger(__name__)
_LOOK_S = 0.05


class StandbyTasks:
    """The copies that a process keeps of one service's tasks: those that its membership names.

    `works` returns whether this process still works on a task itself: its store has one user at a time.
    """

    def __init__(
        self, service: Service, context: RuntimeContext, membership: Membership, works: Callable[[int], bool]
    ) -> None:
        self._service = service
        self._context = context
        self._membership = membership
        self._works = works
        self._copies = dict[int, asyncio.Task[None]]()

    async def run(self) -> None:
        """Keep copies until cancelled. Raises: what makes a copy impossible for good."""
        try:
            while True:
                wanted = await self._membership.stands_by(self._copies.keys())
                await cancelled(*[self._copies.pop(partition) for partition in self._copies.keys() - {*wanted}])
                for partition in {*wanted} - self._copies.keys():
                    copying = self._copy_patiently(partition)
                    self._copies[partition] = asyncio.create_task(copying, name=f"copy of {partition}")
        finally:
            await cancelled(*self._copies.values())

    async def _copy_patiently(self, partition: int) -> None:
        while True:
            try:
                await self._copy(partition)
            except OwnershipLost:
                return  # this process has the task itself by now
            except RetryableError as error:
                _log.warning("the copy of %s/%s waits: %s", self._service.name, partition, error)
                await asyncio.sleep(self._context.config.retry_pause_s)
            except LogCorrupt as error:
                _log.error("%s/%s has no copy here: %s", self._service.name, partition, error)
                return
            except Exception as error:  # noqa: BLE001  no task waits for a copy: it is logged here
                kept = KeptError.of(error, personal=self._service.is_personal)
                _log.error("%s/%s has no copy here\n%s", self._service.name, partition, kept.traceback)
                return
            else:
                return

    async def _copy(self, partition: int) -> None:
        while self._works(partition):  # noqa: ASYNC110  its end has no event, and is moments away
            await asyncio.sleep(_LOOK_S)
        context, service = self._context, self._service
        store = context.stores.open_copy(service.name, partition, context.log.port.log_id)
        if store is None:
            return
        deciders = {decider.name: decider for decider in service.deciders}
        state = TaskState(store, context.log.codec, deciders, cached_entries=1)
        try:
            await catch_up(state, service, partition, context)
            await self._follow(state, (service.changelog.name, partition))
        finally:
            store.close()

    async def _follow(self, state: TaskState, place: tuple[str, int]) -> None:
        context = self._context
        reader = context.log.port.reader({place: state.store.checkpoint})
        try:
            while True:
                records = await reader.poll(context.config.restore_chunk)
                if reader.position(place) != state.store.checkpoint:
                    await apply_changes(state, records, reader.position(place), context.log.codec)
        finally:
            await reader.close()
