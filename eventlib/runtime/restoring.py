"""A task as its changelog has it: restored at a start and at a takeover."""

from eventlib.codec.port import Codec, UnknownSchema
from eventlib.log.port import Claim
from eventlib.runtime.host import Host
from eventlib.runtime.records import POSITION_KEY, Positions
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.service import Service


async def restored(service: Service, claim: Claim, host: Host) -> Task:
    """Return the task of a claim as its last transaction left it; the local store spares reading what it has.

    Raises: OwnershipLost when a newer claim has opened the store.
    """
    port, partition, codec = host.log.port, claim.partition, host.log.codec
    store = host.stores.open(service.name, partition, claim.epoch, port.log_id)
    deciders = {decider.name: decider for decider in service.deciders}
    state = TaskState(store, codec, deciders, host.config.cached_entries)
    changelog = service.changelog.name
    end = await port.end(changelog, partition)
    if store.checkpoint > end:
        store.clear()
    while store.checkpoint < end:
        records = await port.read(changelog, partition, store.checkpoint, host.config.restore_chunk)
        state.restore(records, records[-1].offset + 1 if records else end)
    positions = await _positions(state, codec)
    task = Task(service, partition, host.log, state, positions=positions, code_version=host.code_version)
    task.parked_end = await port.end(service.parked.name, partition)
    return task


async def _positions(state: TaskState, codec: Codec) -> Positions:
    record = state.get(POSITION_KEY)
    if record is None:
        return Positions()
    try:
        return codec.decode(Positions, record.value or b"")
    except UnknownSchema:
        await codec.refresh()
        return codec.decode(Positions, record.value or b"")
