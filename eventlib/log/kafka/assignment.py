"""Which member of a group runs which tasks: whole tasks, evenly, and as they were as far as that goes."""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Member(NamedTuple):
    """A member, the tasks that it runs, and the group's generation that gave them to it."""

    name: str
    runs: Collection[int]
    generation: int


def assign(tasks: int, members: Sequence[Member]) -> dict[str, list[int]]:
    """Return each member's tasks.

    Guarantee: each task has one member; two members' numbers of tasks differ by one at most; no more tasks move than
    that takes. Of two who say that they run a task, the one with the newer generation does.
    """
    runs = _undisputed(tasks, members)
    least, more = divmod(tasks, len(members))
    # Who runs the most gets the odd ones, so that fewer move.
    order = sorted(runs, key=lambda name: (-len(runs[name]), name))
    kept = {name: runs[name][: least + (turn < more)] for turn, name in enumerate(order)}
    taken = {task for theirs in kept.values() for task in theirs}
    free = [task for task in range(tasks) if task not in taken]
    for turn, name in enumerate(order):
        wants = least + (turn < more) - len(kept[name])
        kept[name] = sorted(kept[name] + free[:wants])
        free = free[wants:]
    return kept


def _undisputed(tasks: int, members: Sequence[Member]) -> dict[str, list[int]]:
    newest = dict[int, Member]()
    for member in sorted(members, key=lambda each: (each.generation, each.name)):
        newest |= {task: member for task in member.runs if 0 <= task < tasks}
    runs: dict[str, list[int]] = {member.name: [] for member in members}
    for task, member in sorted(newest.items()):
        runs[member.name].append(task)
    return runs
