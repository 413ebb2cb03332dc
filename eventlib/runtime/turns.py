"""Turns of effects: a request waits at its limit, then for a slot of the process, and only then its attempt goes out."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Protocol

from eventlib.limits import Limit
from eventlib.model.effect import Effect
from eventlib.model.service import Service
from eventlib.runtime.breaker import NEVER_OPEN, Breaker
from eventlib.runtime.effect_queue import EffectQueue, Ticket


class TakesTurns(Protocol):
    """The requester of a ticket's turns."""

    def go(self, ticket: Ticket) -> None:
        """Use a turn; `Line.end` ends it."""


class Line:
    """The tickets that wait in this process at one limit; gives turns while there are any to give.

    A turn that it gives has a slot of the process. While the port's circuit is open, it gives none.
    """

    def __init__(self, queue: EffectQueue, slots: asyncio.Semaphore, breaker: Breaker) -> None:
        self.queue = queue
        self.turns = 0
        self._slots = slots
        self._breaker = breaker
        self._changed = asyncio.Event()
        self._giving: asyncio.Task[None] | None = None

    def wait(self, ticket: Ticket) -> None:
        """Let a ticket wait for its turn; its `of` is called then."""
        self.queue.wait(ticket)
        self._changed.set()
        if self._giving is None or self._giving.done():
            self._giving = asyncio.get_running_loop().create_task(self._give(), name=f"turns at {self.queue.name}")

    def withdraw(self, ticket: Ticket) -> None:
        """Let a ticket that waits no longer wait."""
        self.queue.withdraw(ticket)
        self._changed.set()

    def end(self, ticket: Ticket, *, unused: bool = False) -> None:
        """End a turn; an unused one made no attempt."""
        self.queue.end(ticket, unused=unused)
        self.turns += not unused
        self._slots.release()
        self._changed.set()

    def close(self) -> None:
        """Give no more turns."""
        if self._giving is not None:
            self._giving.cancel()

    def own(self, tasks: Mapping[int, Mapping[str, Limit]]) -> None:
        """Take the share of these tasks, each with its limits by name."""
        self.queue.own(tasks, asyncio.get_running_loop().time())
        self._changed.set()

    async def _give(self) -> None:
        loop = asyncio.get_running_loop()
        while self.queue.waiting:
            await self._until_free(loop)
            await self._slots.acquire()
            ticket = self.queue.next(loop.time()) if self._breaker.lets_through else None
            if ticket is None:
                self._slots.release()
                continue
            ticket.of.go(ticket)

    async def _until_free(self, loop: asyncio.AbstractEventLoop) -> None:
        while self.queue.waiting:
            await self._breaker.wait()
            self._changed.clear()
            now = loop.time()
            at = self.queue.free_at(now)
            if at <= now:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if at == inf else at - now):
                    await self._changed.wait()


class Turn:
    """The turns of one request, one for each of its attempts. The first one has been given.

    `waited_s` is how long the newest one was waited for.
    """

    def __init__(self, line: Line, ticket: Ticket, now: float) -> None:
        self.waited_s = now - ticket.since
        self._line = line
        self._ticket = ticket
        self._has_it = True
        self._waits = False
        self._given = asyncio.Event()
        ticket.of = self

    @property
    def limit(self) -> str:
        """The name of its limit."""
        return self._line.queue.name

    def go(self, _ticket: Ticket) -> None:
        """See `TakesTurns`."""
        self._has_it, self._waits = True, False
        self.waited_s = asyncio.get_running_loop().time() - self._ticket.since
        self._given.set()

    async def begin(self) -> None:
        """Wait for a turn; `give_back` or `lend` ends it."""
        if self._has_it:
            return
        self._given.clear()
        self._waits, self._ticket.since = True, asyncio.get_running_loop().time()
        self._line.wait(self._ticket)
        try:
            await self._given.wait()
        except asyncio.CancelledError:
            self.close()
            raise

    def give_back(self) -> None:
        """End it."""
        self._has_it = False
        self._line.end(self._ticket)

    def lend(self) -> Callable[[], None]:
        """Leave the turn to a call that still runs, and return a function that ends it; the next attempt waits for its own."""
        lent = self._ticket
        self._ticket = Ticket(lent.id, lent.kind, lent.key, self, lent.since)
        self._has_it = False
        return partial(self._line.end, lent)

    def close(self) -> None:
        """Give back a turn that was not begun, and wait for none."""
        if self._has_it:
            self._has_it = False
            self._line.end(self._ticket, unused=True)
        elif self._waits:
            self._waits = False
            self._line.withdraw(self._ticket)


class EffectTurns:
    """The bounds on the effects of a service in this process: `slots` for all, and a line for each limit.

    `lines` are by the name of an effect's request, `every` has each of them once; an effect without a limit has none.
    """

    def __init__(self, service: Service, concurrent: int, breakers: Mapping[str | None, Breaker]) -> None:
        self.slots = asyncio.Semaphore(concurrent)
        self._tasks = dict[int, Mapping[str, Limit]]()
        self._queues = queues_of(service)
        ports = {kind.__name__: each.ask.port for decider in service.deciders for kind, each in decider.effects.items()}
        by_name = {
            queue.name: Line(queue, self.slots, breakers.get(ports[kind], NEVER_OPEN))
            for kind, queue in self._queues.items()
        }
        self.lines = {kind: by_name[queue.name] for kind, queue in self._queues.items()}
        self.every = [*by_name.values()]

    def lease(self, held_until: Callable[[], float]) -> None:
        """Give turns only until a time (event loop time), which moves on while the ownership of the tasks is confirmed."""
        for queue in self._queues.values():
            queue.held_until = held_until

    def own(self, partition: int, limits: Mapping[str, Limit]) -> None:
        """Take the share of a task that this process owns now, with the limits that it has."""
        self._tasks[partition] = limits
        self._share()

    def disown(self, partition: int) -> None:
        """Give up a task's share."""
        if self._tasks.pop(partition, None) is not None:
            self._share()

    def close(self) -> None:
        """Give no more turns."""
        for line in self.every:
            line.close()

    def _share(self) -> None:
        for line in self.every:
            line.own(self._tasks)


def queues_of(service: Service) -> dict[str, EffectQueue]:
    """Return the queue of each kind of effect that has a limit, by its request's name: one for a port's, or its own."""
    effects = [(kind.__name__, effect) for decider in service.deciders for kind, effect in decider.effects.items()]
    names = {kind: name for kind, effect in effects if (name := _queue_of(kind, effect, service.limits)) is not None}
    queues = {
        name: EffectQueue(
            name, tuple(kind for kind in names if names[kind] == name), service.limits, service.partitions
        )
        for name in dict.fromkeys(names.values())
    }
    return {kind: queues[name] for kind, name in names.items()}


def _queue_of(kind: str, effect: Effect, limits: Mapping[str, Limit]) -> str | None:
    port = effect.ask.port
    return port if port is not None and port in limits else kind if kind in limits else None
