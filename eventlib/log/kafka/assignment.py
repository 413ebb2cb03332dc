"""Assigns a group's tasks and standby copies to its members: whole tasks, evenly, with few moves."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class SubscribedMember(NamedTuple):
    """A member, its tasks, the group generation that assigned them, and its standby copies."""

    name: str
    runs: Collection[int]
    generation: int
    copies: Collection[int] = ()


def assign(tasks: int, members: Sequence[SubscribedMember]) -> dict[str, list[int]]:
    """Return each member's tasks.

    Guarantee: each task has one member; members' task counts differ by one at most; no more tasks move than that takes.
    If two members report the same task, the newer generation wins. A moved task goes to a member with a standby copy,
    if that one has capacity.
    """
    if not members:
        return {}
    runs = _undisputed(tasks, members)
    least, more = divmod(tasks, len(members))
    # The members with the most tasks get the remainder, so that fewer move.
    order = sorted(runs, key=lambda name: (-len(runs[name]), name))
    most = {name: least + (turn < more) for turn, name in enumerate(order)}
    kept = {name: runs[name][: most[name]] for name in order}
    taken = {task for theirs in kept.values() for task in theirs}
    free = [task for task in range(tasks) if task not in taken]
    _give_to_copies(free, kept, most, {member.name: member.copies for member in members})
    for name in order:
        wants = most[name] - len(kept[name])
        kept[name] = sorted(kept[name] + free[:wants])
        free = free[wants:]
    return kept


def stand_by(
    runs: Mapping[str, Collection[int]], members: Sequence[SubscribedMember], copies: int
) -> dict[str, list[int]]:
    """Return each member's standby copies: `copies` members for each task, as far as there are others.

    Guarantee: no member keeps a copy of its own task. A member keeps its copies, and of a task it has just run, up to
    its share; copies of one member's tasks are spread over the others, so that a takeover is even.
    """
    there = {member.name: {*member.copies, *member.runs} for member in members}
    found: dict[str, list[int]] = {name: [] for name in there}
    if not found:
        return found
    copies = min(copies, len(found) - 1)
    share = -(-sum(map(len, runs.values())) * copies // len(found))
    of_whom = Counter[tuple[str, str]]()
    for runner, task in sorted((runner, task) for runner, theirs in runs.items() for task in theirs):
        others = [name for name in found if name != runner]
        others.sort(
            key=lambda name: (
                len(found[name]) >= share,
                task not in there[name],
                of_whom[runner, name],
                len(found[name]),
                name,
            )
        )
        for name in others[:copies]:
            found[name].append(task)
            of_whom[runner, name] += 1
    return {name: sorted(tasks) for name, tasks in found.items()}


def _give_to_copies(
    free: list[int], kept: Mapping[str, list[int]], most: Mapping[str, int], copies: Mapping[str, Collection[int]]
) -> None:
    """Give free tasks to members with a copy and capacity: tasks with the fewest copies first."""
    holders = {task: [name for name in kept if task in copies[name]] for task in free}
    for task in sorted(free, key=lambda task: (len(holders[task]), task)):
        takers = [name for name in holders[task] if len(kept[name]) < most[name]]
        if takers:
            kept[min(takers, key=lambda name: (len(kept[name]) - most[name], name))].append(task)
            free.remove(task)


def _undisputed(tasks: int, members: Sequence[SubscribedMember]) -> dict[str, list[int]]:
    newest = dict[int, SubscribedMember]()
    for member in sorted(members, key=lambda each: (each.generation, each.name)):
        newest |= {task: member for task in member.runs if 0 <= task < tasks}
    runs: dict[str, list[int]] = {member.name: [] for member in members}
    for task, member in sorted(newest.items()):
        runs[member.name].append(task)
    return runs
