"""Reprocesses a service's inputs in a shadow: under another name, with the current code, in the recorded order."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.service import Service
from eventlib.operations.reprocessing.follower import Follower, answer_id
from eventlib.operations.reprocessing.id_matching import outline
from eventlib.operations.reprocessing.metadata import RerunSpec, RerunStores, begin_or_resume, switched_tasks
from eventlib.operations.reprocessing.original_outputs import OriginalOutputs, RecordedDecisions, replaying
from eventlib.operations.reprocessing.output_diff import OutputDiff
from eventlib.operations.reprocessing.pending_inputs import PendingInputs
from eventlib.queries.task_clock import positions_of
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.restore import restored
from eventlib.state.base import Stores

Progress = Callable[[int, int], None]
"""Called with how many of a service's transactions are done, of how many."""


class _Turn(NamedTuple):
    """A possible next step of a task, with the time at which the service would have done it (ms)."""

    at_ms: int
    rank: int
    follower: Follower
    act: Callable[[], Awaitable[None]]


class Rerun:
    """A service's history, reprocessed by the current code under the name of `run`.

    Each task consumes the inputs of the service's task, in that order, and only the rerun consumes its own outputs: so
    unchanged code emits the same events, and every difference follows from changed code. Up to `since_ms` the recorded
    decisions are repeated. A task of the service that has taken over the rerun's states is no longer followed: its later
    outputs are consumed as they are. Guarantee: each transaction commits like a service's own; an interrupted rerun
    resumes at its last commit, and reaches the same result.
    """

    def __init__(self, service: Service, run: Service, context: RuntimeContext, switched: dict[int, int]) -> None:
        self.service = service
        self.run = run
        self.context = context
        self.log = context.log
        self.entries = 0
        self.since_ms = self.until_ms = 0
        self.recorded = OriginalOutputs(context.log, service, switched)
        self.outputs = OutputDiff(context.log, run, self.recorded)
        self.pending = PendingInputs(context.log, run)
        self.followers: dict[int, Follower] = {}
        self._switched = switched
        """When tasks of the service took over (ms)."""

    @property
    def handled(self) -> int:
        """How many of the service's `entries` transactions were followed."""
        return sum(follower.entries for follower in self.followers.values())

    async def begin(self) -> None:
        """Resume or begin the rerun.

        Raises: ContractError when the service has never run, or when retention has dropped its first records.
        """
        log, run = self.log, self.run
        for partition in (each for each in range(run.partitions) if each not in self._switched):
            claim = await log.port.seize(run.name, partition)
            recorded_decisions = RecordedDecisions(log)
            task = await restored(replaying(run, recorded_decisions), claim, self.context)
            done_to = task.positions.next.get(self.service.journal.name, 0)
            seen = await outline(TaskJournal(log, self.service, partition), done_to)
            if not seen.entries:
                raise ContractError(f"{self.service.name} has never run on this log: there is nothing to reprocess")
            if seen.taken_over and seen.taken_over[0][0] <= self.since_ms:
                raise ContractError(
                    f"{self.service.name} took over an earlier rerun before that time, so that its own history does not hold "
                    "all of its states: reprocess all of it"
                )
            self.followers[partition] = Follower(self, task, claim, seen, recorded_decisions)
            self.entries += seen.entries
        for follower in self.followers.values():
            await follower.begin()
            await follower.read_ahead()
        await self.recorded.begin(min((f.head.at_ms for f in self.followers.values() if f.head), default=0))

    def consumed_to(self, topic: str, partition: int) -> int:
        """Return the rerun's position in a partition of an input."""
        follower = self.followers.get(partition)
        return 0 if follower is None else follower.task.positions.next.get(topic, 0)

    async def catch_up(self, progress: Progress = lambda _done, _of: None) -> None:
        """Follow the service up to now, or to the rerun's end, and commit."""
        while True:
            while await self.step():
                progress(self.handled, self.entries)
            if not await self._answer_late():
                break
        for follower in self.followers.values():
            await follower.rest()

    async def step(self) -> bool:
        """Do the next step, of one task; False if the rerun is caught up, or at its end."""
        for follower in self.followers.values():
            await follower.read_ahead()
        turn = await self._first(await self._turns())
        if turn is None or (self.until_ms and turn.at_ms > self.until_ms):
            return False
        await turn.act()
        return True

    async def more(self) -> None:
        """Wait until the service has done more."""
        journal = self.service.journal.name
        ends = {(journal, p): f.task.positions.next[journal] for p, f in self.followers.items()}
        reader = self.log.port.reader(ends)
        try:
            await reader.poll(1)
        finally:
            await reader.close()
        self.entries = max(self.entries, self.handled)

    async def times(self) -> list[int]:
        """Return up to which time each task of the service was followed (ms)."""
        done = dict[int, int]()
        for partition in self._switched:
            done[partition] = (await positions_of(self.log, self.run, partition)).at_ms
        done |= {partition: follower.task.positions.at_ms for partition, follower in self.followers.items()}
        return [done[partition] for partition in range(self.run.partitions)]

    def taken_over(self, partition: int, at_ms: int) -> None:
        """Stop following a task that has taken over the rerun's states."""
        self._switched[partition] = at_ms
        self.followers.pop(partition).close()

    def close(self) -> None:
        """Close the local stores."""
        for follower in self.followers.values():
            follower.close()

    async def _answer_late(self) -> bool:
        """Apply recorded answers to effects that the rerun requested later than the service."""
        pending = [(follower, each) for follower in self.followers.values() for each in follower.pending()]
        if pending:
            await self.outputs.catch_up()
        answered = False
        for follower, request in pending:
            answer = self.outputs.only_recorded(answer_id(request))
            answered |= answer is not None and await follower.answer(request, answer)
        return answered

    async def _turns(self) -> list[_Turn]:
        """Return the possible next steps of all tasks, in order."""
        turns = list[_Turn]()
        for follower in self.followers.values():
            extra = await follower.next_added()
            if extra is not None:
                turns.append(_Turn(extra.timestamp_ms, 0, follower, partial(follower.consume_added, extra)))
            if follower.head is not None:
                at_ms = self.recorded.order_ms(follower.partition, follower.head.at_ms)
                turns.append(_Turn(at_ms, 1, follower, follower.follow))
        return sorted(turns, key=lambda turn: (turn.at_ms, turn.rank, turn.follower.partition))

    async def _first(self, turns: Sequence[_Turn]) -> _Turn | None:
        """Return the first step that can be done now.

        A step whose input another task has yet to emit waits for that task, which is due in the same millisecond: the
        service consumed nothing before it was emitted. If all wait, the first is done without.
        """
        for turn in turns:
            if turn.at_ms > turns[0].at_ms:
                break
            if turn.rank == 0 or not await self._waits(turn.follower):
                return turn
        return turns[0] if turns else None

    async def _waits(self, consumer: Follower) -> bool:
        """Return whether the rerun may yet emit one of a task's next inputs."""
        for missing in consumer.missing():
            task = self.recorded.task_of(missing)
            emitters = [f for p, f in self.followers.items() if task is None or p == task]
            for emitter in (each for each in emitters if each is not consumer):  # its own are emitted before
                await emitter.read_ahead()  # the emitting transaction was committed earlier, so it is visible by now
                if emitter.may_emit(missing):
                    return True
        return False


_FOLLOWS = RuntimeConfig(ahead_s=0)
"""Its clock is the time of the transaction that it follows: an input that is dated later was parked there."""


@asynccontextmanager
async def rerunning(
    log: EventLog,
    stores: Stores,
    service: Service,
    name: str,
    wanted: RerunSpec,
    progress: Progress = lambda _done, _of: None,
) -> AsyncIterator[Rerun]:
    """Reprocess a service's history under a name, or resume that, up to the service's own end.

    `told` is called with the progress. Guarantee: the service is not affected; nothing is emitted to its topics, and no
    effect runs.
    Raises: WiringError, ContractError as `begin_or_resume` and `Rerun.begin` do; OwnershipLost when another process starts a rerun
    under this name at the same time.
    """
    note = await begin_or_resume(log, service, name, wanted)
    run = service.under(name)
    switched = {task: each.at_ms for task, each in (await switched_tasks(log, run)).items()}
    context = RuntimeContext(log, RerunStores(stores, name, note.token), {}, {}, _FOLLOWS, note.code_version)
    rerun = Rerun(service, run, context, switched)
    rerun.since_ms, rerun.until_ms = note.since_ms, note.until_ms
    try:
        await rerun.begin()
        await rerun.catch_up(progress)
        while wanted.follow:
            await rerun.more()
            await rerun.catch_up(progress)
        yield rerun
    finally:
        rerun.close()
