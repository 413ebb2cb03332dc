"""The runtime of one process: it runs services on a log, as many of their tasks as fall to it."""

import asyncio
import gc
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.ground.startup import Startup
from eventlib.model.service import Service
from eventlib.runtime.breaker import NEVER_OPEN, BreakerState
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import Damage, RestoreProgress, RuntimeContext
from eventlib.runtime.instrumentation import Observer
from eventlib.runtime.local_chain import LocalChain
from eventlib.runtime.loop_watch import LoopWatch
from eventlib.runtime.lost_owners import LostOwners
from eventlib.runtime.manager import TaskManager
from eventlib.runtime.parking.control import REQUESTS
from eventlib.runtime.parking.parked import SkippedInput
from eventlib.runtime.records import JournalEntry, ParkedKey, Pause, Positions, code_version
from eventlib.runtime.runner import TaskRunner
from eventlib.runtime.topic_watch import TopicWatch
from eventlib.runtime.turns import Line
from eventlib.state.base import Stores
from eventlib.state.open import open_stores


class Runtime:
    """Runs services until the context is left: `async with Runtime(log, ports={...}) as runtime: ...`.

    `services` names those to run (default: all), `ports` gives their effects the outside world by parameter name.
    An `observer` gets what is done, for traces and metrics; without one, nothing is spent on that. `startup` has
    what its tasks wait for; without one, that is logged as warnings.
    Guarantee: leaving the context hands every task over; a process that dies is replaced within seconds by another
    one that runs the same services.
    Raises: WiringError when a port is missing or a service unknown.
    """

    def __init__(  # noqa: PLR0913  each is optional, and given by its name
        self,
        log: EventLog,
        *,
        ports: Mapping[str, object] | None = None,
        services: Sequence[str] | None = None,
        stores: Stores | None = None,
        config: RuntimeConfig | None = None,
        observer: Observer | None = None,
        startup: Startup | None = None,
    ) -> None:
        check(log, EventLog, "log", A_LOG)
        choreography = log.choreography
        self._log = log
        self._services = choreography.services if services is None else tuple(map(choreography.service, services))
        given, config = dict(ports or {}), config or RuntimeConfig()
        self._context = RuntimeContext(
            log,
            stores or open_stores(log.port.url, config.state_dir),
            given,
            {None: NEVER_OPEN, **{port: config.breaker(port) for port in given}},
            config,
            code_version(choreography),
            observer,
            max(config.cached_entries // sum(service.partitions for service in self._services), 1),
            startup=startup or Startup(),
        )
        self._chain = LocalChain(log.port)
        self._runners: dict[tuple[str, int], TaskRunner] = {}
        self._managers = [
            TaskManager(each, self._context, self._chain, self._runners, self._fail) for each in self._services
        ]
        self._running_managers: list[asyncio.Task[None]] = []
        self._watch = TopicWatch(log.port, self._services, self._runners.values)
        self._blocking: LoopWatch | None = None
        self._failure: asyncio.Future[None] | None = None
        for port in (port for service in self._services for port in sorted(service.ports - given.keys())):
            needed_by = [service.name for service in self._services if port in service.ports]
            raise WiringError(
                f"port {port!r} is needed by {', '.join(needed_by)}: give it, as in ports={{{port!r}: …}}"
            )

    async def __aenter__(self) -> Self:
        """Register what the services write, and begin to serve."""
        await prepare_own(self._log, self._services)
        self._failure = asyncio.get_running_loop().create_future()
        self._blocking = LoopWatch(self._services, self._context.config.blocked_s)
        self._running_managers = [asyncio.create_task(manager.run()) for manager in self._managers]
        self._running_managers.append(asyncio.create_task(self._keep_watch(), name="watch of topics"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Finish the transactions at hand, and hand the tasks over."""
        for manager in self._running_managers:
            manager.cancel()
        await asyncio.gather(*self._running_managers, return_exceptions=True)
        if self._blocking is not None:
            self._blocking.stop()
        self._context.stores.close()
        if self._failure is not None and self._failure.done():
            self._failure.exception()  # seen: a waiter in `failed` or `idle` has raised it

    async def failed(self) -> None:
        """Wait until something fails for good, and raise it."""
        assert self._failure is not None, "enter the runtime first"  # noqa: S101  a misuse, not a state
        await asyncio.shield(self._failure)

    async def idle(self) -> None:
        """Wait until every service has handled all that is on the log, and no effect is open.

        What is parked or paused does not count, nor do tasks that damage has stopped: they wait for a person. Raises what `failed` raises.
        """
        while not await self._is_idle():
            if self._failure is not None and self._failure.done():
                await self._failure
            await asyncio.sleep(_IDLE_LOOK_S)

    @property
    def transactions(self) -> int:
        """How many transactions this process has committed."""
        return sum(runner.transactions for runner in self._runners.values())

    @property
    def is_counted(self) -> bool:
        """Whether others who run these services know of this process, so that they can hand tasks over to it."""
        return all(manager.is_counted for manager in self._managers)

    @property
    def causes(self) -> Mapping[str, int]:
        """For how many causes something was parked here, by service; 0 for one without any."""
        return self._context.causes.counts

    @property
    def restoring(self) -> Mapping[tuple[str, int], RestoreProgress]:
        """How far the tasks have come, by service and partition, that are being restored or copied just now."""
        return self._context.restoring

    @property
    def damage(self) -> Damage:
        """The damaged records met here, and the tasks that have stopped because of them."""
        return self._context.damage

    @property
    def tasks(self) -> Sequence[TaskRunner]:
        """The tasks that this process runs just now, for metrics."""
        return [*self._runners.values()]

    @property
    def inputs(self) -> Sequence[str]:
        """The topics that the services read."""
        return sorted({topic.name for service in self._services for topic in service.inputs})

    @property
    def topic_faults(self) -> Mapping[str, str]:
        """The topics that the services cannot read whole, with the reason: other partitions now, or deleted."""
        return self._watch.faults

    @property
    def breakers(self) -> Mapping[str, BreakerState]:
        """Whether calls to each port go through just now."""
        return {port: breaker.state for port, breaker in self._context.breakers.items() if port is not None}

    @property
    def lines(self) -> Sequence[tuple[str, Line]]:
        """The requests that wait in this process at each limit, with the service's name."""
        return [(manager.service.name, line) for manager in self._managers for line in manager.lines]

    async def _is_idle(self) -> bool:
        if len(self._runners) < sum(service.partitions for service in self._services):
            return False
        before = self.transactions
        for place, runner in list(self._runners.items()):
            if place not in self.damage.stopped and not await runner.is_idle():
                return False
        return self.transactions == before

    async def _keep_watch(self) -> None:
        try:
            await self._watch.run(self._context.config.compare_topics_s)
        except Exception as error:  # noqa: BLE001  as for a manager: the process that runs the services has to know
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)


def collect_garbage_seldom(growth: int = 50_000) -> None:
    """Spare a process that runs services most of Python's cycle collections: about a tenth of its time here.

    For programs to call once, after their imports; it concerns the whole process. What services make dies by
    reference count, so the collector finds next to nothing. It looks when there are `growth` objects more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(growth, 50, 1_000)


_IDLE_LOOK_S = 0.02


async def prepare_own(log: EventLog, services: Sequence[Service], *, states: bool = True) -> None:
    """Register what services write for themselves."""
    await log.codec.prepare(own_types(services, states=states))


def own_types(services: Sequence[Service], *, states: bool = True) -> list[tuple[str, type]]:
    """Return what services write for themselves, with its topics: their states, and their tasks' notes."""
    found = list[tuple[str, type]]()
    for service in services:
        found += [(service.changelog.name, decider.state) for decider in service.deciders if states]
        found += [(service.changelog.name, own) for own in (Positions, ParkedKey, SkippedInput, Pause, LostOwners)]
        found += [(service.journal.name, JournalEntry), *((service.control.name, each) for each in REQUESTS)]
    return found
