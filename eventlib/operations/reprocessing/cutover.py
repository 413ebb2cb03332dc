"""Makes a rerun's states its service's: in one transaction for each task, whether the service runs or not.

What only the rerun has said is said then, by the service; what only the service has said cannot be unsaid. An event
that both have said, with another content, stays as it was said: others have acted on it.
"""

from dataclasses import dataclass

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from eventlib.errors import ContractError, OwnershipLost
from eventlib.operations.reprocessing.comparison import seen_beside
from eventlib.operations.reprocessing.cutover_plan import ruling
from eventlib.operations.reprocessing.running import Rerun
from eventlib.operations.reprocessing.takeover import Takeover
from eventlib.runtime.runtime import prepare_own

_PATIENCE_S = 60.0


@dataclass(slots=True)
class Switched:
    """What became the service's: in how many tasks, how many events were said now, and how many keys have changed.

    `unsaid` counts events of the service's that the rerun has not said, or otherwise; they stay. `requested` counts
    effects that only the rerun has asked for, `asked` those that only the service has: they go on.
    """

    tasks: int = 0
    said: int = 0
    unsaid: int = 0
    states: int = 0
    requested: int = 0
    asked: int = 0


async def switch(rerun: Rerun, why: str, *, runs_effects: bool = False) -> Switched:
    """Let the service take over a rerun's states, and say what only that has said.

    Effects that only the rerun has asked for are parked, one by one, until somebody retries them, unless
    `runs_effects`. Guarantee: a task takes over in whole or not at all, and who did that, when and why stands on its
    journal; nothing is handled twice, and nothing left out. Where this is interrupted, doing it again takes the tasks
    that are left.
    Raises: ContractError for a rerun that ends before its service does, or that somebody else goes on with; OwnershipLost
    when the service keeps taking its tasks back.
    """
    if rerun.until_ms:
        raise ContractError(
            f"{rerun.run.name} was run up to a time only (--until), and {rerun.service.name} has gone on since: its states "
            "are too old to take over; run all of it again under another name"
        )
    await rerun.host.log.prepare()
    await prepare_own(rerun.host.log, [rerun.service])
    done = Switched()
    # What takes long is done before the tasks are taken, so that with them only the newest changes are left.
    for follower in rerun.followers.values():
        (await seen_beside(rerun, follower)).close()
    try:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(OwnershipLost),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
            stop=stop_after_delay(_PATIENCE_S),
            reraise=True,
        ):
            with attempt:
                await _switch(rerun, why, done, runs_effects=runs_effects)
    except OwnershipLost as error:
        raise OwnershipLost(
            f"{rerun.service.name} took its tasks back before they could take over ({done.tasks} have): stop it for a "
            "moment, and do this again"
        ) from error
    return done


async def _switch(rerun: Rerun, why: str, done: Switched, *, runs_effects: bool) -> None:
    """Take all tasks at once, so that all are at one point, and let them take over one by one."""
    port, service = rerun.host.log.port, rerun.service
    claims = {partition: await port.seize(service.name, partition) for partition in sorted(rerun.followers)}
    try:
        await rerun.catch_up()
    except OwnershipLost as error:
        raise ContractError(f"somebody else goes on with {rerun.run.name}: let one of the two finish") from error
    decided = await ruling(rerun)
    for partition, claim in claims.items():
        follower = rerun.followers[partition]
        old = await seen_beside(rerun, follower)
        takeover = Takeover(rerun, follower, old, decided, runs_effects=runs_effects)
        records = await takeover.records(why)
        old.close()
        await port.append(records, claim)
        rerun.taken_over(partition, takeover.at_ms)
        done.tasks += 1
        done.said += takeover.said
        done.states += takeover.states
        done.requested += takeover.requested
        done.asked += takeover.asked
    done.unsaid = len(decided.unsaid)
