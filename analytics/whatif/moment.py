"""One millisecond of the recorded past: what each task did then, in an order in which causes come first.

Each task's own order is in its journal. Between tasks only causes order what happened in the same millisecond.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from eventlib.model.record import Record
from eventlib.replay.journal_steps import NONE_REFUSED, Act, Other, Refusal, act_of, with_refusals
from eventlib.runtime.records import JournalEntry

Source = tuple[str, str]
"""A service, and the id of what it answered."""


class Slot(NamedTuple):
    """A recorded record in an input of a task: `cause` is what a service answered with it; None: it came from outside."""

    topic: str
    partition: int
    offset: int
    id: str
    at_ms: int
    cause: Source | None


class Item(NamedTuple):
    """One thing that a task did: an input (`slot`), or any other `act`."""

    slot: Slot | None
    act: Act | None = None
    refused: Mapping[str, Refusal] = NONE_REFUSED

    @property
    def id(self) -> str:
        """The id of the input, or of what else events that followed name as their cause."""
        if self.slot is not None:
            return self.slot.id
        return self.act.step.request if isinstance(self.act, Other) else getattr(self.act, "request_id", "")


class Inputs:
    """The recorded inputs of one task that its journal has not come to yet, by topic."""

    def __init__(self) -> None:
        self._slots = dict[str, deque[Slot]]()

    def follow(self, topics: Iterable[str]) -> None:
        """Keep the records of these topics from now on."""
        for topic in topics:
            self._slots.setdefault(topic, deque())

    def add(self, record: Record, cause: Source | None) -> None:
        """Add the next recorded record of a topic."""
        place = record.topic, record.partition, record.offset
        self._slots[record.topic].append(Slot(*place, record.event_id, record.timestamp_ms, cause))

    def items(self, entry: JournalEntry) -> Iterator[Item]:
        """Yield what an entry did, one by one; inputs up to its last that the journal left out come with them."""
        for step, refused in with_refusals(entry.steps):
            if step.kind != "run":
                yield Item(None, act_of(step, refused.get(step.decider)))
                continue
            slots = self._slots.get(step.topic)
            while slots and slots[0].offset <= step.last:
                slot = slots.popleft()
                yield Item(slot, refused=refused if slot.offset == step.last else NONE_REFUSED)

    def left(self) -> list[Slot]:
        """Remove and return all that the journal never came to, in the order of time."""
        found = sorted((slot for slots in self._slots.values() for slot in slots), key=lambda slot: slot.at_ms)
        for slots in self._slots.values():
            slots.clear()
        return found


class MomentTask(NamedTuple):
    """What a task did in the millisecond, in its order."""

    service: str
    items: deque[Item]


def in_causal_order(
    at_ms: int, tasks: Sequence[MomentTask], is_there: Callable[[Slot], bool]
) -> Iterator[tuple[int, Item]]:
    """Yield the items of one millisecond, each with the number of its task.

    An input that was emitted in the same millisecond comes after what emitted it: as soon as it `is_there` in the
    alternative past, or what emitted it is done, so that it will not be. The caller does each item before it takes the next.
    """
    done = set[Source]()
    waiting = [number for number, task in enumerate(tasks) if task.items]
    while waiting:
        progressed = False
        for number in waiting:
            service, items = tasks[number]
            while items and not _has_to_wait(items[0], at_ms, done, is_there):
                progressed = True
                item = items.popleft()
                yield number, item
                done.add((service, item.id))
        if not progressed:  # emitted by a deadline that did not pass now, or by a task that is not followed
            number = next(number for number in waiting if tasks[number].items)
            item = tasks[number].items.popleft()
            yield number, item
            done.add((tasks[number].service, item.id))
        waiting = [number for number in waiting if tasks[number].items]


def _has_to_wait(item: Item, at_ms: int, done: set[Source], is_there: Callable[[Slot], bool]) -> bool:
    slot = item.slot
    if slot is None or slot.cause is None or slot.at_ms != at_ms:
        return False
    return slot.cause not in done and not is_there(slot)
