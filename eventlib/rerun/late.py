"""What a rerun has to know of a task's journal before it begins: how long it is, and where the service was away."""

from bisect import bisect_left
from typing import NamedTuple

from eventlib.replay.journal import TaskJournal

NEVER = 1 << 62


class Outline(NamedTuple):
    """A task's journal, seen from afar.

    `entries` counts its transactions, `done` those before the offset that was asked for; in the millisecond of the last
    of these, `done_ms`, `done_said` events were said. `begun` are the topics that the task has read. `late` has, in order of offsets,
    each transaction that passed deadlines long after they fell due, and the earliest of them from there on (ms).
    """

    entries: int
    done: int
    done_ms: int
    done_said: int
    first_ms: int
    begun: frozenset[str]
    late: tuple[tuple[int, int], ...]

    def overdue_ms(self, offset: int) -> int:
        """Return the earliest due time (ms) of what the task is yet to pass late, from an offset of the journal on.

        A rerun that passed other deadlines from then on would be ahead of a service that was away.
        """
        index = bisect_left(self.late, (offset, -1))
        return self.late[index][1] if index < len(self.late) else NEVER


async def outline(journal: TaskJournal, patience_ms: int, done_to: int) -> Outline:
    """Read a journal through. Raises: ContractError when its beginning is missing."""
    entries = done = done_ms = done_said = first_ms = 0
    begun = set[str]()
    late = list[tuple[int, int]]()
    async for record, entry in journal.entries():
        first_ms = first_ms or entry.at_ms
        entries += 1
        if record.offset < done_to:
            done += 1
            done_ms, done_said = entry.at_ms, entry.said + (done_said if entry.at_ms == done_ms else 0)
        due = [step.first for step in entry.steps if step.kind == "deadline"]
        begun |= {step.topic for step in entry.steps if step.kind == "begin"}
        if due and entry.at_ms - min(due) > patience_ms:
            late.append((record.offset, min(due)))
    earliest = NEVER
    for index in reversed(range(len(late))):
        earliest = min(earliest, late[index][1])
        late[index] = (late[index][0], earliest)
    return Outline(entries, done, done_ms, done_said, first_ms, frozenset(begun), tuple(late))
