"""What a service's task did next: its transactions, read ahead from its journal."""

from collections import deque
from collections.abc import AsyncIterator, Callable

from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.journal import TaskJournal
from eventlib.replay.journal_steps import Act, Answered, Consumed, DeadlinePassed, Done, Moved, Released
from eventlib.replay.player import Player
from eventlib.replay.task_inputs import PullScanner, TaskInputs
from eventlib.runtime.records import JournalEntry


class Upcoming:
    """The next transactions of a service's task, in order; `handles` tells which inputs the rerun handles."""

    def __init__(self, log: EventLog, task: tuple[Service, int], handles: Callable[[Record], bool]) -> None:
        self.inputs = TaskInputs(PullScanner(log), task)
        self._service = task[0].name
        self._journal = TaskJournal(log, *task)
        self._player = Player(log, task, self.inputs, holds=True)
        self._handles = handles
        self._entries: AsyncIterator[tuple[Record, JournalEntry]] | None = None
        self._known = deque[Done]()

    @property
    def head(self) -> Done | None:
        """The next transaction, if known yet."""
        return self._known[0] if self._known else None

    async def read_ahead(self, first: int) -> None:
        """Read all transactions of the next active millisecond; from this offset of the journal on if none is known."""
        known = self._known
        if self._entries is None:
            self._entries = self._journal.entries(known[-1].offset + 1 if known else first)
        while not known or known[0].at_ms == known[-1].at_ms:
            found = await anext(self._entries, None)
            if found is None:
                self._entries = None
                return
            record, entry = found
            acts = await self._player.play(entry)
            for moved in (act for act in acts if isinstance(act, Moved)):
                moved.loss(self._service)
            known.append(Done(record.offset, entry.at_ms, entry.code_version, entry.said, acts))

    def pass_head(self) -> None:
        """Go on to the transaction after the head."""
        self._known.popleft()

    def emitted_at(self, at_ms: int) -> int:
        """Return how many events the known transactions of a millisecond emitted."""
        return sum(each.said for each in self._known if each.at_ms == at_ms)

    def may_emit(self, recorded: Record) -> bool:
        """Return whether an output of the task is yet to come: whether its cause is."""
        acts = (act for done in self._known if done.at_ms == recorded.timestamp_ms for act in done.acts)
        return any(_is_cause(act, recorded) for act in acts)

    async def unread_ms(self, topic: str, *, besides: Done | None = None) -> int | None:
        """Return the time of a topic's next handled input, in these transactions or after them; None if there is none.

        Unhandled inputs are journalled together with later ones.
        """
        for act in (act for done in self._known if done is not besides for act in done.acts):
            if isinstance(act, Consumed) and act.topic == topic:
                for item in filter(lambda item: self._handles(item.record), act.inputs):
                    return item.record.timestamp_ms
        return await self.inputs.next_ms(topic, self._handles)


def _is_cause(act: Act, said: Record) -> bool:
    match act:
        case Consumed(first=first):
            return any(i.record.event_id == said.causation_id for i in act.inputs if i.record.offset >= first)
        case Released(record=record):
            return record.event_id == said.causation_id
        case Answered(request_id=request_id):
            return request_id == said.causation_id
        case DeadlinePassed(decider, key):
            return (decider, key) == ((said.source or "").partition("/")[2], said.subject)
        case _:
            return False
