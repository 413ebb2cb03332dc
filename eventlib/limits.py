"""Limits of effects: how often, and how many at once, a service may ask the outside world."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite

from eventlib.errors import WiringError

__all__ = ["Limit"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on the requests of a service to a port, or by a kind of effect: all of its processes together.

    `per_second` attempts on average, `burst` of them at once, `concurrent` that are out at a time; None does not limit.
    Requests wait in turn, by keys: the field `key` of a request, or by default the key of its decider. `each` limits every
    single key as well. Of two kinds of effect that wait at one port, one with `priority` 3 gets three turns for one of the
    other's. Guarantee: waiting uses up no attempt, and no key waits for more than one turn of each other key.
    Raises: WiringError.
    """

    per_second: float | None = None
    burst: int = 1
    concurrent: int | None = None
    key: str = ""
    each: "Limit | None" = None
    priority: int = 1

    def __post_init__(self) -> None:
        """Refuse a limit under which nothing could go out."""
        if self.per_second is not None and not (isfinite(self.per_second) and self.per_second > 0):
            raise WiringError(f"Limit(per_second={self.per_second}): give more than 0; to stop calls, pause the effect")
        for name, value in (("burst", self.burst), ("concurrent", self.concurrent), ("priority", self.priority)):
            if value is not None and value < 1:
                raise WiringError(f"Limit({name}={value}): give at least 1; to stop calls, pause the effect")
        each = self.each
        if each is not None and (each.key or each.each or each.priority != 1):
            raise WiringError("Limit(each=...) limits a single key: give it per_second, burst and concurrent only")
        if each is not None and self.key and each.concurrent is not None:
            raise WiringError(
                f"Limit(key={self.key!r}, each=Limit(concurrent=...)): a key's requests are spread over tasks, which cannot "
                "count together; leave out key, or limit each by per_second"
            )

    def __str__(self) -> str:
        return in_words(self.per_second, self.burst if self.per_second else 0, self.concurrent) or "no numbers"


def in_words(per_second: float | None, burst: int, concurrent: int | None) -> str:
    """Return the numbers of a limit as text; those that are None or 0 are left out."""
    numbers = {"{:g} a second": per_second, "{} at once": burst, "{} concurrent": concurrent}
    return ", ".join(text.format(number) for text, number in numbers.items() if number)


def limit_set(declared: Limit, per_second: float, burst: int, concurrent: int) -> Limit:
    """Return a limit with the numbers that an operator has set; one that is 0 stays as declared."""
    return replace(
        declared,
        per_second=per_second or declared.per_second,
        burst=burst or declared.burst,
        concurrent=concurrent or declared.concurrent,
    )


def checked(limits: Mapping[str, Limit], kinds: Mapping[str, str | None], partitions: int, where: str) -> None:
    """Refuse limits that name nothing or cannot be shared out; `kinds` has the port of each kind of effect.

    Raises: WiringError.
    """
    ports = {port for port in kinds.values() if port is not None}
    for name, limit in limits.items():
        if name not in kinds.keys() | ports:
            known = ", ".join(sorted(kinds.keys() | ports)) or "no effects"
            raise WiringError(f"{where} limits {name!r}, which is neither a port nor a request of its effects: {known}")
        if limit.concurrent is not None and limit.concurrent < partitions:
            raise WiringError(
                f"{where}, limit of {name}: concurrent={limit.concurrent} is less than its {partitions} partitions, and each "
                f"task needs a call of its own; give at least {partitions}, or fewer partitions"
            )
        if name in ports and limit.priority != 1:
            raise WiringError(f"{where}, limit of {name}: a priority is one of a kind of effect, and {name} is a port")
        if kinds.get(name) in limits and (limit.key or limit.each):
            raise WiringError(f"{where}, limit of {name}: give key and each in the limit of its port {kinds[name]}")
