"""Taking tasks over: one at a time has the lock of a task, ends who had it before, and writes down who has it now.

The lock is a transactional id of the task: starting a producer under it fences whoever else is about to take the task,
and decides what they have begun. Under it the register says which writer has the task; that writer lets go, or is
fenced; then the new owner's entry is committed, and its offset is the claim's epoch. So epochs order claims for good:
the cluster's own ids and epochs of producers do not, once one has expired or come to its end. Appends need none of
this: a writer that was not fenced owns what it owns, and commits for all its tasks at once.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from secrets import token_hex

from eventlib.errors import EventlibError, OwnershipLost
from eventlib.log.base import Claim, Share
from eventlib.log.kafka.append_batcher import Appends
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.ownership_topic import (
    Owner,
    OwnershipEntry,
    Register,
    Task,
    claim_record,
    ownership_lost,
    release_record,
    wish_record,
)
from eventlib.log.kafka.point_reads import Looks, Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.writer import Refuse, Writer, producer_names

_LETS_GO_S = 8.0
"""How long a living owner may take to let go: its effects' grace, and a bit."""

_HEARS_S = 2.0
"""How long somebody who is asked to let go has to hear of it."""

_SAYS_S = 2.0
_PAUSE_S = 0.03
_LANES = 4


class Owners:
    """What this process owns on one log; `on_loss` hears of claims that count no more."""

    def __init__(
        self, cluster: Cluster, looks: Looks, written: Written, appends: Appends, largest: Callable[[str], int]
    ) -> None:
        self.cluster = cluster
        self.process = f"{cluster.options.writers}{os.getpid()}-{token_hex(6)}"
        self.on_loss: Callable[[Owner, bool], None] = lambda _, __: None
        self._register = Register(cluster, looks)
        self._written = written
        self._appends = appends
        self._largest = largest
        self._owners = dict[Task, Owner]()
        self._writer: Writer | None = None
        self._count = 0
        self._starting = asyncio.Lock()
        self._taking = defaultdict[Task, asyncio.Lock](asyncio.Lock)
        self._fencing = dict[str, asyncio.Task[None]]()

    def owner(self, claim: Claim) -> Owner:
        """Return who appends under a claim. Raises: OwnershipLost when it is not this process's newest."""
        owner = self._owners.get((claim.service, claim.partition))
        if owner is None or owner.claim != claim or owner.is_lost:
            raise ownership_lost(claim)
        return owner

    def enlist(self, share: Share, claim: Claim, refuse: Refuse) -> None:
        """Let a share write under a claim, and others that the same writer has. Raises: OwnershipLost."""
        writer = self.owner(claim).writer

        def enter(claim: Claim, under_way: asyncio.Future[None]) -> None:
            owner = self.owner(claim)
            if owner.writer is not writer:
                raise ownership_lost(claim)
            owner.hold(under_way)

        writer.enlist(share, enter, refuse)

    async def take(self, task: Task, living: Collection[str]) -> Owner:
        """Take a task over for this process; one of the `living` processes is given time to let go.

        Raises: OwnershipLost when somebody else takes it just now; LogUnavailable, LogDenied.
        """
        async with self._starting:
            if self._writer is None or self._writer.is_spent:
                self._writer = await self._start_writer(seizes=False)
            writer = self._writer
        return await self._take(task, writer, lambda former: self._wait_for(former, task, living))

    async def of(self, service: str) -> Mapping[int, str]:
        """Return the writer of each task of a service that has one, as of now. Raises: LogUnavailable."""
        await self._register.refresh()
        return self._register.owners(service)

    async def seize(self, task: Task) -> Owner:
        """Take a task over from whoever has it, with a writer of its own. Raises: as `take` does."""
        return await self._take(task, await self._start_writer(seizes=True), lambda former: self._ask(former, task))

    async def give_back(self, owner: Owner) -> None:
        """Let a claim count for nothing, once what is under way is written, and say so."""
        await owner.finish()
        task = (owner.claim.service, owner.claim.partition)
        if self._owners.get(task) is owner:
            del self._owners[task]
            if not owner.writer.is_spent:
                with suppress(EventlibError, TimeoutError):  # then whoever comes next has to end it
                    async with asyncio.timeout(_SAYS_S):
                        await self._appends.append([release_record(task, owner.claim.epoch)])

    async def let_go(self, task: Task, epoch: int) -> None:
        """Give a task back because somebody asks for it, if this process has it under that epoch."""
        owner = self._owners.get(task)
        if owner is not None and owner.claim.epoch == epoch and not owner.is_lost:
            owner.lose()
            await self.give_back(owner)

    async def close(self) -> None:
        """Give everything back, and stop."""
        owners = [*self._owners.values()]
        await asyncio.gather(*map(self.give_back, owners))
        writers = {owner.writer for owner in owners} | ({self._writer} if self._writer else set())
        await asyncio.gather(*(writer.close() for writer in writers))

    async def _take(self, task: Task, writer: Writer, wait: Callable[[OwnershipEntry], Awaitable[bool]]) -> Owner:
        async with self._taking[task]:  # the task's lock is against other processes: here, one waits for the other
            return await self._take_alone(task, writer, wait)

    async def _take_alone(self, task: Task, writer: Writer, wait: Callable[[OwnershipEntry], Awaitable[bool]]) -> Owner:
        try:
            lock = await self._lock(task)
            before = self._owners.get(task)
            if before is not None:
                before.lose()
                await before.finish()
            await self._register.refresh()
            former = self._register.owner(task)
            if former is not None and not self._is_own(former) and not await wait(former):
                await self._fence(former.writer or "")
            record = claim_record(task, writer.name, self.cluster.options.address, seized=writer.seizes)
            (offset,) = await lock.commit([record])
        except Fenced as error:
            raise OwnershipLost(f"{task[0]}/{task[1]} was taken over by somebody else: {error}") from error
        self._written.wrote([record], [offset])
        owner = self._owners[task] = Owner(Claim(*task, offset + 1), writer, self.on_loss)
        if writer.is_spent:
            owner.lose(to_somebody=False)
        return owner

    def _is_own(self, former: OwnershipEntry) -> bool:
        """Tell whether this process has it with the writer that still writes: its own appends are finished."""
        return self._writer is not None and not self._writer.is_spent and former.writer == self._writer.name

    async def _wait_for(self, former: OwnershipEntry, task: Task, living: Collection[str]) -> bool:
        """Wait until a living owner has let go; False when it has not, or is gone."""
        process = process_of(former.writer or "")
        patience_s = _LETS_GO_S if process in living and process != self.process else 0.0
        return await self._has_let_go(task, patience_s)

    async def _ask(self, former: OwnershipEntry, task: Task) -> bool:
        """Ask an owner to let go, if it can hear."""
        if former.writer is not None and not former.is_seized and process_of(former.writer) != self.process:
            await self._appends.append([wish_record(task, former.epoch)])
        return await self._has_let_go(task, _HEARS_S)

    async def _has_let_go(self, task: Task, patience_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while True:
            owner = self._register.owner(task)
            if owner is None or owner.writer is None:
                return True
            if loop.time() >= deadline or owner.is_seized or process_of(owner.writer) == self.process:
                return False
            await asyncio.sleep(_PAUSE_S)
            await self._register.refresh()

    async def _lock(self, task: Task) -> Producer:
        name = f"{self.cluster.options.locks(task[0])}{task[1]}"
        lock = Producer(self.cluster, f"lock {task[1] % _LANES}", self._largest, name)
        await lock.start()
        return lock

    async def _start_writer(self, *, seizes: bool) -> Writer:
        self._count += 1
        name = f"{self.process}.{self._count}"
        writer = Writer(self.cluster, self._largest, self._written, name, f"write {self._count % _LANES}")
        writer.seizes = seizes
        writer.on_end = lambda to_somebody: self._ended(writer, to_somebody)
        await writer.start()
        return writer

    def _ended(self, writer: Writer, to_somebody: bool) -> None:
        for owner in [*self._owners.values()]:
            if owner.writer is writer:
                owner.lose(to_somebody=to_somebody)

    async def _fence(self, writer: str) -> None:
        """End a writer for good; many tasks may wait for the same."""
        if writer not in self._fencing:
            self._fencing[writer] = asyncio.create_task(self._fence_all(writer), name=f"fencing {writer}")
        try:
            await asyncio.shield(self._fencing[writer])
        except (EventlibError, Fenced):
            self._fencing.pop(writer, None)
            raise

    async def _fence_all(self, writer: str) -> None:
        for name in producer_names(writer):
            await Producer(self.cluster, "lock 0", self._largest, name).start()


def process_of(writer: str) -> str:
    """Return the process that a writer belongs to."""
    return writer.rpartition(".")[0]
