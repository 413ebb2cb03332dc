"""Brings tasks back whose time a wrong clock has set ahead: what they do from then on is dated by the clock again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim
from eventlib.model.service import Service
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.dry_run import token_of
from eventlib.operations.seek import act
from eventlib.queries.task_clock import positions_of
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.records import code_version, state_key
from eventlib.runtime.restore import restored_state
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, ResetClock
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms

_MOST_DEADLINES = 100_000


class LateDeadline(NamedTuple):
    """A deadline that follows from a state of the wrong time, and when it falls due (ms)."""

    decider: str
    key: str
    name: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class ClockPlan:
    """A task whose time goes back to now: what it did from `first_ms` to `last_ms` was dated by a wrong clock.

    `transactions` is how many that are. `late` are the deadlines that follow from states which were written then: they stay
    as they are, since a deadline follows from its state alone.
    """

    service: str
    partition: int
    first_ms: int
    last_ms: int
    transactions: int
    late: Sequence[LateDeadline]


@dataclass(frozen=True)
class ClockOutcome(Outcome):
    """The clocks that were reset, or would be; `infected` are the other tasks whose time is ahead, each with its time (ms)."""

    plans: Sequence[ClockPlan]
    infected: Sequence[tuple[str, int]] = ()
    token: str = ""
    why: str = ""

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`; times are in milliseconds since 1970."""
        del personal
        tasks = [{**asdict(plan), "late": [each._asdict() for each in plan.late]} for plan in self.plans]
        if not self.token:
            return {"done": True, "tasks": tasks, "why": self.why}
        infected = [{"task": name, "at_ms": at_ms} for name, at_ms in self.infected]
        return {"done": False, "tasks": tasks, "infected": infected, "as_previewed": self.token}


class ClockReset(Act[ClockOutcome, ClockOutcome]):
    """Bring back the tasks of a service whose time a wrong clock has set ahead: all that are, or one."""

    path: ClassVar[str] = "/services/{service}/reset-clock"
    decides: ClassVar[bool] = True
    service: Annotated[str, Field(description="The service's name.")]
    partition: Annotated[int | None, Field(ge=0, description="Reset this task only.")] = None

    async def select(self, desk: Desk) -> ClockOutcome:
        """Return the tasks that are ahead. Raises: as `preview_clock_reset`."""
        return await preview_clock_reset(desk.log, desk.log.choreography.service(self.service), self.partition)

    async def apply(self, desk: Desk, about: ClockOutcome) -> ClockOutcome:
        """Reset them. Raises: as `reset_clocks`."""
        service, why = desk.log.choreography.service(self.service), desk.signed(self.reason)
        return ClockOutcome(await reset_clocks(desk.log, service, about.plans, why), why=why)


async def preview_clock_reset(log: EventLog, service: Service, partition: int | None = None) -> ClockOutcome:
    """Return what `reset_clocks` would come to for a service's tasks, or for one. Nothing is written.

    Raises: ContractError for a partition that the service does not have, or when no time of these tasks is ahead.
    """
    if partition is not None and not 0 <= partition < service.partitions:
        raise ContractError(f"{service.name} has no partition {partition}: it has 0 to {service.partitions - 1}")
    wanted = range(service.partitions) if partition is None else [partition]
    now, there = now_ms(), await log.port.topics()
    ahead = {
        (each.name, n): at_ms
        for each in log.choreography.services
        if each.changelog.name in there
        for n in range(each.partitions)
        if (at_ms := (await positions_of(log, each, n)).at_ms) > now
    }
    plans = [await _plan(log, service, n, now) for n in wanted if (service.name, n) in ahead]
    if not plans:
        of = service.name if partition is None else f"{service.name}/{partition}"
        raise ContractError(f"the time of {of} is not ahead of this machine's clock: there is nothing to reset")
    mine = {(plan.service, plan.partition) for plan in plans}
    infected = [(f"{name}/{n}", at_ms) for (name, n), at_ms in ahead.items() if (name, n) not in mine]
    return ClockOutcome(plans, infected, token_of("clock", *plans))


async def reset_clocks(log: EventLog, service: Service, plans: Sequence[ClockPlan], why: str) -> list[ClockPlan]:
    """Reset the clocks of a service's tasks to now, each in its own transaction, and return those that were reset.

    Guarantee: who reset what, when and why is recorded in the journal; states, positions and what is parked stay as they are.
    Raises: OwnershipLost when another process keeps taking a task; tasks reset before stay reset.
    """
    done, at_ms = list[ClockPlan](), now_ms()
    for plan in plans:
        if await act(log, service, plan.partition, _Reset(log, service, plan, at_ms, why).decide) is not None:
            done.append(plan)
    return done


class _Reset(NamedTuple):
    """The reset of one task."""

    log: EventLog
    service: Service
    plan: ClockPlan
    at_ms: int
    why: str

    async def decide(self, task: Task) -> Inputs | None:
        """Return the act, on all that the task has done ahead by now; None when its time is not ahead any more."""
        if task.positions.at_ms <= self.at_ms:
            return None
        first_ms, last_ms, _ = await _ahead(self.log, self.service, self.plan.partition, self.at_ms)
        return Inputs(self.at_ms, acts=[ResetClock(first_ms, last_ms, self.why)])


async def _plan(log: EventLog, service: Service, partition: int, now: int) -> ClockPlan:
    first_ms, last_ms, transactions = await _ahead(log, service, partition, now)
    context = RuntimeContext(log, MemoryStores(), {}, {}, RuntimeConfig(), code_version(log.choreography))
    deciders = {decider.name: decider for decider in service.deciders}
    state = await restored_state(service, Claim(service.name, partition, 0), context, deciders)
    try:
        late = [each for each in _dues(state, first_ms) if _is_of(state, each, first_ms, last_ms)]
    finally:
        state.close()
    return ClockPlan(service.name, partition, first_ms, last_ms, transactions, late)


def _dues(state: TaskState, after_ms: int) -> list[LateDeadline]:
    found = state.due_by(1 << 52, _MOST_DEADLINES, lambda *_: False)
    return [LateDeadline(decider, key, name, due_ms) for due_ms, decider, name, key in found if due_ms > after_ms]


def _is_of(state: TaskState, due: LateDeadline, first_ms: int, last_ms: int) -> bool:
    record = state.get(state_key(due.decider, due.key))
    return record is not None and first_ms <= record.timestamp_ms <= last_ms


async def _ahead(log: EventLog, service: Service, partition: int, now: int) -> tuple[int, int, int]:
    """Return the first and the last time that a task has set ahead of now, since its last reset, and in how many entries."""
    offset = await log.port.offset_at(service.journal.name, partition, now + 1)
    first_ms = last_ms = count = 0
    async for _, entry in TaskJournal(log, service, partition).entries(offset):
        if entry.at_ms <= now:
            first_ms = last_ms = count = 0  # what was ahead before was reset
            continue
        first_ms, last_ms, count = first_ms or entry.at_ms, entry.at_ms, count + 1
    return first_ms, last_ms, count
