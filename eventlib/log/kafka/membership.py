"""A process's membership in the consumer groups that run its services."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from functools import partial

from eventlib.errors import EventlibError, LogUnavailable, RetryableError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Claim, Membership, Reader
from eventlib.log.kafka.coordinator import GroupMember
from eventlib.log.kafka.failures import Transient
from eventlib.log.kafka.ownership import Owners
from eventlib.log.kafka.ownership_topic import Owner, release_request_of

_log = logging.getLogger("eventlib.log")

_AGAIN_S = 1.0
_FRESH_S = 0.5
"""How old a confirmed assignment may be when a takeover starts."""

_RETIRE_S = 3.0
_LEAVE_S = 2.0


class KafkaMembership(Membership):
    """See `Membership`. Takes over the tasks assigned to this process, under a recently confirmed assignment."""

    def __init__(self, owners: Owners, service: str, partitions: int, standbys: int = 0) -> None:
        self._owners = owners
        self._service = service
        self._owned = dict[int, Owner]()
        self._ending = dict[int, Owner]()
        self._taking = dict[int, asyncio.Task[None]]()
        self._not_before = dict[int, float]()
        self._retires = False
        self._change = asyncio.Event()
        self._due = asyncio.Event()
        self._copies: frozenset[int] = frozenset()
        self._copies_changed = asyncio.Event()
        self._error: EventlibError | None = None
        self._group = GroupMember(owners.cluster, service, partitions, owners.process, standbys)
        self._group.runs = lambda: self._owned
        self._group.progress = lambda: {} if self.progress is None else self.progress()
        self._group.copies = lambda: self._copies
        self._group.on_change = self._shared_out
        self._group.on_expelled = self._expelled
        self._tasks = [
            asyncio.create_task(self._watch(run), name=f"{name} of {service}")
            for run, name in ((self._group.run, "group"), (self._take_over, "claims"))
        ]

    @property
    def is_counted(self) -> bool:
        """See `Membership.is_counted`."""
        return self._group.confirmed_at != float("-inf")

    @property
    def held_until(self) -> float:
        """See `Membership.held_until`: the group keeps a member for a session after its last heartbeat."""
        return self._group.confirmed_at + self._owners.cluster.options.session_timeout_s

    def was_lost(self, claim: Claim) -> bool:
        """See `Membership.was_lost`."""
        owner = self._owned.get(claim.partition)
        return owner is not None and owner.claim == claim and owner.was_lost_before

    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """See `Membership.changed`."""
        while True:
            self._change.clear()
            claims = {partition: owner.claim for partition, owner in self._owned.items()}
            if claims != held:
                return claims
            if self._error is not None:
                raise self._error
            await self._change.wait()

    async def give_back(self, claim: Claim) -> None:
        """See `Membership.give_back`."""
        for owners in (self._ending, self._owned):
            owner = owners.get(claim.partition)
            if owner is not None and owner.claim == claim:
                del owners[claim.partition]
                await self._owners.give_back(owner)

    async def stands_by(self, held: Collection[int]) -> Collection[int]:
        """See `Membership.stands_by`."""
        self._copies = frozenset(held)
        while self._group.stands_by == self._copies:
            self._copies_changed.clear()
            await self._copies_changed.wait()
        return self._group.stands_by

    async def retire(self) -> None:
        """See `Membership.retire`."""
        self._retires = True
        with suppress(TimeoutError):  # then the group finds out when this member leaves
            async with asyncio.timeout(_RETIRE_S):
                await self._group.retire()

    async def leave(self) -> None:
        """See `Membership.leave`."""
        await self.end(LogUnavailable("this member has left"))

    async def end(self, error: EventlibError) -> None:
        """Leave the group, and give back every claim."""
        if self._error is not None and not self._tasks:
            return
        self._error = error
        tasks, self._tasks = self._tasks, []
        await cancelled(*tasks)
        taking = [*self._taking.values()]
        await cancelled(*taking)
        owned = [*self._owned.values(), *self._ending.values()]
        self._owned.clear()
        self._ending.clear()
        self._change.set()
        await asyncio.gather(*(self._owners.give_back(owner) for owner in owned))
        with suppress(Transient, EventlibError, TimeoutError):  # then the group detects it by timeout
            async with asyncio.timeout(_LEAVE_S):
                await self._group.leave()

    def lost(self, owner: Owner, pause_s: float) -> None:
        """Drop a lost claim; it may be retaken after a pause, if it is still assigned."""
        partition = owner.claim.partition
        if self._owned.get(partition) is owner:
            del self._owned[partition]
            self._not_before[partition] = asyncio.get_running_loop().time() + pause_s
            self._change.set()
            self._due.set()

    def _shared_out(self) -> None:
        self._due.set()
        self._copies_changed.set()

    def _expelled(self) -> None:
        """Drop all claims: other members may have been assigned them meanwhile."""
        self._ending |= self._owned
        self._owned.clear()
        self._change.set()

    async def _watch(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await run()
        except Exception as error:  # noqa: BLE001  any error must reach the caller that waits for claims
            self._error = error if isinstance(error, EventlibError) else EventlibError(f"a member failed: {error!r}")
            self._change.set()

    async def _take_over(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due.clear()
            self._give_up()
            missing = self._missing(loop.time())
            if missing:
                await self._take(missing)
                continue
            wanted = [at for partition, at in self._not_before.items() if self._is_missing(partition)]
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(wanted, default=None)):
                    await self._due.wait()

    def _is_missing(self, partition: int) -> bool:
        wanted = partition in self._group.assigned and not self._retires
        return wanted and partition not in self._owned and partition not in self._taking

    def _missing(self, now: float) -> list[int]:
        return [p for p in sorted(self._group.assigned) if self._is_missing(p) and self._not_before.get(p, 0) <= now]

    def _give_up(self) -> None:
        for partition in self._owned.keys() - self._group.assigned:
            self._ending[partition] = self._owned.pop(partition)
            self._change.set()

    async def _take(self, partitions: list[int]) -> None:
        """Start taking tasks over, under an assignment that the group has just confirmed.

        Otherwise a zombie that wakes up would fence the rightful owner. Tasks are taken independently: an unresponsive
        former owner or coordinator delays only its own.
        """
        loop = asyncio.get_running_loop()
        if loop.time() - self._group.confirmed_at > _FRESH_S and not await self._group.confirm():
            await asyncio.sleep(_AGAIN_S / 4)
            return
        for partition in partitions:
            taking = self._watch(partial(self._take_one, partition))
            self._taking[partition] = asyncio.create_task(taking, name=f"taking {self._service}/{partition}")

    async def _take_one(self, partition: int) -> None:
        try:
            owner = await self._owners.take((self._service, partition), self._group.living)
        except RetryableError as error:
            _log.info("%s/%s cannot be taken over yet: %s", self._service, partition, error)
            self._not_before[partition] = asyncio.get_running_loop().time() + _AGAIN_S
        else:
            if not owner.is_lost:
                self._owned[partition] = owner
                self._change.set()
        finally:
            del self._taking[partition]
            self._due.set()


_READ_AT_ONCE = 100
_SEIZED_FOR_S = 3.0


class Members:
    """All memberships; `follow` opens a reader at the end of the ownership topic."""

    def __init__(self, owners: Owners, follow: Callable[[], Awaitable[Reader]]) -> None:
        self._owners = owners
        self._follow = follow
        self._members = list[KafkaMembership]()
        self._listening: asyncio.Task[None] | None = None
        owners.on_loss = self._lost

    async def join(self, service: str, partitions: int, standbys: int = 0) -> KafkaMembership:
        """See `Log.join`."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="kafka release requests")
        member = KafkaMembership(self._owners, service, partitions, standbys)
        self._members.append(member)
        return member

    async def close(self) -> None:
        """Leave every group, and give back everything."""
        await cancelled(self._listening)
        error = LogUnavailable("the log was closed by this process; open it again to use it")
        await asyncio.gather(*(member.end(error) for member in self._members))

    def _lost(self, owner: Owner, to_another: bool) -> None:
        for member in self._members:
            member.lost(owner, _SEIZED_FOR_S if to_another else 0.0)

    async def _listen(self) -> None:
        while True:
            with suppress(RetryableError):
                await self._follow_topic()
            await asyncio.sleep(_AGAIN_S)

    async def _follow_topic(self) -> None:
        """Follow the ownership topic. Raises: LogUnavailable; release requests written meanwhile are missed."""
        reader = await self._follow()
        try:
            while True:
                for record in await reader.poll(_READ_AT_ONCE):
                    request = release_request_of(record)
                    if request is not None:
                        with suppress(EventlibError):  # the requester fences this owner after a timeout
                            await self._owners.let_go(*request)
        finally:
            await reader.close()
