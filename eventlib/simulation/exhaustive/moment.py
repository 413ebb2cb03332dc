"""A moment of an exploration, and a step to one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.invariants import Violation
from eventlib.simulation.exhaustive.tasks import TaskName

Waiting = tuple[tuple[tuple[str, int, str], tuple[int, ...]], ...]


class Moment(NamedTuple):
    """A state of the whole; equal moments have equal futures.

    `knows` is by task, `waiting` by (service, partition, topic); `asked` has a bit for each request that was made,
    `flying` are the calls that may still arrive, `reported` the callbacks that came; `at_ms` moves when a deadline passes.
    `idle` are the tasks that had read all that was there, and so may have forgotten a state meanwhile: they are asked when
    something comes that could miss it.
    """

    knows: tuple[tuple[TaskName, int], ...]
    waiting: Waiting
    outside: int
    seen: int
    asked: int
    flying: tuple[int, ...]
    at_ms: int
    reported: tuple[int, ...] = ()
    idle: tuple[TaskName, ...] = ()


class Step(NamedTuple):
    """A step to a moment, and the invariants that it breaks."""

    what: str
    moment: Moment
    violations: Sequence[Violation] = ()


def put(pairs: tuple[Any, ...], name: object, value: object) -> tuple[Any, ...]:
    """Return sorted pairs with a value added or replaced; an empty value removes the pair."""
    changed = {**dict(pairs), name: value}
    return tuple(sorted(pair for pair in changed.items() if pair[1] not in ((), 0)))
