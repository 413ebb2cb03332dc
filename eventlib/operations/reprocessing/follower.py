"""One task of a rerun: it consumes the inputs of the service's task, in the order of its journal.

An input that the service itself emitted is replaced by the rerun's own event, or left out if the rerun does not emit it;
effects do not run, their recorded answers are used.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from eventlib.codec.base import UnknownSchema
from eventlib.errors import OwnershipLost
from eventlib.log.base import Claim, TopicPartition
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.operations.reprocessing.id_matching import Naming, Outline
from eventlib.operations.reprocessing.original_outputs import OutputsAt, RecordedDecisions
from eventlib.operations.reprocessing.pending_inputs import PendingInput, marked
from eventlib.operations.reprocessing.plan import Planner
from eventlib.operations.reprocessing.upcoming import Upcoming
from eventlib.replay.journal_steps import Consumed, Done
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.inputs import InputReader
from eventlib.runtime.records import EFFECT
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction

if TYPE_CHECKING:
    from eventlib.operations.reprocessing.running import Rerun

PATIENCE_MS = 5_000
"""How long after its due time a deadline passes that the service never had: its own pass sooner, unless it was down."""

_MOST_UNCOMMITTED = 1_000


class Follower:
    """Follows one task of a service."""

    def __init__(
        self, rerun: "Rerun", task: Task, claim: Claim, outline: Outline, recorded_decisions: RecordedDecisions
    ) -> None:
        self.task = task
        self.partition = task.partition
        self.entries = outline.done
        self._rerun = rerun
        self.claim = claim
        self._outline = outline
        self._journal_topic = rerun.service.journal.name
        self._upcoming = Upcoming(rerun.log, (rerun.service, task.partition), self._is_handled)
        self._emitted_then, self._then_ms = outline.done_emitted, outline.done_ms
        self._naming = Naming(rerun.log.codec, ())
        self._recorded_decisions = recorded_decisions
        self._uncommitted = 0
        run = task.service
        self._home = {run.output_topic(topic).name: topic.name for topic in run.outputs}
        self._unread = [topic.name for topic in run.inputs if topic.name not in outline.begun]
        self._reader = InputReader(rerun.log, run)
        self._planner = Planner(rerun, task, self._upcoming.inputs, self._unread)

    async def begin(self) -> None:
        """Resume or begin the rerun."""
        task, port = self.task, self._rerun.log.port
        if not task.positions.next:
            starts = [(topic, await port.start(topic, self.partition)) for topic in self._unread]
            begun = [
                (self._journal_topic, 0),
                *((shadow, 0) for shadow in self._rerun.pending.topics.values()),
                *starts,
            ]
            beginnings = [InputStart(topic, first, first) for topic, first in begun]
            await self._commit(Inputs(self._outline.first_ms, beginnings=beginnings))
        self._naming = Naming(self._rerun.log.codec, await self._takeover_outputs())
        for builder in task.processor.builders.values():
            builder.names = self._naming
        await self._rerun.pending.load(self.partition, task.positions)
        for topic in {*self._outline.begun, *self._unread} & task.positions.next.keys():
            self._upcoming.inputs.begin(topic, task.positions.next[topic])

    async def _takeover_outputs(self) -> list[Record]:
        """Return the outputs of the service's task in its takeovers of earlier reruns."""
        found = list[Record]()
        if any(count for _, count in self._outline.taken_over):
            recorded = self._rerun.recorded.again()
            await recorded.begin(self._outline.taken_over[0][0])
            for at_ms, count in self._outline.taken_over:
                found += (await recorded.outputs(self.partition, at_ms, count)).all
        return found

    @property
    def head(self) -> Done | None:
        """The service's next transaction, if known yet."""
        return self._upcoming.head

    async def read_ahead(self) -> None:
        """Read all transactions of the service's task in its next active millisecond."""
        await self._upcoming.read_ahead(self.task.positions.next[self._journal_topic])

    # --- what comes next, and when

    async def next_added(self) -> Record | None:
        """Return an event that the service did not emit, if it is to be consumed next."""
        for topic in self._rerun.pending.topics:
            extra = self._rerun.pending.next_added(topic, self.partition)
            if extra is not None:
                unread_ms = await self._upcoming.unread_ms(topic)
                if unread_ms is None or unread_ms > extra.timestamp_ms:
                    return extra
        return None

    def may_emit(self, recorded: Record) -> bool:
        """Return whether an output of the service's task is yet to come: whether its cause is."""
        return self._upcoming.may_emit(recorded)

    def missing(self) -> list[Record]:
        """Return the inputs of the head that the service emitted itself, and the rerun has not."""
        assert self.head is not None  # noqa: S101  asked only when there is one
        inputs = [record for act in self.head.acts if isinstance(act, Consumed) for record, _ in act.each()]
        own = [r for r in inputs if self._rerun.recorded.is_own(r) and not self._rerun.pending.has(r)]
        return [r for r in own if r.offset >= self.task.positions.next.get(r.topic, 0)]

    def _is_handled(self, record: Record) -> bool:
        return self._reader.deciders_of(record) is not None

    async def _due_in(self, done: Done) -> int | None:
        """Return the time up to which deadlines pass in a transaction that the service did not have; None for none.

        A service passes due deadlines once it has handled all its inputs: so what was due one transaction ago has passed
        as soon as no input is left. Before that, it might have been down or behind, and then have consumed an input that
        cancels the deadline.
        """
        until = self._then_ms - PATIENCE_MS
        due = self.task.next_due_ms(until)
        if due is None or due > until or done.at_ms <= self._rerun.since_ms:
            return None
        for topic in self._outline.begun:
            unread_ms = await self._upcoming.unread_ms(topic, besides=done)
            if unread_ms is not None and unread_ms <= done.at_ms:
                return None
        return until

    # --- doing it

    async def consume_added(self, extra: Record) -> None:
        """Handle an event that the service did not emit."""
        await self._commit(Inputs(extra.timestamp_ms, [extra]))
        self._rerun.pending.consumed(extra)

    def pending(self) -> list[Record]:
        """Return the effects that the rerun requested and that have no answer yet."""
        return [request for request in self.task.state.committed(EFFECT) if not request.headers]

    async def answer(self, request: Record, recorded: Record) -> bool:
        """Apply a recorded answer to an effect; False if the effect cannot have it."""
        answer = await self._planner.answer_in(request, recorded)
        if answer is not None:
            await self._commit(Inputs(recorded.timestamp_ms, answers=[answer]))
        return answer is not None

    async def follow(self) -> None:
        """Reprocess the next transaction of the service's task."""
        done = self.head
        assert done is not None  # noqa: S101  asked only when there is one
        # Earlier outputs of the same millisecond count too: nothing distinguishes them.
        before = self._emitted_then if self._then_ms == done.at_ms else 0
        count = before + self._upcoming.emitted_at(done.at_ms)
        inputs = await self._planner.plan(done, await self._due_in(done))
        then = await self._rerun.recorded.outputs(self.partition, done.at_ms, count if done.said else 0)
        if done.at_ms <= self._rerun.since_ms:
            await self._recorded_decisions.recall(done, then)
        else:
            self._recorded_decisions.forget()
        self._naming.begin(then)
        for each in inputs:
            await self._commit(each)
        self._naming.begin(OutputsAt())
        self.entries += 1
        self._emitted_then, self._then_ms = before + done.said, done.at_ms
        self._upcoming.pass_head()
        await self.read_ahead()
        if self.head is None or self.head.at_ms != done.at_ms:
            self._rerun.recorded.past(self.partition, done.at_ms)

    async def rest(self) -> None:
        """Commit the positions past inputs that changed nothing."""
        if self._uncommitted:
            await self._commit(Inputs(self.task.positions.at_ms), always=True)

    def close(self) -> None:
        """Close the local store."""
        with suppress(OwnershipLost):
            self.task.state.close()

    async def _commit(self, inputs: Inputs, *, always: bool = False) -> None:
        """Handle inputs in as many transactions as it takes."""
        while True:
            await self._open(inputs)
            if self.task.matters or always or self._uncommitted >= _MOST_UNCOMMITTED:
                transaction = self.task.close()
                passed = transaction.passed
                await self._append(transaction._replace(events=self._marked(transaction.events)))
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
            await self._rerun.log.codec.refresh()
            self.task.open(replace(inputs, schemas_known=True))

    async def _append(self, transaction: Transaction) -> None:
        offsets = await self._rerun.log.port.append(transaction.records, self.claim)
        self.task.committed(transaction, offsets)
        self._uncommitted = 0
        for record, offset in zip(transaction.events, offsets, strict=False):
            self._rerun.pending.add(record.placed(offset))

    def _marked(self, events: Sequence[Record]) -> list[Record]:
        """Return the rerun's outputs, each with a header that locates the service's event."""
        found = list[Record]()
        for record in events:
            home = self._home.get(record.topic)
            if home is None:
                found.append(record)
            else:
                found.append(marked(record, self._note(record, (home, record.partition))))
        return found

    def _note(self, said: Record, home: TopicPartition) -> PendingInput:
        instead = self._naming.instead_of(said.event_id)
        if instead is None:
            return PendingInput(self.partition, "", None)
        is_to_come = instead.topic_partition == home and instead.offset >= self._rerun.consumed_to(*home)
        return PendingInput(self.partition, instead.event_id, instead.offset if is_to_come else None)


def answer_id(request: Record) -> str:
    """Return the id of the answer to an effect's request."""
    return derived_id(request.event_id, (request.source or "").partition("/")[2], request.subject or "", 0)
