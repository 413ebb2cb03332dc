"""The loop of a task: read, decide, commit, wait."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from time import monotonic

from eventlib.codec.base import UnknownSchema
from eventlib.errors import DamagedRecord, OwnershipLost, RetryableError, StoreLost
from eventlib.log.base import Claim, Reader, TopicIdentity, TopicPartition
from eventlib.model.service import Service
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.context import RuntimeContext
from eventlib.runtime.effects import EffectRunner
from eventlib.runtime.local_chain import LocalChain
from eventlib.runtime.losses import is_another
from eventlib.runtime.restore import restored
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Answer
from eventlib.runtime.turns import EffectTurns
from eventlib.values import now_ms

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_LOOK_CAREFULLY_S = 0.02
_LOOK_AT_CLOCK_S = 2.0
"""How late a deadline passes at most, when the clock jumps forward while its task waits: a virtual machine that slept."""


class TaskRunner:
    """Runs one task of a service under a claim, until it is stopped or loses the claim.

    Guarantee: as `TaskCommitter` gives it; here are the clock, the waiting, and the effects under way.
    """

    def __init__(
        self,
        service: Service,
        claim: Claim,
        context: RuntimeContext,
        turns: EffectTurns,
        chain: LocalChain,
        *,
        was_lost: bool = False,
    ) -> None:
        self.service = service
        self.claim = claim
        self._context = context
        self._turns = turns
        self._chain = chain
        self._config = context.config
        self.was_lost = was_lost
        """Whether the owner before this one did not give the task back."""
        self._effects = EffectRunner(service, context, turns, self._take_answer)
        self._committer: TaskCommitter | None = None
        self._reader: Reader | None = None
        self._flushed_at = monotonic()
        self._committed = -1, 0.0
        self._stopping = False
        self._polls = False
        self._woken = asyncio.Event()

    @property
    def name(self) -> str:
        """The task's name for people: SERVICE/PARTITION."""
        return f"{self.service.name}/{self.claim.partition}"

    @property
    def transactions(self) -> int:
        """How many transactions this runner has committed."""
        return 0 if self._committer is None else self._committer.transactions

    @property
    def task(self) -> Task | None:
        """The task, once it is restored."""
        return None if self._committer is None else self._committer.task

    @property
    def open_effects(self) -> int:
        """How many effects run, or wait for their next attempt or at a limit."""
        return len(self._effects) + len(self._effects.waiting)

    async def lags(self) -> Mapping[TopicPartition, int]:
        """Return the lag of each input in records, unread gaps included.

        Raises: LogUnavailable.
        """
        committer, reader = self._committer, self._reader
        if committer is None or reader is None:
            return {}
        ends, at = await reader.ends(), self.positions
        unread = {place: await self._context.log.port.end(*place) for place in committer.unread}
        waiting = Counter(
            record.topic_partition for record in committer.inbox if record.offset >= at.get(record.topic_partition, 0)
        )
        # What a log has between records is nothing to handle: who has read to its end and waits is not behind.
        read = {place: max(reader.position(place), at.get(place, 0)) for place in ends}
        lags = {place: max(0, end - read[place]) + waiting[place] for place, end in ends.items()}
        for place in lags:  # records behind an open transaction are on the log, too
            lags[place] += max(0, await self._context.log.port.written_end(*place) - ends[place])
        return lags | {place: max(0, end - at.get(place, 0)) for place, end in unread.items()}

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each input."""
        if self._committer is None:
            return {}
        return {(topic, self.claim.partition): at for topic, at in self._committer.task.positions.next.items()}

    def stop(self) -> None:
        """Ask the loop to end after the current transaction."""
        self._stopping = True
        self._wake()

    def compare(self, identities: Mapping[str, TopicIdentity]) -> None:
        """Let the task compare its inputs with their topics, if one of them is another topic by now."""
        committer = self._committer
        if committer is None or self._reader is None:
            return
        positions = committer.task.positions
        if any(is_another(name, each, positions) for name, each in identities.items()):
            committer.compares_topics = True
            self._wake()

    async def rest(self, pause_s: float) -> None:
        """Wait for a number of seconds, or until it is asked to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                while not self._stopping:
                    self._woken.clear()
                    await self._woken.wait()

    async def run(self) -> None:
        """Restore the task, then handle its inputs until stopped.

        Raises: OwnershipLost when another owner took over; TerminalError when the log or the code needs a person.
        """
        task = await restored(self.service, self.claim, self._context)
        self._context.startup.done(self.name)
        self._report_clock(task)
        start, most_skipped = self._effects.start, self._config.skipped_inputs
        committer = TaskCommitter(
            task,
            self.claim,
            self._context.log,
            start,
            skipped_inputs=most_skipped,
            chain=self._chain,
            first_services=self._context.first_services,
            was_lost=self.was_lost,
            lost_owners=self._config.lost_owners,
        )
        committer.observer, committer.causes = self._context.observer, self._context.causes
        committer.at_rest = self._is_at_rest
        self._effects.holds, self._effects.find = committer.holds_effect, committer.pending.find
        self._effects.may_begin = committer.suspects.may_begin
        self._committer = committer
        try:
            if await self._begin(committer):
                await self._handle_inputs(committer)
        finally:
            self._close(committer)

    def _report_clock(self, task: Task) -> None:
        """Log that the task's time is ahead of the clock: a clock was, or this one is behind."""
        ahead_s = (task.positions.at_ms - now_ms()) / 1000
        if ahead_s > self._config.ahead_s:
            _log.warning(
                "%s: its last transaction is %s s ahead of the clock here, and what it emits until then has that time: a clock "
                "was ahead, or this one is behind; `eventlib doctor` says more",
                self.name,
                f"{ahead_s:,.0f}",
            )

    async def _begin(self, committer: TaskCommitter) -> bool:
        """Commit where the task starts; False when it is stopped before that."""
        while await self._with_retry(committer.begin(now_ms())):
            if self._stopping:
                return False
        return True

    async def _handle_inputs(self, committer: TaskCommitter) -> None:
        self._reader = committer.open()
        self._chain.join(committer)
        try:
            self._take_share(committer)
            committer.pending.start(self._config.pending_effects)
            while not self._stopping:
                if committer.pending:  # half of the room is for what new inputs request
                    committer.pending.start_more(self._config.pending_effects // 2 - len(self._effects))
                if committer.suspects.is_careful and (alone := committer.suspects.effect_alone()) is not None:
                    await self._wait_for(committer, alone)
                if committer.inbox or committer.damaged or await self._fill_inbox(committer, self._reader):
                    await self._with_retry(committer.turn(now_ms()))
                    self._flush_if_due(committer)
                    if committer.reopens:
                        await self._reopen(committer)
                    if committer.has_skipped and self._is_silent(committer):
                        await self._with_retry(committer.finish(now_ms()))  # so that it does not look behind
            await self._effects.stop(self._config.grace_s)
            await self._with_retry(committer.finish(now_ms()))
        finally:
            await self._chain.leave(committer)
            await self._effects.stop(0)
            await self._reader.close()

    async def _wait_for(self, committer: TaskCommitter, request_id: str) -> None:
        """Wait for an effect that runs alone, until it is answered, or its attempt is over, or it waits for its turn."""
        while not (committer.answers or self._stopping):
            await self._sleep_until_woken(committer, _LOOK_S)
            if not self._effects.is_out(request_id):
                break
        if not committer.answers:
            committer.suspects.survived()

    async def _reopen(self, committer: TaskCommitter) -> None:
        """Read the inputs that were resumed, and no longer those that are paused."""
        before, self._reader = self._reader, committer.open()
        self._take_share(committer)
        committer.pending.start(self._config.pending_effects)
        if before is not None:
            await before.close()

    def _take_share(self, committer: TaskCommitter) -> None:
        """Take the task's share of the limits; one that stops has given it up."""
        if not self._stopping:
            self._turns.own(self.claim.partition, committer.task.processor.pauses.limits)

    def _close(self, committer: TaskCommitter) -> None:
        try:
            committer.task.state.close()
        except OwnershipLost:
            _log.debug("%s/%s: the store has another owner already", self.service.name, self.claim.partition)

    async def is_idle(self) -> bool:
        """Tell whether the task is idle: every input is processed, and no effect or answer is open."""
        committer, reader = self._committer, self._reader
        if (
            committer is None
            or reader is None
            or committer.inbox
            or committer.answers
            or committer.damaged
            or committer.gaps
            or committer.pending
            or committer.reopens
            or committer.suspects.is_careful
            or self.open_effects
        ):
            return False
        ends = await reader.ends()
        return not committer.inbox and all(reader.position(place) >= end for place, end in ends.items())

    def _is_silent(self, committer: TaskCommitter) -> bool:
        """Tell whether the task should commit its positions, since it has skipped inputs for a while."""
        transactions, since = self._committed
        if committer.transactions != transactions:
            self._committed = committer.transactions, monotonic()
            return False
        return monotonic() - since >= self._config.flush_s

    async def _fill_inbox(self, committer: TaskCommitter, reader: Reader) -> bool:
        """Wait for work, and take it in; False when it has to stop."""
        timeout_s = self._poll_timeout_s(committer)
        if self._is_full():
            # Input waits until the outside world has answered: what is pending stays bounded. An operator may pause it.
            await self._sleep_until_woken(committer, _LOOK_S if timeout_s is None else min(timeout_s, _LOOK_S))
            await self._with_retry(committer.look_for_requests())
        else:
            self._polls = True
            try:
                committer.inbox = await reader.poll(self._config.batch, timeout_s)
                committer.gaps = reader.take_lost()
            except DamagedRecord as error:
                committer.damaged = error
                self._context.damage.note(error, f"{self.service.name}/{self.claim.partition} parks it")
            finally:
                self._polls = False
        return not self._stopping

    def _is_at_rest(self) -> bool:
        return self._polls and not self._stopping and len(self._effects) < self._config.pending_effects

    def _is_full(self) -> bool:
        effects, config = self._effects, self._config
        return len(effects) >= config.pending_effects or len(effects.waiting) >= config.waiting_effects

    def _poll_timeout_s(self, committer: TaskCommitter) -> float | None:
        now = now_ms()
        due = committer.task.next_due_ms(now)
        if committer.answers or (due is not None and due <= now):
            return 0
        if committer.suspects.is_careful:
            return _LOOK_CAREFULLY_S
        # The loop waits by a monotonic clock, and a deadline is due by the other one, which may jump.
        until_due_s = None if due is None else min((due - now) / 1000, _LOOK_AT_CLOCK_S)
        if not committer.has_skipped:
            return until_due_s
        return self._config.flush_s if until_due_s is None else min(until_due_s, self._config.flush_s)

    async def _sleep_until_woken(self, committer: TaskCommitter, timeout_s: float | None) -> None:
        self._woken.clear()
        if not committer.answers and not self._stopping and timeout_s != 0:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
            except TimeoutError:
                return

    async def _with_retry(self, work: Awaitable[bool | None]) -> bool | None:
        """Do some work; when the log is unavailable, pause, so that it is tried again."""
        try:
            return await work
        except (OwnershipLost, StoreLost, UnknownSchema):
            raise
        except RetryableError as error:
            _log.warning("%s/%s cannot commit, tries again: %s", self.service.name, self.claim.partition, error)
            await asyncio.sleep(self._config.retry_pause_s)
            return True

    def _flush_if_due(self, committer: TaskCommitter) -> None:
        now, state = monotonic(), committer.task.state
        if state.wants_flush or now - self._flushed_at >= self._config.flush_s:
            self._flushed_at = now
            state.flush()

    def _take_answer(self, answer: Answer) -> None:
        if self._committer is not None:
            self._committer.answers.append(answer)
        self._wake()

    def _wake(self) -> None:
        self._woken.set()
        if self._reader is not None:
            self._reader.wake()
