"""What a rerun has to know of a task's journal before it begins."""

from typing import NamedTuple

from eventlib.replay.journal import TaskJournal


class Outline(NamedTuple):
    """A task's journal, seen from afar.

    `entries` counts its transactions, `done` those before the offset that was asked for; in the millisecond of the last
    of these, `done_ms`, `done_said` events were said. `begun` are the topics that the task has read. `taken_over` tells
    when the task took over earlier reruns (ms), and how many events it then said.
    """

    entries: int
    done: int
    done_ms: int
    done_said: int
    first_ms: int
    begun: frozenset[str]
    taken_over: tuple[tuple[int, int], ...]


async def outline(journal: TaskJournal, done_to: int) -> Outline:
    """Read a journal through. Raises: ContractError when its beginning is missing."""
    entries = done = done_ms = done_said = first_ms = 0
    begun = set[str]()
    taken_over = list[tuple[int, int]]()
    async for record, entry in journal.entries():
        first_ms = first_ms or entry.at_ms
        entries += 1
        if record.offset < done_to:
            done += 1
            done_ms, done_said = entry.at_ms, entry.said + (done_said if entry.at_ms == done_ms else 0)
        begun |= {step.topic for step in entry.steps if step.kind == "begin"}
        if any(step.kind == "switch" for step in entry.steps):
            taken_over.append((entry.at_ms, entry.said))
    return Outline(entries, done, done_ms, done_said, first_ms, frozenset(begun), tuple(taken_over))
