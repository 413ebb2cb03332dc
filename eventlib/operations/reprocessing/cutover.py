"""Cuts a service over to a rerun's states: one transaction for each task, whether the service runs or not.

Events that only the rerun emitted are emitted by the service then; events that only the service emitted stay. An event
of both with different content stays as the service emitted it: consumers have acted on it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from eventlib.errors import ContractError, OwnershipLost
from eventlib.eventlog import EventLog
from eventlib.log.seizing import seizing
from eventlib.model.service import Service
from eventlib.operations.dry_run import dry_run_of, emitted_on, token_of
from eventlib.operations.reprocessing.comparison import restored_original
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import Progress, Rerun, rerunning
from eventlib.operations.reprocessing.takeover import Takeover, cutover_plan
from eventlib.runtime.runtime import prepare_own
from eventlib.state.memory import MemoryStores

Look = Callable[[Rerun], Awaitable[None]]


async def _look_at_nothing(_: Rerun) -> None:
    return


@dataclass(slots=True)
class Switched:
    """The result of a cutover: how many tasks took over, events were emitted now, and keys changed.

    `unsaid` counts the service's events that are missing or changed in the rerun; they stay. `requested` counts effects
    that only the rerun requested, `asked` those that only the service requested: they continue.
    """

    tasks: int = 0
    said: int = 0
    unsaid: int = 0
    states: int = 0
    requested: int = 0
    asked: int = 0


async def switch(rerun: Rerun, why: str, *, runs_effects: bool = False) -> Switched:
    """Make the service take over a rerun's states, and emit the events that only the rerun emitted.

    Effects that only the rerun requested are parked, one by one, until an operator retries them, unless `runs_effects`.
    Guarantee: a task takes over completely or not at all, and its journal records who did that, when and why; nothing is
    handled twice or left out. After an interruption, a second call takes the remaining tasks.
    Raises: ContractError for a rerun that ends before its service does, or that another process continues; OwnershipLost
    when the service keeps taking its tasks back.
    """
    if rerun.until_ms:
        raise ContractError(
            f"{rerun.run.name} was run up to a time only (--until), and {rerun.service.name} has continued since: its states "
            "are too old to take over; run all of it again under another name"
        )
    await rerun.log.prepare()
    await prepare_own(rerun.log, [rerun.service])
    done = Switched()
    # The long restore runs before the tasks are seized: after that, only the newest changes are left.
    for follower in rerun.followers.values():
        (await restored_original(rerun, follower)).close()
    try:
        await seizing(lambda: _switch(rerun, why, done, runs_effects=runs_effects))
    except OwnershipLost as error:
        raise OwnershipLost(
            f"{rerun.service.name} took its tasks back before they could take over ({done.tasks} have): stop it for a "
            "moment, and do this again"
        ) from error
    return done


async def preview_switch(  # noqa: PLR0913  what the rerun is, and what looks at it
    log: EventLog,
    service: Service,
    name: str,
    spec: RerunSpec,
    look: Look = _look_at_nothing,
    progress: Progress = lambda _done, _of: None,
    *,
    runs_effects: bool,
) -> tuple[Switched, str]:
    """Return what a cutover to a rerun, begun anew where there is none, would come to, and what names that.

    `look` gets the rerun before the cutover. Guarantee: writes nothing; it needs memory for what the act would write.
    Raises: as `rerunning` and `switch`.
    """
    trial = await dry_run_of(log, [service])
    async with rerunning(trial, MemoryStores(), service, name, spec, progress) as rerun:
        await look(rerun)
        done = await switch(rerun, "a preview", runs_effects=runs_effects)
    emitted = sorted(record.event_id for record, _ in await emitted_on(trial))
    return done, token_of("switch", service.name, name, done, emitted)


async def _switch(rerun: Rerun, why: str, done: Switched, *, runs_effects: bool) -> None:
    """Seize all tasks first, so that all stop at one point; then they take over one by one."""
    port, service = rerun.log.port, rerun.service
    claims = {partition: await port.seize(service.name, partition) for partition in sorted(rerun.followers)}
    try:
        await rerun.catch_up()
    except OwnershipLost as error:
        raise ContractError(f"another process continues {rerun.run.name}: let one of the two finish") from error
    plan = await cutover_plan(rerun)
    for partition, claim in claims.items():
        follower = rerun.followers[partition]
        old = await restored_original(rerun, follower)
        takeover = Takeover(rerun, follower, old, plan, runs_effects=runs_effects)
        records = await takeover.records(why)
        old.close()
        await port.append(records, claim)
        rerun.taken_over(partition, takeover.at_ms)
        done.tasks += 1
        done.said += takeover.emitted
        done.states += takeover.states
        done.requested += takeover.requested
        done.asked += takeover.asked
    done.unsaid = len(plan.kept)
