"""Consumers in a simulated world, sinks and webhooks: their processes die, stand still and are given up for dead.

The code of the processes is the real one, with its event loop; the log, the clock, and what is beyond them are simulated.
Damage of the disk is not shown to them.
"""

import asyncio
import selectors
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from math import ceil
from typing import Any

from eventlib.errors import TerminalError
from eventlib.eventlog import EventLog
from eventlib.model.event import Event
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.simulation.consumer_process import DELIVERED, ConsumerProcess, Died, ProcessLog, Receipts
from eventlib.simulation.invariant_monitor import FAILURES, broken
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.world import World


class SimulatedConsumer(ABC):
    """What takes events out of the log, with its own part of the world; a scenario makes it anew for each schedule.

    It gets the events of `types` that it `wants`; one that `counts_once` may not get any twice.
    """

    counts_once = False

    def __init__(self, name: str, types: Collection[str]) -> None:
        self.name = name
        self.types = types

    @property
    def has_more(self) -> bool:
        """Whether it has work left that no event on the log stands for."""
        return False

    def wants(self, event: Event) -> bool:  # noqa: ARG002  most want all
        """Return whether an event of these types is for it."""
        return True

    @abstractmethod
    async def run(self, log: EventLog, process: ConsumerProcess) -> None:
        """Work as one process, until it is cancelled; `process` is asked before and after it acts on the world."""

    @abstractmethod
    async def operate(self, log: EventLog, process: ConsumerProcess) -> None:
        """Do what an operator does from time to time: let what is parked be tried again."""


_STARTS_AFTER_S = 0.5
_PROCESSES = 2
_ROUNDS = 300
_OPERATES_EVERY = 5
_QUIET_ROUNDS = 8


Work = Callable[[EventLog, ConsumerProcess], Coroutine[Any, Any, None]]
"""What one process does."""


class Consumers:
    """The consumers of a world: each has two processes, and one that dies starts again."""

    def __init__(self, world: World, consumers: Sequence[SimulatedConsumer]) -> None:
        self._world = world
        self._consumers = consumers
        self._faults = True
        self._closed = False
        self._stopped_by: BaseException | None = None
        """What ends the schedule itself: the search has no more choices to give."""
        self._appended = world.port.appended
        self._receipts = {each.name: Receipts(each.name, once=each.counts_once) for each in consumers}
        self._running = dict[ConsumerProcess, None]()
        if consumers:
            self._loop = WorldLoop(lambda: world.now_ms)
            world.port.appended = self._look
            world.doers["consume"] = self._go_on
            for consumer in consumers:
                for _ in range(_PROCESSES):
                    self._start(consumer)
            world.add(ScheduledMove("consume"))

    def finish(self) -> None:
        """Let all processes come to rest, without faults, and check that all events have come."""
        self._faults = False
        for process in self._running:
            process.faults = False
        quiet = 0
        for number in range(_ROUNDS if self._consumers else 0):
            due_s = self._run_until_idle()
            missing = any(self._receipts[each.name].missing or each.has_more for each in self._consumers)
            quiet = 0 if missing else quiet + 1
            if self._world.monitor.violations or quiet > _QUIET_ROUNDS:
                return
            if missing and number % _OPERATES_EVERY == 0:
                for each in self._consumers:
                    self._begin(each.operate, self._process(each))
            self._world.now_ms += max(1, ceil((due_s or 1) * 1000))
        for receipts in self._receipts.values():
            self._world.monitor.violations += [
                broken(DELIVERED, receipts.name, f"{topic}/{partition}/{offset} has not come")
                for topic, partition, offset in receipts.missing
            ]

    def close(self) -> None:
        """End all processes, and their loop."""
        if not self._consumers:
            return
        self._closed = True
        for process in self._running:
            process.end()
        self._loop.run_until_idle()
        self._loop.close()

    def _look(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        self._appended(records, offsets)
        placed = zip(records, offsets, strict=True)
        events = [record.placed(offset) for record, offset in placed if record.topic in self._world.stage.events]
        for consumer in self._consumers:
            self._receipts[consumer.name].expect([each for each in events if self._is_for(consumer, each)])
        for process in self._running:
            process.waiting.appended({record.topic_partition for record in records})
        self._world.add(ScheduledMove("consume"))

    def _is_for(self, consumer: SimulatedConsumer, record: Record) -> bool:
        event = self._world.log.decode(record) if record.type in consumer.types else None
        return event is not None and consumer.wants(event)

    def _go_on(self, _move: ScheduledMove) -> None:
        self._run_until_idle()

    def _run_until_idle(self) -> float | None:
        due_s = self._loop.run_until_idle()
        if self._stopped_by is not None:
            raise self._stopped_by
        return due_s

    def _start(self, consumer: SimulatedConsumer) -> None:
        if not self._closed:
            self._begin(consumer.run, self._process(consumer), lambda: self._start(consumer))

    def _process(self, consumer: SimulatedConsumer) -> ConsumerProcess:
        process = ConsumerProcess(self._world, consumer.name, self._receipts[consumer.name])
        process.faults = self._faults
        return process

    def _begin(self, work: Work, process: ConsumerProcess, ended: Callable[[], None] = lambda: None) -> None:
        log = self._world.log.over(ProcessLog(self._world.port, process), self._world.log.codec)
        process.task = self._loop.create_task(self._work(work(log, process), process))
        self._running[process] = None

        def done(task: asyncio.Task[None]) -> None:
            self._running.pop(process)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._stopped_by = self._stopped_by or error
                self._loop.stop()
            self._loop.call_later(_STARTS_AFTER_S, ended)

        process.task.add_done_callback(done)

    async def _work(self, work: Coroutine[Any, Any, None], process: ConsumerProcess) -> None:
        try:
            await work
        except Died:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, it is what the simulator looks for
            if not process.is_alive:  # its death within a step of the start comes out as an error
                return
            violation = broken(FAILURES, "a consumer", kept_reason(error, personal=False))
            self._world.monitor.violations.append(violation)


_TURN_S = 1e-8


class WorldLoop(asyncio.SelectorEventLoop):
    """Runs code that uses asyncio within one step of a schedule; `clock_ms` is the world's clock."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._never_waits = _NeverWaits()
        super().__init__(self._never_waits)
        self._never_waits.is_idle = self.stop

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`: the world's time, a little later at each turn, or a rounded one never comes."""
        return self._clock_ms() / 1000 + self._never_waits.turns * _TURN_S

    def run_until_idle(self) -> float | None:
        """Run until nothing is ready, and return in how many seconds a timer is due; None when there is no timer."""
        self.run_forever()
        return self._never_waits.due_s


class _NeverWaits(selectors.SelectSelector):
    """Reports that nothing is ready where a selector would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_idle: Callable[[], None] = _unset
        self.due_s: float | None = None
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`; nothing in a simulated world uses a socket."""
        self.turns += 1
        if timeout is None or timeout > 0:
            self.due_s = timeout
            self.is_idle()
        return []


def _unset() -> None:
    raise TerminalError("the loop is not made yet")
