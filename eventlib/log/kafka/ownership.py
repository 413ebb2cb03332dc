"""Takeover of tasks: a claimant takes the task's lock, fences the former owner, and records the new owner.

The lock is a transactional id of the task: starting a producer under it fences any concurrent claimant, and ends its
open transaction. Under the lock, the ownership topic shows which writer owns the task; that writer releases it, or is
fenced; then the new owner's entry is committed, and its offset is the claim's epoch. So epochs order claims
permanently; the cluster's own producer ids and epochs do not, once one has expired or wrapped around. Appends need none
of this: a writer that was not fenced still owns its tasks, and commits for all of them at once.
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
    release_request,
)
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.writer import Refuse, Writer, producer_names

_LETS_GO_S = 8.0
"""How long a live owner may take to release a task: its effects' grace period, plus a margin."""

_HEARS_S = 2.0
"""How long an owner has to react to a release request."""

_SAYS_S = 2.0
_PAUSE_S = 0.03
_LANES = 4


class Owners:
    """The partitions that this process owns on one log; `on_loss` is called with claims that are lost."""

    def __init__(
        self,
        cluster: Cluster,
        point_reads: PointReads,
        written: Written,
        appends: Appends,
        largest: Callable[[str], int],
    ) -> None:
        self.cluster = cluster
        self.process = f"{cluster.options.writers}{os.getpid()}-{token_hex(6)}"
        self.on_loss: Callable[[Owner, bool], None] = lambda _, __: None
        self._register = Register(cluster, point_reads)
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
        """Return the owner of a claim. Raises: OwnershipLost when it is not this process's newest."""
        owner = self._owners.get((claim.service, claim.partition))
        if owner is None or owner.claim != claim or owner.is_lost:
            raise ownership_lost(claim)
        return owner

    def enlist(self, share: Share, claim: Claim, refuse: Refuse) -> None:
        """Let a share write under a claim, and others of the same writer. Raises: OwnershipLost."""
        writer = self.owner(claim).writer

        def enter(claim: Claim, under_way: asyncio.Future[None]) -> None:
            owner = self.owner(claim)
            if owner.writer is not writer:
                raise ownership_lost(claim)
            owner.hold(under_way)

        writer.enlist(share, enter, refuse)

    async def take(self, task: Task, living: Collection[str]) -> Owner:
        """Take a task over for this process; an owner among the `living` processes is given time to release it.

        Raises: OwnershipLost when another process takes it at the same time; LogUnavailable, LogDenied.
        """
        async with self._starting:
            if self._writer is None or self._writer.is_spent:
                self._writer = await self._start_writer(seizes=False)
            writer = self._writer
        return await self._take(task, writer, lambda former: self._wait_for(former, task, living))

    async def of(self, service: str) -> Mapping[int, str]:
        """Return the current writer of each owned task of a service. Raises: LogUnavailable."""
        await self._register.refresh()
        return self._register.owners(service)

    async def seize(self, task: Task) -> Owner:
        """Take a task over from any owner, with a dedicated writer. Raises: as `take` does."""
        return await self._take(task, await self._start_writer(seizes=True), lambda former: self._ask(former, task))

    async def give_back(self, owner: Owner) -> None:
        """Release a claim after its in-flight appends, and record that."""
        await owner.finish()
        task = (owner.claim.service, owner.claim.partition)
        if self._owners.get(task) is owner:
            del self._owners[task]
            if not owner.writer.is_spent:
                with suppress(EventlibError, TimeoutError):  # then the next owner has to fence it
                    async with asyncio.timeout(_SAYS_S):
                        await self._appends.append([release_record(task, owner.claim.epoch)])

    async def let_go(self, task: Task, epoch: int) -> None:
        """Release a task on request, if this process owns it under that epoch."""
        owner = self._owners.get(task)
        if owner is not None and owner.claim.epoch == epoch and not owner.is_lost:
            owner.lose()
            await self.give_back(owner)

    async def close(self) -> None:
        """Release everything, and stop."""
        owners = [*self._owners.values()]
        await asyncio.gather(*map(self.give_back, owners))
        writers = {owner.writer for owner in owners} | ({self._writer} if self._writer else set())
        await asyncio.gather(*(writer.close() for writer in writers))

    async def _take(self, task: Task, writer: Writer, wait: Callable[[OwnershipEntry], Awaitable[bool]]) -> Owner:
        async with self._taking[task]:  # the task's lock excludes other processes: within this one, takers queue here
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
            was_lost = False
            if former is not None and not self._is_own(former) and not await wait(former):
                await self._fence(former.writer or "")
                was_lost = not former.is_seized and process_of(former.writer or "") != self.process
            record = claim_record(task, writer.name, self.cluster.options.address, seized=writer.seizes)
            (offset,) = await lock.commit([record])
        except Fenced as error:
            raise OwnershipLost(f"{task[0]}/{task[1]} was taken over by another process: {error}") from error
        self._written.wrote([record], [offset])
        owner = self._owners[task] = Owner(Claim(*task, offset + 1), writer, self.on_loss)
        owner.was_lost_before = was_lost
        if writer.is_spent:
            owner.lose(to_another=False)
        return owner

    def _is_own(self, former: OwnershipEntry) -> bool:
        """Whether this process owns it with the writer still in use: then its own appends are awaited."""
        return self._writer is not None and not self._writer.is_spent and former.writer == self._writer.name

    async def _wait_for(self, former: OwnershipEntry, task: Task, living: Collection[str]) -> bool:
        """Wait until a live owner has released the task; False when it has not, or is gone."""
        process = process_of(former.writer or "")
        patience_s = _LETS_GO_S if process in living and process != self.process else 0.0
        return await self._has_let_go(task, patience_s)

    async def _ask(self, former: OwnershipEntry, task: Task) -> bool:
        """Ask an owner to release the task, if it is reachable."""
        if former.writer is not None and not former.is_seized and process_of(former.writer) != self.process:
            await self._appends.append([release_request(task, former.epoch)])
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
        writer.on_end = lambda to_another: self._ended(writer, to_another)
        await writer.start()
        return writer

    def _ended(self, writer: Writer, to_another: bool) -> None:
        for owner in [*self._owners.values()]:
            if owner.writer is writer:
                owner.lose(to_another=to_another)

    async def _fence(self, writer: str) -> None:
        """Fence a writer permanently; many tasks may wait for the same one."""
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
    """Return the process of a writer."""
    return writer.rpartition(".")[0]
