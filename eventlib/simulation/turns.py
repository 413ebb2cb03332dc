"""Limits in a simulated world: effects wait for their turn in virtual time, and what they promise is checked."""

from collections import Counter, defaultdict
from math import ceil, inf
from typing import NamedTuple

from eventlib.invariants import Violation
from eventlib.limits import Limit
from eventlib.runtime.effect_queue import EffectQueue, Ticket
from eventlib.simulation.invariant_monitor import FAIRNESS, LIMITS, broken
from eventlib.simulation.owner import Owner, RunningEffect
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.stage import BEGIN_MS
from eventlib.simulation.world import World


class SimulatedTurns:
    """Gives the turns of each owner's queues; an owner is a process, and has the share of its task."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._monitor = LimitMonitor()
        world.share_taken = self._monitor.shared
        world.doers |= {"limit": self._give, "a turn comes": self._come}

    def waits(self, owner: Owner, running: RunningEffect) -> bool:
        """Let an attempt wait for its turn, if it needs one and has none."""
        kind = running.request.type or ""
        queue = owner.queues.get(kind)
        if queue is None or running.has_turn:
            return False
        if running.ticket is None:
            key = getattr(running.event, queue.limit.key) if queue.limit.key else running.request.subject or ""
            running.ticket = Ticket(running.request.event_id, kind, str(key), running, self._now())
            queue.wait(running.ticket)
            self._monitor.waits(owner, queue, running.ticket)
            self._world.add(ScheduledMove("limit", owner, kind))
        return True

    def over(self, owner: Owner, running: RunningEffect, *, unused: bool = False) -> None:
        """End an attempt's turn."""
        ticket, running.ticket = running.ticket, None
        if ticket is None:
            return
        queue, has_turn = owner.queues[ticket.kind], running.has_turn
        running.has_turn = False
        if has_turn:
            queue.end(ticket, unused=unused)
            self._monitor.ended(owner, queue, ticket, unused=unused)
        else:
            queue.withdraw(ticket)
        self._world.add(ScheduledMove("limit", owner, ticket.kind))

    def _now(self) -> float:
        return (self._world.now_ms - BEGIN_MS) / 1000

    def _come(self, move: ScheduledMove) -> None:
        """Let time pass up to a turn: either it has passed, or nothing else was left to do until then."""
        queue: EffectQueue = move.whom.queues[move.what]
        at = queue.free_at(self._now())
        if at != inf:
            self._world.now_ms = max(self._world.now_ms, BEGIN_MS + ceil(at * 1000))
        self._give(move)

    def _give(self, move: ScheduledMove) -> None:
        """Give a turn, or wait until there is one."""
        owner: Owner = move.whom
        queue, world = owner.queues[move.what], self._world
        if owner.is_given_up:
            queue.held_until = lambda: -inf  # others take a task over when its owner was not heard of for a lease
        ticket = queue.next(self._now())
        if ticket is not None:
            ticket.of.has_turn = True
            world.monitor.violations += self._monitor.given(owner, queue, ticket, self._now())
            world.add(ScheduledMove("attempt", owner, ticket.id))
            world.add(ScheduledMove("limit", owner, move.what))
            return
        at = queue.free_at(self._now())
        if at != inf and not owner.is_given_up:
            world.story.note(f"{queue.waiting} effects wait at the limit of {queue.name}", str(owner))
            steps = max(1, ceil(at * 1000) - (world.now_ms - BEGIN_MS))
            world.add(ScheduledMove("a turn comes", owner, move.what), after=steps)


class LimitMonitor:
    """Checks what the outside world sees of limits, and that no key waits too long.

    It holds each task to its share, whichever processes take themselves for its owner: so all tasks keep to the limit.
    """

    def __init__(self) -> None:
        self._levels = dict["_Seen", _Level]()
        self._out = defaultdict["_Seen", set[tuple[Owner, str]]](set)
        self._waiting = defaultdict[tuple[Owner, str], dict[str, Counter[str]]](dict)
        self._held_from = dict[tuple[Owner, str, str], float]()

    def waits(self, owner: Owner, queue: EffectQueue, ticket: Ticket) -> None:
        """Take note that a request waits; from now on each other key may have one turn before it."""
        self._waiting[owner, ticket.kind].setdefault(ticket.key, Counter())
        self._held_from.setdefault((owner, queue.name, ticket.key), ticket.since)

    def shared(self, owner: Owner) -> None:
        """Take note of the limits that a task has from now on: one that is set for a while lets more drain meanwhile."""
        limits = owner.worker.task.processor.pauses.limits
        for of, known in self._levels.items():
            limit = limits.get(of.limit)
            if of.task == owner.task and limit is not None and limit.per_second is not None and not of.key:
                rate = max(known.rate, limit.per_second / owner.service.partitions)
                self._levels[of] = known._replace(rate=rate)

    def ended(self, owner: Owner, queue: EffectQueue, ticket: Ticket, *, unused: bool) -> None:
        """Take note that a turn is over; an unused one does not count."""
        for _, of, _ in _bounds(owner, queue, ticket):
            self._out[of].discard((owner, ticket.id))
            if unused:
                known = self._levels.get(of, _Level())
                self._levels[of] = known._replace(level=known.level - 1)
        for others in self._waiting[owner, ticket.kind].values() if unused else ():
            others[ticket.key] -= 1

    def given(self, owner: Owner, queue: EffectQueue, ticket: Ticket, now: float) -> list[Violation]:
        """Check a turn that was given, and return the violations."""
        found = self._check_order(owner, queue, ticket, now)
        for allowed, of, partitions in _bounds(owner, queue, ticket):
            found += self._check_rate(allowed, of, partitions, now)
            out = self._out[of]
            out.add((owner, ticket.id))
            count = sum(each.alive and not each.is_given_up for each, _ in out)
            if allowed.concurrent is not None and count > -(-allowed.concurrent // partitions):
                found.append(_too_many(of, f"{count} are out, of {allowed.concurrent} that all tasks may have"))
        return found

    def _check_rate(self, limit: Limit, of: "_Seen", partitions: int, now: float) -> list[Violation]:
        if limit.per_second is None:
            return []
        known, rate = self._levels.get(of, _Level(at=now)), limit.per_second / partitions
        level = max(0.0, known.level - (now - known.at) * max(rate, known.rate)) + 1  # it may have been set in between
        self._levels[of] = _Level(level, now, rate)
        most = max(1.0, limit.burst / partitions)
        return [] if level <= most + _ROUNDED else [_too_many(of, f"{level:.2f} at once, and {most:.2f} is its share")]

    def _check_order(self, owner: Owner, queue: EffectQueue, ticket: Ticket, now: float) -> list[Violation]:
        waiting = self._waiting[owner, ticket.kind]
        self._held_from[owner, queue.name, ticket.key] = now
        waiting.pop(ticket.key, None)
        if any(each.key == ticket.key for each in owner.waiting(ticket.kind)):
            waiting[ticket.key] = Counter()
        found = list[Violation]()
        for key, others in waiting.items():
            if self._may_be_held(owner, queue, key, now):
                continue
            others[ticket.key] += 1
            if others[ticket.key] > 1:
                found.append(broken(FAIRNESS, key, f"{ticket.key} had {others[ticket.key]} turns while {key} waited"))
        return found

    def _may_be_held(self, owner: Owner, queue: EffectQueue, key: str, now: float) -> bool:
        """Tell whether its own limit may hold a key up: one is out, or too little time has passed since its last turn."""
        each = queue.limit.each
        if each is None:
            return False
        partitions = owner.service.partitions if queue.limit.key else 1
        pace_s = 0.0 if each.per_second is None else partitions / each.per_second
        is_out = each.concurrent is not None and bool(self._out[_Seen(owner.task, queue.name, key)])
        return is_out or now <= self._held_from[owner, queue.name, key] + pace_s + _ROUNDED


class _Level(NamedTuple):
    """How many attempts came lately, beyond what the rate lets drain; as of when (s), and the highest rate since."""

    level: float = 0.0
    at: float = 0.0
    rate: float = 0.0


class _Seen(NamedTuple):
    """What the outside world sees of a task at a limit; of all its keys, or of one."""

    task: tuple[str, int]
    limit: str
    key: str = ""


def _bounds(owner: Owner, queue: EffectQueue, ticket: Ticket) -> list[tuple[Limit, _Seen, int]]:
    """Return what a turn counts against: each limit, of what, and among how many tasks it is shared."""
    limits, partitions = owner.worker.task.processor.pauses.limits, owner.service.partitions
    found = [(limits[n], _Seen(owner.task, n), partitions) for n in sorted({queue.name, ticket.kind} & limits.keys())]
    each = limits[queue.name].each
    if each is not None:
        found.append((each, _Seen(owner.task, queue.name, ticket.key), partitions if queue.limit.key else 1))
    return found


def _too_many(of: _Seen, what: str) -> Violation:
    service, partition = of.task
    return broken(LIMITS, of.limit, f"attempts of {service}/{partition}: {what}")


_ROUNDED = 1e-3  # times are whole milliseconds here
