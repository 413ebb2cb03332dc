"""One task of a rerun: it takes the inputs that the service's task has taken, in the order in which that did.

The order is the journal's. An input that the service itself had said is replaced by what the rerun says in its place,
or left out when the rerun does not say it; effects are not run, their recorded answers are taken.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from eventlib.codec.port import UnknownSchema
from eventlib.errors import OwnershipLost
from eventlib.log.port import Claim, Record
from eventlib.replay.acts import Act, Answered, DeadlinePassed, Done, Input, Released
from eventlib.replay.journal import TaskJournal
from eventlib.rerun.late import Outline
from eventlib.rerun.plan import Planner, Rails
from eventlib.rerun.recorded import SaidThen
from eventlib.rerun.unheard import marked
from eventlib.runtime.past import Beginning
from eventlib.runtime.records import JournalEntry
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction

PATIENCE_MS = 5_000
"""How long after it fell due a deadline passes that the service never had: its own pass sooner, unless it was away."""

_MOST_UNCOMMITTED = 1_000


class Follower:
    """Follows one task of a service."""

    def __init__(self, rails: Rails, task: Task, claim: Claim, outline: Outline) -> None:
        self.task = task
        self.partition = task.partition
        self.entries = outline.done
        self._rails = rails
        self._claim = claim
        self._outline = outline
        self._journal = TaskJournal(rails.log, rails.service, task.partition)
        self._journal_topic = rails.service.journal.name
        self._entries: AsyncIterator[tuple[Record, JournalEntry]] | None = None
        self._ahead = deque[Done]()
        self._said_then, self._then_ms = outline.done_said, outline.done_ms
        self._uncommitted = 0
        self._due_waits = False
        run = task.service
        self._home = {run.said_on(topic).name: topic.name for topic in run.outputs}
        self._unread = [topic.name for topic in run.inputs if topic.name not in outline.begun]
        self._planner = Planner(rails, task, self._journal, self._unread)

    async def begin(self) -> None:
        """Take up the rerun where it was left, or begin it."""
        task, port = self.task, self._rails.log.port
        if not task.positions.next:
            starts = [(topic, await port.start(topic, self.partition)) for topic in self._unread]
            begun = [(self._journal_topic, 0), *((said, 0) for said in self._rails.unheard.topics.values()), *starts]
            beginnings = [Beginning(topic, first, first) for topic, first in begun]
            await self._commit(Inputs(self._outline.first_ms, beginnings=beginnings))
        await self._rails.unheard.load(self.partition, task.positions)
        for topic in {*self._outline.begun, *self._unread} & task.positions.next.keys():
            self._journal.begin(topic, task.positions.next[topic])

    @property
    def head(self) -> Done | None:
        """The service's next transaction, as far as it is known yet."""
        return self._ahead[0] if self._ahead else None

    async def look(self) -> None:
        """Read all that the service's task has done within the next millisecond in which it did anything."""
        if self._entries is None:
            first = self._ahead[-1].offset + 1 if self._ahead else self.task.positions.next[self._journal_topic]
            self._entries = self._journal.entries(first)
        while not self._ahead or self._ahead[0].at_ms == self._ahead[-1].at_ms:
            found = await anext(self._entries, None)
            if found is None:
                self._entries = None
                return
            record, entry = found
            acts = await self._journal.acts(entry)
            self._ahead.append(Done(record.offset, entry.at_ms, entry.code_version, entry.said, acts))

    # --- what is to be done next, and when

    async def extra(self) -> Record | None:
        """Return an event that the service has not said, when it is its turn to be heard."""
        for topic in self._rails.unheard.topics:
            extra = self._rails.unheard.next_extra(topic, self.partition)
            if extra is not None:
                unread_ms = await self._unread_ms(topic)
                if unread_ms is None or unread_ms > extra.timestamp_ms:
                    return extra
        return None

    async def due(self, now_ms: int) -> int | None:
        """Return when a deadline fell due that may pass now, and that the service did not have."""
        if self._due_waits:
            return None
        until = now_ms - PATIENCE_MS
        due = self.task.next_due_ms(until)
        if due is None or due > until:
            return None
        overdue_ms = self._outline.overdue_ms(self.task.positions.next[self._journal_topic])
        unread = [await self._unread_ms(topic.name) for topic in self.task.service.inputs]
        self._due_waits = due >= overdue_ms or any(each is not None and each <= due for each in unread)
        return None if self._due_waits else due

    def may_say(self, recorded: Record) -> bool:
        """Tell whether what the service's task has said here is yet to come: whether its cause is."""
        upcoming = (act for done in self._ahead if done.at_ms == recorded.timestamp_ms for act in done.acts)
        return any(_is_cause(act, recorded) for act in upcoming)

    def missing(self) -> list[Record]:
        """Return the inputs of the head that the service had said itself, and the rerun has not."""
        assert self.head is not None  # noqa: S101  asked only when there is one
        inputs = [act.record for act in self.head.acts if isinstance(act, Input)]
        own = [r for r in inputs if self._rails.recorded.is_own(r) and not self._rails.unheard.has(r)]
        return [r for r in own if r.offset >= self.task.positions.next.get(r.topic, 0)]

    async def _unread_ms(self, topic: str) -> int | None:
        """Return the time of the next input of a topic; None when there is none."""
        for act in (act for done in self._ahead for act in done.acts):
            if isinstance(act, Input) and act.record.topic == topic:
                return act.record.timestamp_ms
        return await self._journal.next_ms(topic)

    # --- doing it

    async def hear(self, extra: Record) -> None:
        """Handle an event that the service has not said."""
        await self._commit(Inputs(extra.timestamp_ms, [extra]))
        self._rails.unheard.heard(extra)

    async def pass_deadline(self, due_ms: int) -> None:
        """Pass the deadlines that fell due at a time."""
        await self._commit(Inputs(due_ms, due_ms=due_ms))

    async def follow(self) -> None:
        """Do what the service's task has done in its next transaction, as the rerun does it."""
        done = self.head
        assert done is not None  # noqa: S101  asked only when there is one
        for inputs in await self._planner.plan(done):
            await self._commit(inputs, done.at_ms)
        self.entries += 1
        self._said_then = done.said + (self._said_then if self._then_ms == done.at_ms else 0)
        self._then_ms = done.at_ms
        self._ahead.popleft()
        await self.look()
        if self.head is None or self.head.at_ms > done.at_ms:
            self._rails.recorded.past(self.partition, done.at_ms)

    async def rest(self) -> None:
        """Commit how far inputs were passed that made no difference."""
        if self._uncommitted:
            await self._commit(Inputs(self.task.positions.at_ms), always=True)

    def close(self) -> None:
        """Give the local store back."""
        with suppress(OwnershipLost):
            self.task.state.close()

    async def _commit(self, inputs: Inputs, then_ms: int | None = None, *, always: bool = False) -> None:
        """Handle inputs in as many transactions as it takes; `then_ms` is when the service did, if it did."""
        self._due_waits = False
        while True:
            await self._open(inputs)
            if self.task.matters or always or self._uncommitted >= _MOST_UNCOMMITTED:
                transaction = self.task.close()
                passed = transaction.passed
                await self._append(transaction._replace(events=await self._marked(transaction.events, then_ms)))
            else:
                self._uncommitted += 1
                passed = self.task.skip()
            if passed.records >= len(inputs.records):
                return
            inputs = replace(inputs, records=inputs.records[passed.records :], answers=(), acts=())

    async def _open(self, inputs: Inputs) -> None:
        try:
            self.task.open(inputs)
        except UnknownSchema:
            self.task.rolled_back()
            await self._rails.log.codec.refresh()
            self.task.open(replace(inputs, schemas_known=True))

    async def _append(self, transaction: Transaction) -> None:
        offsets = await self._rails.log.port.append(transaction.records, self._claim)
        self.task.committed(transaction, offsets)
        self._uncommitted = 0
        for record, offset in zip(transaction.events, offsets, strict=False):
            self._rails.unheard.add(record._replace(offset=offset))

    async def _marked(self, events: Sequence[Record], then_ms: int | None) -> list[Record]:
        """Return what the rerun says, each event with a note of where the service has said it."""
        said = SaidThen()
        ids = [record.event_id for record in events if record.topic in self._home]
        if ids and then_ms is not None:
            # What was said before, in the same millisecond, counts as well, since nothing tells it apart.
            before = self._said_then if self._then_ms == then_ms else 0
            count = before + sum(done.said for done in self._ahead if done.at_ms == then_ms)
            said = await self._rails.recorded.said(self.partition, then_ms, count, ids)
        found = list[Record]()
        for record in events:
            place = self._home.get(record.topic, ""), record.partition
            heard_to = self._rails.heard_to(*place)
            found.append(marked(record, said.take(record.event_id), place, heard_to) if place[0] else record)
        return found


def _is_cause(act: Act, said: Record) -> bool:
    match act:
        case Input(record, journalled=True) | Released(record=record):
            return record.event_id == said.causation_id
        case Answered(request_id=request_id):
            return request_id == said.causation_id
        case DeadlinePassed(decider, key):
            return (decider, key) == ((said.source or "").partition("/")[2], said.subject)
        case _:
            return False
