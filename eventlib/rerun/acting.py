"""Does something to a task on purpose, as its owner for a moment: whether the service runs or not, and recorded."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from eventlib.codec.port import UnknownSchema
from eventlib.errors import OwnershipLost
from eventlib.eventlog import EventLog
from eventlib.log.port import Claim
from eventlib.runtime import RuntimeConfig
from eventlib.runtime.code_version import code_version
from eventlib.runtime.host import Host
from eventlib.runtime.restoring import restored
from eventlib.runtime.runtime import prepare_own
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction
from eventlib.service import Service
from eventlib.store.memory import MemoryStores

_PATIENCE_S = 20.0

Decide = Callable[[Task], Awaitable[Inputs | None]]
"""Says what a task is to do, once nobody else can do anything to it; None when there is nothing to do after all."""


async def act(log: EventLog, service: Service, partition: int, decide: Decide) -> Transaction | None:
    """Have one transaction of a task made by this process, and return it; None when there was nothing to do.

    Who runs the service loses the task for that moment, and goes on with it after. Guarantee: `decide` sees the task
    as its last transaction left it, and nothing comes between that and what it says. Requests that are said are
    pending on the changelog, and run by the service.
    Raises: OwnershipLost when others kept taking the task; what `decide` raises. Then nothing was changed.
    """
    await log.prepare()
    await prepare_own(log, [service])
    host = Host(log, MemoryStores(), {}, {}, RuntimeConfig(), code_version(log.choreography))
    # What takes long is done before the claim, so that with it only the newest changes are left to read.
    (await restored(service, Claim(service.name, partition, 0), host)).state.close()
    try:
        # A random pause, since each attempt ends the claim of whoever else is at it.
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(OwnershipLost),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            stop=stop_after_delay(_PATIENCE_S),
            reraise=True,
        ):
            with attempt:
                claim = await log.port.seize(service.name, partition)
                return await _act(log, claim, await restored(service, claim, host), decide)
    except OwnershipLost as error:
        raise OwnershipLost(
            f"partition {partition} of service {service.name!r} gets another owner each time: somebody else may be at "
            "work on it just now; nothing was changed, try again later"
        ) from error
    raise AssertionError(partition)  # the last attempt has returned, or raised


async def _act(log: EventLog, claim: Claim, task: Task, decide: Decide) -> Transaction | None:
    inputs = await decide(task)
    if inputs is None:
        return None
    try:
        transaction = task.handle(inputs)
    except UnknownSchema:
        task.rolled_back()
        await log.codec.refresh()
        transaction = task.handle(replace(inputs, schemas_known=True))
    await log.port.append(transaction.records, claim)
    return transaction
