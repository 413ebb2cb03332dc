"""One service in one process: its tasks begin and end as they fall to this process and to others."""

import asyncio
import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from eventlib.errors import LogCorrupt, OwnershipLost, RetryableError, TailLost
from eventlib.ground.ends import as_error, is_asked_for
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Claim, Membership, TopicPartition
from eventlib.model.kept_error import KeptError
from eventlib.model.service import Service
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.local_chain import LocalChain
from eventlib.runtime.restore import StandbyTasks
from eventlib.runtime.runner import TaskRunner
from eventlib.runtime.turns import EffectTurns, Line

_log = logging.getLogger(__name__)


class _Running(NamedTuple):
    claim: Claim
    life: "asyncio.Task[None]"


class TaskManager:
    """Runs the tasks of a service that its membership gives to this process; `loops` shows them to others.

    Each task is handed over by itself, as soon as it has ended: none waits for another's effects. `fail` gets an error
    that no retry mends.
    """

    def __init__(
        self,
        service: Service,
        context: RuntimeContext,
        chain: LocalChain,
        runners: MutableMapping[tuple[str, int], TaskRunner],
        fail: Callable[[Exception], None],
    ) -> None:
        self.service = service
        self._context = context
        self._chain = chain
        self._runners = runners
        self._fail = fail
        self._turns = EffectTurns(service, context.config.concurrent_effects, context.breakers)
        self._running = dict[int, _Running]()
        self._ending = dict[int, asyncio.Task[None]]()
        self._membership: Membership | None = None

    @property
    def is_counted(self) -> bool:
        """Whether those who run the same service know of this process."""
        return self._membership is not None and self._membership.is_counted

    @property
    def lines(self) -> Sequence[Line]:
        """The requests that wait at each limit of the service."""
        return self._turns.every

    async def run(self) -> None:
        """Run tasks until cancelled; then hand them over: the new owners know it before they end."""
        service, context = self.service, self._context
        try:
            membership = await context.startup.run(f"the tasks of {service.name}", self._join)
        except BaseException as raised:  # noqa: BLE001  whatever it is, the process that runs the services has to know
            self._report(raised)
            return
        membership.progress = self._progress
        membership.holds_unread = not context.config.drop_unread
        self._membership = membership
        self._turns.lease(lambda: membership.held_until)
        copying = asyncio.create_task(self._keep_copies(membership), name=f"copies of {service.name}")
        try:
            while True:
                wanted = await membership.changed({partition: each.claim for partition, each in self._running.items()})
                for partition in [p for p, each in self._running.items() if wanted.get(p) != each.claim]:
                    self._end(partition, membership)
                for partition in sorted(wanted.keys() - self._running.keys()):
                    self._begin(wanted[partition], was_lost=membership.was_lost(wanted[partition]))
        except BaseException as raised:  # noqa: BLE001  whatever it is, the process that runs the services has to know
            self._report(raised)
        finally:
            await cancelled(copying)
            await membership.retire()
            for partition in [*self._running]:
                self._end(partition, membership)
            await asyncio.gather(*self._ending.values())
            self._turns.close()
            await membership.leave()

    async def _keep_copies(self, membership: Membership) -> None:
        try:
            await StandbyTasks(self.service, self._context, membership, self._works_on).run()
        except BaseException as raised:  # noqa: BLE001  whatever it is, the process that runs the services has to know
            self._report(raised)

    def _report(self, raised: BaseException) -> None:
        """Let the process that runs the services know what ended a part of one. Raises: an end that was asked for."""
        if is_asked_for(raised):
            raise raised
        self._fail(as_error(raised))

    async def _join(self) -> Membership:
        service, context = self.service, self._context
        return await context.log.port.join(service.name, service.partitions, context.config.standbys)

    def _progress(self) -> Mapping[TopicPartition, int]:
        runners = [runner for (name, _), runner in self._runners.items() if name == self.service.name]
        return {task_name: offset for runner in runners for task_name, offset in runner.positions.items()}

    def _works_on(self, partition: int) -> bool:
        return partition in self._running or partition in self._ending

    def _begin(self, claim: Claim, *, was_lost: bool) -> None:
        runner = self._runners[claim.service, claim.partition] = self._new_runner(claim, was_lost=was_lost)
        life = self._run(runner, self._ending.get(claim.partition))
        self._running[claim.partition] = _Running(claim, asyncio.create_task(life, name=f"task {claim.partition}"))

    def _new_runner(self, claim: Claim, *, was_lost: bool) -> TaskRunner:
        return TaskRunner(self.service, claim, self._context, self._turns, self._chain, was_lost=was_lost)

    async def _run(self, runner: TaskRunner, before: "asyncio.Task[None] | None") -> None:
        """Run a task until it is stopped or lost; when the log is away it starts over, under the same claim."""
        task_name = runner.service.name, runner.claim.partition
        if before is not None:
            await before  # a store has one user at a time
        try:
            await self._run_until_lost(runner, task_name)
        finally:
            self._context.startup.drop(runner.name)

    async def _run_until_lost(self, runner: TaskRunner, task_name: tuple[str, int]) -> None:
        while self._runners.get(task_name) is runner:
            try:
                await runner.run()
            except OwnershipLost as error:
                self._turns.disown(runner.claim.partition)
                handed_over = self._runners.get(task_name) is not runner
                _log.log(logging.DEBUG if handed_over else logging.WARNING, "%s/%s was lost: %s", *task_name, error)
                return
            except RetryableError as error:
                await runner.rest(self._context.startup.failed(runner.name, error))
            except TailLost as error:  # nothing may be written before a person has decided
                self._fail(error)
                return
            except LogCorrupt as error:  # what is damaged stops this task, and nothing else
                self._context.damage.stopped[task_name] = str(error)
                _log.error("task %s/%s has stopped, the others go on: %s", *task_name, error)
                return
            except BaseException as raised:  # noqa: BLE001  as above
                kept = KeptError.of(raised, personal=self.service.is_personal)
                _log.debug("%s/%s failed\n%s", *task_name, kept.traceback)
                self._report(raised)
                return
            else:
                return
            if self._runners.get(task_name) is runner:
                runner = self._runners[task_name] = self._new_runner(runner.claim, was_lost=runner.was_lost)

    def _end(self, partition: int, membership: Membership) -> None:
        running = self._running.pop(partition)
        runner = self._runners.pop((self.service.name, partition))
        runner.stop()
        self._turns.disown(partition)  # before it is given back: the next owner takes this share
        if runner.task is None and partition not in self._ending:
            running.life.cancel()  # it is not restored, so there is nothing at hand to be finished
        self._context.damage.stopped.pop((self.service.name, partition), None)
        self._ending[partition] = asyncio.create_task(self._hand_over(running, membership), name=f"end of {partition}")

    async def _hand_over(self, running: _Running, membership: Membership) -> None:
        await asyncio.gather(running.life, return_exceptions=True)
        partition = running.claim.partition
        if self._ending.get(partition) is asyncio.current_task():
            del self._ending[partition]
        await membership.give_back(running.claim)
