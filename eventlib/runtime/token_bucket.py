"""Token buckets and counts of what is out: one bound on attempts, without a clock of its own."""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from eventlib.limits import Limit

_ALMOST = 1 - 1e-9  # what floats make of a whole token


class Share(NamedTuple):
    """What falls to one process: attempts a second and at once (None: unlimited), and how many are out at a time."""

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
    """What a share lets out. Times are seconds of any clock that never goes back.

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
