"""Runs a service's past again beside it: under another name, by today's code, in the order in which it happened."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.replay.journal import TaskJournal
from eventlib.rerun.follower import PATIENCE_MS, Follower
from eventlib.rerun.known import Note, RerunStores, noted
from eventlib.rerun.late import outline
from eventlib.rerun.plan import Rails
from eventlib.rerun.recorded import Recorded
from eventlib.rerun.unheard import Unheard
from eventlib.runtime.host import Host, RuntimeConfig
from eventlib.runtime.restoring import restored
from eventlib.service import Service
from eventlib.store.port import Stores


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants of a rerun, and why.

    `until_ms` is where in the service's past it ends (0: at its end); with `follow` it goes on, for ever, with what the
    service does meanwhile.
    """

    why: str
    until_ms: int = 0
    follow: bool = False


class _Turn(NamedTuple):
    """Something that a task can do next, with the time at which the service would have done it (ms)."""

    at_ms: int
    rank: int
    follower: Follower
    act: Callable[[], Awaitable[None]]


class Rerun:
    """A service's past, run again by today's code under the name of `run`.

    Each task takes the inputs that the service's task has taken, in that order, and what the rerun says is heard by the
    rerun alone. So code that has not changed says what was said, and with code that has, every difference follows from
    the code. Guarantee: each transaction is committed as a service's own is; whatever interrupts a rerun, it goes on
    from its last commit, and comes to the same end.
    """

    def __init__(self, service: Service, run: Service, host: Host) -> None:
        self.entries = 0
        self.handled = 0
        self._service = service
        self._run = run
        self._host = host
        self._followers: list[Follower] = []
        self._recorded = Recorded(host.log, service)

    async def begin(self) -> None:
        """Take the rerun up where it was left, or begin it.

        Raises: ContractError when the service has never run, or when retention has dropped the beginning of its past.
        """
        log, run = self._host.log, self._run
        rails = Rails(log, self._service, self._recorded, Unheard(log, run), self._heard_to)
        for partition in range(run.partitions):
            claim = await log.port.seize(run.name, partition)
            task = await restored(run, claim, self._host)
            done_to = task.positions.next.get(self._service.journal.name, 0)
            seen = await outline(TaskJournal(log, self._service, partition), PATIENCE_MS, done_to)
            if not seen.entries:
                raise ContractError(f"{self._service.name} has never run on this log: there is nothing to run again")
            self._followers.append(Follower(rails, task, claim, seen))
            self.entries += seen.entries
        for follower in self._followers:
            await follower.begin()
            await follower.look()
        await self._recorded.begin(min((f.head.at_ms for f in self._followers if f.head), default=0))

    def _heard_to(self, topic: str, partition: int) -> int:
        return self._followers[partition].task.positions.next.get(topic, 0)

    async def step(self, until_ms: int | None = None) -> bool:
        """Do what is next, in one task; False when all is done that the service has done by now, or by a time."""
        for follower in self._followers:
            await follower.look()
        turn = await self._first(await self._turns())
        if turn is None or (until_ms is not None and turn.at_ms > until_ms):
            return False
        await turn.act()
        self.handled = sum(follower.entries for follower in self._followers)
        return True

    async def rest(self) -> None:
        """Commit how far the tasks have come, when there is nothing to do just now."""
        for follower in self._followers:
            await follower.rest()

    async def more(self) -> None:
        """Wait until the service has done more."""
        journal = self._service.journal.name
        ends = {(journal, f.partition): f.task.positions.next[journal] for f in self._followers}
        reader = self._host.log.port.reader(ends)
        try:
            await reader.poll(1)
        finally:
            await reader.close()
        self.entries = max(self.entries, self.handled)

    def close(self) -> None:
        """Give the local stores back."""
        for follower in self._followers:
            follower.close()

    async def _turns(self) -> list[_Turn]:
        """Return what the tasks can do next, first things first."""
        turns = list[_Turn]()
        for follower in self._followers:
            extra = await follower.extra()
            if extra is not None:
                turns.append(_Turn(extra.timestamp_ms, 0, follower, partial(follower.hear, extra)))
            if follower.head is not None:
                turns.append(_Turn(follower.head.at_ms, 1, follower, follower.follow))
        if turns:
            now_ms = min(turn.at_ms for turn in turns)
            for follower in self._followers:
                due_ms = await follower.due(now_ms)
                if due_ms is not None:
                    turns.append(_Turn(due_ms + PATIENCE_MS, 0, follower, partial(follower.pass_deadline, due_ms)))
        return sorted(turns, key=lambda turn: (turn.at_ms, turn.rank, turn.follower.partition))

    async def _first(self, turns: Sequence[_Turn]) -> _Turn | None:
        """Return the first turn that can be taken now.

        One that takes an input which another task has yet to say waits for that one, which is due in the same
        millisecond: what the service heard was said before. Should they all wait, the first goes on without.
        """
        for turn in turns:
            if turn.at_ms > turns[0].at_ms:
                break
            if turn.rank == 0 or not await self._waits(turn.follower):
                return turn
        return turns[0] if turns else None

    async def _waits(self, hearer: Follower) -> bool:
        """Tell whether a task's next inputs are such that the rerun may yet say what the service has said there."""
        for missing in hearer.missing():
            task = self._recorded.task_of(missing)
            for sayer in self._followers if task is None else [self._followers[task]]:
                if sayer is hearer:
                    continue  # it has said this before
                await sayer.look()  # what said this was committed before it was heard, so it is seen by now
                if sayer.may_say(missing):
                    return True
        return False


async def run_again(
    log: EventLog, stores: Stores, service: Service, name: str, wanted: Wanted, told: Callable[[int, int], None]
) -> Note:
    """Run a service's past again under a name, or go on with that, up to the service's own end.

    `told` hears how many of the service's transactions are done, of how many. Guarantee: the service does not notice;
    nothing is said on its topics, and no effect is run.
    Raises: WiringError, ContractError as `noted` and `Rerun.begin` do; OwnershipLost when somebody else runs it again
    under this name at the same time, and was later.
    """
    note = await noted(log, service, name, wanted.why, wanted.until_ms)
    run = service.under(name)
    host = Host(log, RerunStores(stores, note.token), {}, {}, RuntimeConfig(), note.code_version)
    rerun = Rerun(service, run, host)
    try:
        await rerun.begin()
        while True:
            while await rerun.step(note.until_ms or None):
                told(rerun.handled, rerun.entries)
            await rerun.rest()
            if not wanted.follow:
                return note
            await rerun.more()
    finally:
        rerun.close()
