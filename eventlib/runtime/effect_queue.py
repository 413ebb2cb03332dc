"""The queue of one limit: requests wait by key and kind of effect, and take turns. It has no clock, and awaits nothing."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from eventlib.limits import Limit


class Ticket:
    """A request's place in a queue. `kind` is its effect's, `of` who wants the turn, `since` when it began to wait."""

    __slots__ = ("id", "is_gone", "key", "kind", "of", "since")

    def __init__(self, request_id: str, kind: str, key: str, of: Any, since: float) -> None:
        self.id = request_id
        self.kind = kind
        self.key = key
        self.of = of
        self.since = since
        self.is_gone = False


class _Kind:
    """A kind of effect: its own bound, and a ring of the keys whose requests could go. `passed` is its virtual time."""

    def __init__(self, name: str, priority: int) -> None:
        self.name = name
        self.bound = Bound(UNLIMITED, 0)
        self.step = 1 / priority
        self.passed = 0.0
        self.ring = deque[str]()
        self.waiting = dict[str, deque[Ticket]]()


class EffectQueue:
    """The requests of a process that wait at one limit: that of a port, or of a kind of effect.

    `limits` are the declared ones by name: `name` is the queue's own, `kinds` those of its effects. Each process has the
    share of the tasks that it owns (`own`), so that no process asks another one for a turn. From `held_until` on another
    process may own them, and then it gives none.
    Guarantee: kinds take turns by priority, and the keys of a kind one by one; a key that may not go now holds up no other.
    """

    def __init__(self, name: str, kinds: tuple[str, ...], limits: Mapping[str, Limit], partitions: int) -> None:
        self.name = name
        self.limit = limits[name]
        self.waiting = 0
        self.held_until: Callable[[], float] = lambda: inf
        self._partitions = partitions
        self._bound = Bound(UNLIMITED, 0)
        self._kinds = {kind: _Kind(kind, limits.get(kind, Limit()).priority) for kind in kinds}
        self._each = UNLIMITED
        self._since = 0.0
        self._keys = dict[str, Bound]()
        self._most_keys = _SWEPT_AT
        self._sleeping: list[tuple[float, str, str]] = []
        self._full = dict[str, set[str]]()
        self._passed = 0.0
        self._owned = frozenset[int]()
        self.own({}, 0)

    def own(self, tasks: Mapping[int, Mapping[str, Limit]], now: float) -> None:
        """Take the share of these tasks, each with its limits by name, from now on."""
        if tasks.keys() - self._owned:
            self._since = now  # the former owner may have used up that task's share just now
        self._owned = frozenset(tasks)
        own = [(task, limits.get(self.name, Limit())) for task, limits in tasks.items()]
        self.limit = own[0][1] if own else self.limit
        self._bound.resize(share(own, self._partitions), now)
        for name, kind in self._kinds.items():
            of_kind = [(task, limits.get(name, Limit())) for task, limits in tasks.items() if name != self.name]
            kind.bound.resize(share(of_kind, self._partitions) if of_kind else UNLIMITED, now)
            kind.step = 1 / of_kind[0][1].priority if of_kind else 1.0
        each = [(task, limit.each) for task, limit in own if limit.each is not None]
        # All requests with one key of a decider are in one task; other keys are spread over all of them.
        whole = [(task, limit) for task in range(self._partitions) for _, limit in each[:1]]
        self._each = share(each if self.limit.key else whole, self._partitions) if each else UNLIMITED
        for bound in self._keys.values():
            bound.resize(self._each, now)
        self._wake_all()

    def wait(self, ticket: Ticket) -> None:
        """Let a request wait for its turn."""
        self.waiting += 1
        kind = self._kinds[ticket.kind]
        line = kind.waiting.get(ticket.key)
        if line is None:
            line = kind.waiting[ticket.key] = deque()
            kind.ring.append(ticket.key)
        line.append(ticket)

    def withdraw(self, ticket: Ticket) -> None:
        """Let a request that waits no longer wait."""
        if not ticket.is_gone:
            ticket.is_gone = True
            self.waiting -= 1

    def free_at(self, now: float) -> float:
        """Return from when on `next` may give a turn; infinity: not before something ends, waits or is owned."""
        if not self.waiting:
            return inf
        if now >= self.held_until():
            return now + _LEASE_LOOK_S
        at = min((kind.bound.free_at(now) for kind in self._kinds.values() if kind.ring), default=inf)
        if self._sleeping:
            at = min(at, max(now, self._sleeping[0][0]))
        return max(at, self._bound.free_at(now))

    def next(self, now: float) -> Ticket | None:
        """Give a turn, if one may go out now; it ends with `end`."""
        if not self.waiting or now >= self.held_until() or self._bound.free_at(now) > now:
            return None
        while self._sleeping and self._sleeping[0][0] <= now:
            _, kind_name, key = heappop(self._sleeping)
            self._kinds[kind_name].ring.append(key)
        for kind in sorted(self._kinds.values(), key=_virtual_time):
            if kind.ring and kind.bound.free_at(now) <= now:
                ticket = self._first_of(kind, now)
                if ticket is not None:
                    return self._begin(kind, ticket)
        return None

    def end(self, ticket: Ticket, *, unused: bool = False) -> None:
        """Take note that a turn is over; an unused one made no attempt, and gives its right to another."""
        self._bound.end(unused=unused)
        self._kinds[ticket.kind].bound.end(unused=unused)
        key = self._keys.get(ticket.key)
        if key is not None:
            key.end(unused=unused)
            for kind_name in sorted(self._full.pop(ticket.key, ())):
                self._kinds[kind_name].ring.append(ticket.key)

    def _begin(self, kind: _Kind, ticket: Ticket) -> Ticket:
        self.waiting -= 1
        self._passed = max(kind.passed, self._passed)  # a kind that did not wait saves up no turns
        kind.passed = self._passed + kind.step
        for bound in (self._bound, kind.bound, self._keys.get(ticket.key)):
            if bound is not None:
                bound.begin()
        return ticket

    def _first_of(self, kind: _Kind, now: float) -> Ticket | None:
        """Return the next request of a kind; keys that may not go now leave the ring until they may."""
        while kind.ring:
            key = kind.ring.popleft()
            line = kind.waiting[key]
            while line and line[0].is_gone:
                line.popleft()
            if not line:
                del kind.waiting[key]
                continue
            at = self._key(key, now)
            if at > now:
                if at == inf:
                    self._full.setdefault(key, set()).add(kind.name)
                else:
                    heappush(self._sleeping, (at, kind.name, key))
                continue
            ticket = line.popleft()
            if line:
                kind.ring.append(key)
            else:
                del kind.waiting[key]
            return ticket
        return None

    def _key(self, key: str, now: float) -> float:
        """Return from when on a key may go."""
        if self._each is UNLIMITED:
            return now
        if key not in self._keys:
            if len(self._keys) >= self._most_keys:
                self._keys = {name: bound for name, bound in self._keys.items() if not bound.is_fresh(now)}
                self._most_keys = max(_SWEPT_AT, 2 * len(self._keys))
            self._keys[key] = Bound(self._each, self._since)
        return self._keys[key].free_at(now)

    def _wake_all(self) -> None:
        """Put every key that waits back into its ring: its bound has changed."""
        self._sleeping, self._full = [], {}
        for kind in self._kinds.values():
            kind.ring = deque(dict.fromkeys([*kind.ring, *kind.waiting]))


def _virtual_time(kind: _Kind) -> float:
    return kind.passed


_SWEPT_AT = 1_000
_LEASE_LOOK_S = 0.1


_ALMOST = 1 - 1e-9  # what floats make of a whole token


class Share(NamedTuple):
    """The share of one process: attempts a second and at once (None: unlimited), and how many are out at a time."""

    per_second: float | None
    burst: float
    concurrent: float


UNLIMITED = Share(None, 1, inf)


def share(limits: Sequence[tuple[int, Limit]], partitions: int) -> Share:
    """Return the share of a process that owns these tasks, each with its limit, of so many.

    The shares of all owners together are no more than the limit, but for bursts: each process has one attempt at least.
    """
    rates = [limit.per_second for _, limit in limits if limit.per_second is not None]
    slots = [_slots(task, limit.concurrent, partitions) for task, limit in limits]
    return Share(
        sum(rates) / partitions if len(rates) == len(limits) else None,
        max(1.0, sum(limit.burst for _, limit in limits) / partitions),
        sum(slots),
    )


def _slots(task: int, concurrent: int | None, partitions: int) -> float:
    """Return a task's part of the calls that may be out; the parts of all tasks add up to exactly that."""
    return inf if concurrent is None else concurrent * (task + 1) // partitions - concurrent * task // partitions


class Bound:
    """Admits attempts by a share. Times are seconds of any clock that never goes back.

    Guarantee: it starts empty at `since`: who had this share before may have used it up just then.
    """

    __slots__ = ("_at", "_share", "_tokens", "out")

    def __init__(self, given: Share, since: float) -> None:
        self.out = 0
        self._share = given
        self._tokens = 0.0
        self._at = since

    def resize(self, given: Share, now: float) -> None:
        """Go on with another share; what was let out by now counts."""
        self._fill(now)
        self._share = given
        self._tokens = min(self._tokens, given.burst)

    def free_at(self, now: float) -> float:
        """Return from when on an attempt may go out: at the earliest `now`; never, before others end, is infinity."""
        if self.out >= self._share.concurrent:
            return inf
        rate = self._share.per_second
        if rate is None:
            return now
        self._fill(now)
        if self._tokens >= _ALMOST:
            return now
        return now + (1 - self._tokens) / rate if rate else inf

    def begin(self) -> None:
        """Let one out that is free to go."""
        self.out += 1
        self._tokens = max(0.0, self._tokens - 1)

    def end(self, *, unused: bool = False) -> None:
        """Take note that one came back; an unused one did not go out at all."""
        self.out = max(0, self.out - 1)  # it may have begun before there was this bound
        if unused:
            self._tokens = min(self._tokens + 1, self._share.burst)

    def is_fresh(self, now: float) -> bool:
        """Whether it lets out as much as a new one would."""
        self._fill(now)
        return not self.out and (self._share.per_second is None or self._tokens >= self._share.burst)

    def _fill(self, now: float) -> None:
        rate = self._share.per_second
        if rate is not None and now > self._at:
            self._tokens = min(self._share.burst, self._tokens + (now - self._at) * rate)
        self._at = max(self._at, now)
